//! Files of several documents, and what is wrong with documents. What is no error here was seen to give the
//! same lines in Kubernetes' decoder.

use crate::fbc::documents;

use super::*;

/// The lines of a file, and the complaint where it ends with one.
pub(super) fn read(text: impl AsRef<[u8]>) -> String {
    let mut lines = String::new();
    let mut emit = |document: Document| {
        lines += &document.line;
        lines.push('\n');
        Ok(())
    };
    let read = documents::read(Path::new("f"), text.as_ref(), &mut emit);
    match read {
        Ok(()) => lines,
        Err(error) => lines + error.to_string().strip_prefix("\"f\" of the catalog, ").unwrap(),
    }
}

#[test]
fn documents_of_json_follow_each_other_anyhow() {
    for text in [
        "{\"a\":1}{\"b\":2}{}",
        " {\"a\":1}\n\n{\"b\":2} {}\n",
        "{\"a\":1}\n{\"b\":2}\nnull\n{}",
    ] {
        assert_eq!(read(text), "{\"a\":1}\n{\"b\":2}\n{}\n");
    }
}

#[test]
fn documents_of_yaml_are_separated() {
    let lines = "{\"a\":1}\n{\"b\":2}\n";
    for text in [
        "a: 1\n---\nb: 2",
        "---\n# nothing\n---\na: 1\n--- # c\n---\n\n---\nnull\n---\n~\n---\nb: 2\n---\n",
        "\u{feff}a: 1\r\n---\r\nb: 2\r\n",
        "{a: 1}\n---\n{b: 2}\n",
        "{\"a\":1}\n---\n{\"b\":2}\n---\n",
        "{\"a\":1}\n{b: 2}\n",
        "{\"a\":1}  \nb: 2\n",
    ] {
        assert_eq!(read(text), lines, "{text:?}");
    }
}

#[test]
fn what_follows_a_document_without_a_separator_is_left_out() {
    assert_eq!(read("a: 1\n...\nb: 2\n---\nc: 3\n"), "{\"a\":1}\n{\"c\":3}\n");
    assert_eq!(read("{a: 1}\n{b: 2}\n---\nc: 3\n"), "{\"a\":1}\n{\"c\":3}\n");
}

#[test]
fn anchors_and_merges() {
    for (text, expected) in [
        ("a: &x {k: v}\nb: *x", r#"{"a":{"k":"v"},"b":{"k":"v"}}"#),
        ("a: &x k\n*x : v", r#"{"a":"k","k":"v"}"#),
        ("a: &x 1\nb: &x 2\nc: *x", r#"{"a":1,"b":2,"c":2}"#),
        // A merge takes place where it stands.
        ("b: 1\n<<: {b: 2, c: 3}", r#"{"b":2,"c":3}"#),
        ("<<: {b: 2, c: 3}\nb: 1", r#"{"b":1,"c":3}"#),
        ("<<: [{a: 1}, {a: 2, b: 3}]", r#"{"a":1,"b":3}"#),
        (
            "x: &x {a: 1}\nz: {<<: [*x, {b: 2}]}",
            r#"{"x":{"a":1},"z":{"a":1,"b":2}}"#,
        ),
        ("'<<': {a: 1}", r#"{"<<":{"a":1}}"#),
        ("!!merge <<: {a: 1}", r#"{"a":1}"#),
        ("a: <<", r#"{"a":"<<"}"#),
        ("1: a\ntrue: b\nn: c", r#"{"1":"a","false":"c","true":"b"}"#),
    ] {
        assert_eq!(read(text), format!("{expected}\n"), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, expected) in [
        (
            "a: 1\n---\n\n- b\n",
            "document 2, line 4: a document must be an object",
        ),
        ("a\n", "document 1, line 1: a document must be an object"),
        (
            "{\"a\":1}\n\n{\"name\":1}",
            "document 2, line 3: the value of \"name\" must be a string",
        ),
        (
            "Schema: x\nPACKAGE: null\n",
            "document 1, line 1: the value of \"PACKAGE\" must be a string",
        ),
        (
            "a: 1\nA: 2\n",
            "document 1, line 1: the keys \"A\" and \"a\" differ in case only",
        ),
        (
            "ſ: 1\ns: 2\n",
            "document 1, line 1: the keys \"s\" and \"ſ\" differ in case only",
        ),
        (
            "{\"a\":1}{\"b\":2}\n{c: 1}",
            "document 3, line 2: a key in quotes was expected",
        ),
        ("{}{}\n[1]", "document 3, line 2: an object of JSON was expected"),
        (
            "{}{}\n{\"a\":[\n",
            "document 3, line 2: the file ends within a document",
        ),
        (
            "a: 1\n--- b\n",
            "document 2, line 2: text follows the separator `---` on its line",
        ),
        ("a: b\n\nc: *d\n", "document 1, line 3: "),
        ("a: b\nc: [d\n", "document 1, line "),
        (
            "a:\n  b: !!int x\n",
            "document 1, line 2: this is not what its tag says",
        ),
        (
            "a:\n  b: .inf\n",
            "document 1, line 2: JSON has no infinity, and nothing that is no number",
        ),
        (
            "a: 1\n[b]: c\n",
            "document 1, line 2: a list or a mapping can't be a key",
        ),
        ("a: 1\n~: c\n", "document 1, line 2: null can't be a key"),
        (
            "<<: 1\n",
            "document 1, line 1: only a mapping or a list of mappings can be merged with `<<`",
        ),
        ("<<: [[a]]\n", "document 1, line 1: only a mapping"),
        (
            "a: &x\n  b: [*x]\n",
            "document 1, line 2: an anchor's value contains itself",
        ),
        (
            "a: &x\n  <<: *x\n",
            "document 1, line 2: an anchor's value contains itself",
        ),
    ] {
        let read = read(text);
        let complaint = read.lines().last().unwrap();
        assert!(complaint.starts_with(expected), "{text:?}: {complaint}");
    }
    assert_eq!(read(b"a: 1\nb: \xff\n"), "document 1, line 2: this is no UTF-8");
}

#[test]
fn a_document_is_bounded() {
    let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(read(deep).starts_with("document 1, line 1: "));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(read(deep).starts_with("document 1, line 1: the document is nested too deeply"));
    let deep: String = (0..1000).map(|depth| " ".repeat(depth) + "a:\n").collect();
    assert!(read(deep).starts_with("document 1, line "));

    let mut laughs = "a0: &a0 [lol]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        laughs += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(read(laughs).contains("more than a million values, aliases expanded"));
    let mut merges = "a0: &a0 {lol: 1}\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        merges += &format!("a{level}: &a{level} {{<<: [{aliases}]}}\n");
    }
    assert!(read(merges).contains("more than a million values, aliases expanded"));
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), ["*a"; 100].join(","));
    assert!(read(long).contains("more than 64 MiB"));

    let endless = "{\"a\":\"".to_owned() + &"x".repeat(source::MAX_DOCUMENT);
    assert_eq!(
        read(endless),
        "document 1, line 1: the document has more than 32 MiB"
    );
    let endless = "# comment\n".repeat(source::MAX_DOCUMENT / 10 + 1);
    assert_eq!(
        read(endless),
        "document 1, line 1: the document has more than 32 MiB"
    );
}
