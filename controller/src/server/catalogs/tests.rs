use flate2::read::GzDecoder;
use prometheus_client::registry::Registry;

use super::{
    super::{
        fixture::{Answer, ask},
        https,
        tests::{builder, listen},
    },
    *,
};
use crate::{content::fixture::Stored, tls::fixture::Files};

/// A catalog that is `here`, and one that will be `ready` later.
#[derive(Debug)]
struct Fixed(Arc<Content>);

impl Catalogs for Fixed {
    fn look(&self, name: &str) -> Look {
        match name {
            "here" => Look::Here(Arc::clone(&self.0)),
            "ready" => Look::Unavailable {
                reason: "its image is being pulled".to_owned(),
                retry_after: Duration::from_millis(2_100),
            },
            _ => Look::Unknown,
        }
    }
}

type Headers<'a> = &'a [(&'a str, &'a str)];

const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

fn large() -> Stored {
    let bundle = |n: usize| {
        let schema = if n.is_multiple_of(2) {
            "olm.bundle"
        } else {
            "olm.channel"
        };
        let padding = "x".repeat(100);
        format!(r#"{{"name":"n{n}","padding":"{padding}","package":"p","schema":"{schema}"}}"#)
    };
    let loose = r#"{"name":"loose","package":"p"}"#.to_owned();
    Stored::new((0..100).map(bundle).chain([loose]))
}

fn router(stored: &Stored, metas: bool) -> Router {
    let requests = Requests::register(&mut Registry::default());
    catalogs(Arc::new(Fixed(Arc::new(stored.open()))), metas, &requests)
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let mut bytes = Vec::new();
    match answer.header("content-encoding") {
        "gzip" => drop(std::io::copy(&mut GzDecoder::new(&*answer.body), &mut bytes).unwrap()),
        "zstd" => bytes = zstd::decode_all(&*answer.body).unwrap(),
        _ => bytes.clone_from(&answer.body),
    }
    bytes
}

#[tokio::test]
async fn refusals_are_catalogds() {
    let stored = large();
    let (with, without) = (router(&stored, true), router(&stored, false));
    for (method, path, status, body) in [
        ("GET", "/", 404, "404 page not found\n"),
        ("GET", "/catalogs/here/api/v1/all/", 404, "404 page not found\n"),
        (
            "GET",
            "/catalogs/here/api/v1/graphql",
            404,
            "404 page not found\n",
        ),
        ("GET", "/catalogs/other/api/v1/all", 404, "404 Not Found\n"),
        ("HEAD", "/catalogs/other/api/v1/all", 404, ""),
        ("GET", "/catalogs/other/api/v1/metas", 404, "404 Not Found\n"),
        ("POST", "/catalogs/here/api/v1/all", 405, "Method Not Allowed\n"),
        (
            "OPTIONS",
            "/catalogs/here/api/v1/metas",
            405,
            "Method Not Allowed\n",
        ),
        (
            "GET",
            "/catalogs/other/api/v1/metas?bogus=1",
            400,
            "400 Bad Request\n",
        ),
        (
            "GET",
            "/catalogs/ready/api/v1/all",
            503,
            "its image is being pulled\n",
        ),
    ] {
        let answer = ask(&with, method, path, &[]).await;
        assert_eq!((answer.status, answer.text()), (status, body), "{method} {path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(answer.header("allow"), "");
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        assert_eq!(answer.header("retry-after"), if status == 503 { "3" } else { "" });
    }
    for name in ["UP", "-a", "a-", "a..b", "a_b", "a%2Fb", "%20", &"a".repeat(254)] {
        for route in ["all", "metas?bogus=1"] {
            let answer = ask(&with, "GET", &format!("/catalogs/{name}/api/v1/{route}"), &[]).await;
            assert_eq!(answer.status, 400, "{name}");
            assert!(answer.text().contains("can't be the name of a catalog"), "{name}");
        }
    }
    let off = ask(&without, "GET", "/catalogs/here/api/v1/metas", &[]).await;
    assert_eq!((off.status, off.text()), (404, "404 page not found\n"));
}

#[tokio::test]
async fn paths_are_cleaned() {
    let router = router(&large(), true);
    for (path, clean) in [
        ("//catalogs//here/api/v1/all", "/catalogs/here/api/v1/all"),
        (
            "/catalogs/./here/../x/api/v1/all?a=//b",
            "/catalogs/x/api/v1/all?a=//b",
        ),
        ("/../..//evil.example/", "/evil.example/"),
    ] {
        let answer = ask(&router, "GET", path, &[]).await;
        assert_eq!((answer.status, answer.header("location")), (307, clean), "{path}");
    }
}

#[tokio::test]
async fn all_is_sent_in_the_coding_that_is_wanted() {
    let stored = large();
    let router = router(&stored, true);
    let length = stored.bytes.len().to_string();
    for path in ["all", "metas", "metas?schema=&name="] {
        let path = format!("/catalogs/here/api/v1/{path}");
        for (accepted, coding, suffix) in [
            ("", "", ""),
            ("gzip", "gzip", "-gzip"),
            ("gzip, zstd", "zstd", "-zstd"),
        ] {
            let answer = ask(&router, "GET", &path, &[("accept-encoding", accepted)]).await;
            assert_eq!(
                (answer.status, answer.header("content-encoding")),
                (200, coding),
                "{path}"
            );
            assert_eq!(answer.header("content-type"), "application/jsonl");
            assert_eq!(answer.header("last-modified"), DATE);
            assert_eq!(answer.header("vary"), "Accept-Encoding");
            assert_eq!(answer.header("etag"), format!("\"{}{suffix}\"", stored.digest()));
            assert_eq!(answer.header("content-length"), answer.body.len().to_string());
            let ranges = coding.is_empty() && path.ends_with("all");
            assert_eq!(
                answer.header("accept-ranges"),
                if ranges { "bytes" } else { "" },
                "{path}"
            );
            assert!(decoded(&answer) == stored.bytes, "{path} {accepted}");
        }
        let head = ask(
            &router,
            "HEAD",
            &path,
            &[("accept-encoding", "gzip"), ("range", "bytes=0-1")],
        )
        .await;
        assert_eq!((head.status, head.header("content-encoding")), (200, ""));
        assert_eq!((head.header("content-length"), head.body.len()), (&*length, 0));
    }
}

#[tokio::test]
async fn what_is_small_is_not_compressed_and_what_is_empty_is_sent() {
    let (small, empty) = (Stored::new(["{\"schema\":\"a\"}"]), Stored::new([""; 0]));
    for stored in [small, empty] {
        let headers = [("accept-encoding", "gzip, zstd"), ("range", "lines=1")];
        let answer = ask(
            &router(&stored, false),
            "GET",
            "/catalogs/here/api/v1/all",
            &headers,
        )
        .await;
        assert_eq!((answer.status, answer.header("content-encoding")), (200, ""));
        assert_eq!(answer.body, stored.bytes);
    }
}

#[tokio::test]
async fn metas_finds_documents() {
    let stored = large();
    let router = router(&stored, true);
    let lines: Vec<&str> = std::str::from_utf8(&stored.bytes).unwrap().lines().collect();
    for (query, found) in [
        ("schema=olm.bundle", (0..100).step_by(2).collect::<Vec<_>>()),
        ("schema=olm.bundle&schema=olm.channel&name=n4", vec![4]),
        ("package=p&name=n7&schema=", vec![7]),
        ("package=p", (0..100).collect()),
        ("name=n%34", vec![4]),
        ("name=loose", vec![]),
        ("name=nosuch", vec![]),
    ] {
        let path = format!("/catalogs/here/api/v1/metas?{query}");
        let headers = [("accept-encoding", "gzip"), ("range", "bytes=0-1")];
        let answer = ask(&router, "GET", &path, &headers).await;
        let expected: String = found.iter().map(|line| format!("{}\n", lines[*line])).collect();
        assert_eq!((answer.status, answer.text()), (200, &*expected), "{query}");
        assert_eq!(answer.header("content-length"), expected.len().to_string());
        assert_eq!(answer.header("accept-ranges"), "");
        let head = ask(&router, "HEAD", &path, &[]).await;
        assert_eq!(head.header("content-length"), expected.len().to_string());
    }
}

#[tokio::test]
async fn conditions_and_ranges_of_all() {
    let stored = large();
    let router = router(&stored, true);
    let (length, digest) = (stored.bytes.len(), stored.digest());
    let (tag, gzip) = (format!("\"{digest}\""), format!("\"{digest}-gzip\""));
    let cases: &[(Headers<'_>, u16, &str)] = &[
        (&[("if-modified-since", DATE)], 304, ""),
        (&[("if-modified-since", "nonsense")], 200, ""),
        (&[("if-none-match", &tag)], 304, ""),
        (&[("if-none-match", &gzip), ("accept-encoding", "gzip")], 304, ""),
        (&[("if-match", "\"x\"")], 412, ""),
        (&[("range", "bytes=1-3")], 206, "bytes 1-3/"),
        (
            &[("range", "bytes=1-3"), ("accept-encoding", "gzip")],
            206,
            "bytes 1-3/",
        ),
        (&[("range", "bytes=1-3"), ("if-range", &tag)], 206, "bytes 1-3/"),
        (&[("range", "bytes=1-3"), ("if-range", &gzip)], 200, ""),
        (&[("range", "bytes=0-1,3-4")], 200, ""),
        (&[("range", "bytes=1000000-")], 416, "bytes */"),
        (&[("range", "bytes=1-3"), ("if-none-match", "*")], 304, ""),
    ];
    for (headers, status, range) in cases {
        let answer = ask(&router, "GET", "/catalogs/here/api/v1/all", headers).await;
        assert_eq!(answer.status, *status, "{headers:?}");
        let range = if range.is_empty() {
            String::new()
        } else {
            format!("{range}{length}")
        };
        assert_eq!(answer.header("content-range"), range, "{headers:?}");
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        match status {
            206 => {
                assert_eq!(answer.body, stored.bytes[1..4]);
                assert_eq!(
                    (answer.header("content-length"), answer.header("etag")),
                    ("3", &*tag)
                );
                assert_eq!(answer.header("content-encoding"), "");
            }
            304 => {
                assert_eq!((answer.body.len(), answer.header("content-type")), (0, ""));
                assert_eq!(answer.header("last-modified"), DATE);
                assert!(answer.header("etag").starts_with(&tag[..10]));
            }
            _ => {}
        }
        // What `metas` finds is held against the same conditions.
        if matches!(status, 304 | 412) {
            let path = "/catalogs/here/api/v1/metas?name=n1";
            assert_eq!(ask(&router, "GET", path, headers).await.status, *status);
        }
    }
}

#[tokio::test]
async fn over_a_network_both_versions_of_http_get_the_same() {
    let (stored, files) = (large(), Files::new());
    let (router, tls) = (router(&stored, true), files.load("modern").await);
    let (listener, address) = listen();
    let serving = tokio::spawn(async move { https(listener, router, &tls, std::future::pending()).await });
    let pem = std::fs::read_to_string(files.cert()).unwrap();
    let url = format!("https://localhost:{}/catalogs/here/api/v1/all", address.port());
    for client in [builder(&pem, address).http1_only(), builder(&pem, address)] {
        let client = client.build().unwrap();
        let length = Some(stored.bytes.len() as u64);
        // One connection serves all of these, so each response must end where it says.
        for (method, name, value, status, body) in [
            (Method::GET, "x", "", 200, &*stored.bytes),
            (Method::HEAD, "x", "", 200, &[]),
            (Method::GET, "range", "bytes=2-5", 206, &stored.bytes[2..6]),
            (Method::GET, "if-modified-since", DATE, 304, &[]),
            (Method::GET, "if-none-match", "\"x\"", 200, &stored.bytes),
        ] {
            let request = client.request(method.clone(), &url).header(name, value);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), status);
            if status == 200 {
                let said = response.headers()[header::CONTENT_LENGTH].to_str().unwrap();
                assert_eq!(said.parse().ok(), length, "{method}");
            }
            // It would be the content's length, which is not 0.
            let said_nothing = !response.headers().contains_key(header::CONTENT_LENGTH);
            assert!(said_nothing || status != 304, "{:?}", response.headers());
            assert!(response.bytes().await.unwrap() == *body, "{method} {name}");
        }
        let zstd = client
            .get(&url)
            .header("accept-encoding", "zstd")
            .send()
            .await
            .unwrap();
        assert_eq!(zstd.headers()[header::CONTENT_ENCODING], "zstd");
        let zstd = zstd.bytes().await.unwrap();
        assert!(zstd::decode_all(&*zstd).unwrap() == stored.bytes);
    }
    serving.abort();
}
