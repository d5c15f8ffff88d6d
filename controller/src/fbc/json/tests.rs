use super::*;
use crate::fbc::value::line;

/// As it is written again, or where and what is wrong.
fn read(text: &[u8]) -> String {
    match parse(text) {
        Ok(value) => line(&value).unwrap(),
        Err(problem) => format!("{}: {}", problem.line, problem.what),
    }
}

#[test]
fn values() {
    for (text, expected) in [
        (" {\"b\" : [ ] , \"a\":{ } } ", r#"{"a":{},"b":[]}"#),
        ("[1,true,false,null,\"x\"]", r#"[1,true,false,null,"x"]"#),
        (r#"{"a":{"b":1},"a":{"c":2}}"#, r#"{"a":{"c":2}}"#),
        ("[-0,-0.0,1.50,1E3,0.1e-7]", "[-0,-0,1.5,1000,1e-8]"),
        (
            "[9007199254740993,123456789012345678901234567890]",
            "[9007199254740993,123456789012345678901234567890]",
        ),
    ] {
        assert_eq!(read(text.as_bytes()), expected);
    }
}

#[test]
fn strings() {
    for (text, expected) in [
        (
            &br#""\u00e9\ud83d\ude00\/\"\\\b\f\n\r\t""#[..],
            "\"é😀/\\\"\\\\\\b\\f\\n\\r\\t\"",
        ),
        (br#""\ud800""#, "\"\u{fffd}\""),
        (br#""\ud800A""#, "\"\u{fffd}A\""),
        (br#""\ud800\u0041""#, "\"\u{fffd}A\""),
        (br#""\udc00x""#, "\"\u{fffd}x\""),
        (br#""\ud800\ud83d\ude00""#, "\"\u{fffd}😀\""),
        (b"\"\xff\xfe\xe2\x82x\"", "\"\u{fffd}\u{fffd}\u{fffd}\u{fffd}x\""),
        (
            br#""\x""#,
            "0: a backslash in a string is followed by none of its letters",
        ),
        (br#""\u12""#, "0: four hexadecimal digits were expected"),
        (br#""\u+123""#, "0: four hexadecimal digits were expected"),
        (b"\"a\tb\"", "0: a string holds a control character"),
        (b"\"a", "0: a string does not end"),
        (b"\"a\\", "0: a string does not end"),
    ] {
        assert_eq!(read(text), expected);
    }
}

#[test]
fn what_is_no_json() {
    for (text, expected) in [
        ("", "0: the document ends too early"),
        ("{\"a\":1,\n\n}", "2: a key in quotes was expected"),
        ("{\"a\"\n1}", "1: a colon was expected"),
        ("{\"a\":1 2}", "0: a comma or the end of an object was expected"),
        ("[1,]", "0: a value of JSON was expected"),
        ("[1 2]", "0: a comma or the end of an array was expected"),
        ("[01]", "0: a comma or the end of an array was expected"),
        ("[1.]", "0: a digit was expected"),
        ("[-]", "0: a digit was expected"),
        ("[1e]", "0: a digit was expected"),
        ("[1e400]", "0: the number is too large"),
        ("[tru]", "0: a value of JSON was expected"),
        ("{} {}", "0: more follows the document"),
    ] {
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn depth_and_number_of_values_are_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(read(nested(MAX_DEPTH + 1).as_bytes()), nested(MAX_DEPTH + 1));
    assert_eq!(
        read(nested(MAX_DEPTH + 2).as_bytes()),
        "0: the document is nested too deeply"
    );
    let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
    assert_eq!(
        read(many.as_bytes()),
        "0: the document has more than a million values"
    );
}
