use std::{fs, io::Read as _};

use flate2::read::GzDecoder;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{fixture::Stored, *};

const DOCUMENTS: [&str; 6] = [
    r#"{"schema":"olm.package","name":"a"}"#,
    r#"{"schema":"olm.channel","package":"a","name":"stable"}"#,
    r#"{"schema":"olm.bundle","package":"a","name":"a.v1"}"#,
    r#"{"package":"a","name":"a.v1"}"#,
    r#"{"schema":"olm.channel","package":"b","name":"stable"}"#,
    r#"{"schema":"olm.package","name":"é"}"#,
];

fn query(schema: &str, package: &str, name: &str) -> Query {
    Query {
        schema: Some(schema.into()),
        package: Some(package.into()),
        name: Some(name.into()),
    }
}

async fn all(content: &Content, coding: Coding, sections: Vec<Section>) -> io::Result<Vec<u8>> {
    let chunks: Vec<Bytes> = content.read(coding, sections).try_collect().await?;
    assert!(chunks.iter().all(|chunk| chunk.len() as u64 <= CHUNK));
    Ok(chunks.concat())
}

fn whole(content: &Content, coding: Coding) -> Vec<Section> {
    vec![Section {
        offset: 0,
        length: content.length(coding),
    }]
}

#[tokio::test]
async fn queries_find_what_catalogd_finds() {
    let content = Stored::new(DOCUMENTS).open();
    for (wanted, found) in [
        (Query::default(), &[0, 1, 2, 3, 4, 5][..]),
        (query("", "", ""), &[0, 1, 2, 3, 4, 5]),
        (query("olm.package", "", ""), &[0, 5]),
        // A package has no package, and what has no schema is never found by a filter.
        (query("", "a", ""), &[1, 2]),
        (query("", "", "a.v1"), &[2]),
        (query("", "", "stable"), &[1, 4]),
        (query("olm.channel", "b", "stable"), &[4]),
        (query("", "", "é"), &[5]),
        (query("olm.bundle", "b", ""), &[]),
        (query("nonsense", "", ""), &[]),
    ] {
        let expected: String = found.iter().map(|at| format!("{}\n", DOCUMENTS[*at])).collect();
        let read = all(&content, Coding::Identity, content.find(&wanted))
            .await
            .unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), expected, "{wanted:?}");
    }
    assert_eq!(
        content.find(&query("", "a", "")).len(),
        1,
        "neighbours are one section"
    );
    assert_eq!(Stored::new([""; 0]).open().find(&Query::default()), []);
}

#[tokio::test]
async fn content_outlives_its_directory_in_all_codings() {
    let documents = (0..20_000).map(|at| format!(r#"{{"schema":"s{}","name":"n{at}"}}"#, at % 3));
    let stored = Stored::new(documents);
    let (content, bytes) = (stored.open(), stored.bytes.clone());
    assert!(bytes.len() as u64 > 4 * CHUNK);
    drop(stored);
    assert_eq!(
        all(&content, Coding::Identity, whole(&content, Coding::Identity))
            .await
            .unwrap(),
        bytes
    );
    let gzip = all(&content, Coding::Gzip, whole(&content, Coding::Gzip))
        .await
        .unwrap();
    let mut inflated = Vec::new();
    GzDecoder::new(&*gzip).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, bytes);
    let zstd = all(&content, Coding::Zstd, whole(&content, Coding::Zstd))
        .await
        .unwrap();
    assert_eq!(zstd::decode_all(&*zstd).unwrap(), bytes);

    // Thousands of small sections come in few chunks.
    let sections = content.find(&query("s1", "", ""));
    assert!(sections.len() > 6_000);
    let total: u64 = sections.iter().map(|section| section.length).sum();
    let chunks = content.read(Coding::Identity, sections).count().await;
    assert_eq!(chunks as u64, total.div_ceil(CHUNK));
}

#[tokio::test]
async fn a_file_that_lost_its_end_is_an_error_and_then_nothing() {
    let stored = Stored::new(DOCUMENTS);
    let content = stored.open();
    let section = whole(&content, Coding::Identity)[0];
    let file = File::options()
        .write(true)
        .open(stored.path().join("catalog.jsonl"))
        .unwrap();
    file.set_len(10).unwrap();
    let read: Vec<_> = content
        .read(Coding::Identity, vec![section, section])
        .collect()
        .await;
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].as_ref().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn each_file_is_needed_and_named() {
    for file in [
        "catalog.jsonl",
        "catalog.jsonl.gz",
        "catalog.jsonl.zst",
        "index.json",
    ] {
        let stored = Stored::new(DOCUMENTS);
        fs::remove_file(stored.path().join(file)).unwrap();
        let error = Content::open(stored.path(), String::new(), Stored::modified()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with(&format!("{file}: ")), "{error}");
    }
}

#[test]
fn an_index_of_something_else_is_refused() {
    for index in [
        "",
        "{}",
        r#"{"documents":[[0,1000000,"","",""]]}"#,
        r#"{"documents":[[18446744073709551615,2,"","",""]]}"#,
        r#"{"documents":[[5,2,"","",""],[0,2,"","",""]]}"#,
        r#"{"documents":[[0,2,"",""]]}"#,
    ] {
        let stored = Stored::new(DOCUMENTS);
        fs::write(stored.path().join("index.json"), index).unwrap();
        assert!(
            Content::open(stored.path(), String::new(), Stored::modified()).is_err(),
            "{index}"
        );
    }
}
