//! What is expected here is what go-yaml 2.4 and sigs.k8s.io/yaml 1.6 were seen to make of it.

use super::*;

/// As JSON, or the complaint.
fn value(tag: Tag, text: &str) -> String {
    let value = resolve(tag, text.into()).and_then(Scalar::value);
    value.map_or_else(ToOwned::to_owned, |value| {
        crate::fbc::value::line(&value).unwrap()
    })
}

fn key(text: &str) -> String {
    let key = resolve(Tag::Plain, text.into()).and_then(Scalar::key);
    key.map_or_else(ToOwned::to_owned, Cow::into_owned)
}

#[test]
fn words() {
    for text in "y Y yes Yes YES true True TRUE on On ON".split(' ') {
        assert_eq!(
            (value(Tag::Plain, text), key(text)),
            ("true".into(), "true".into()),
            "{text}"
        );
        assert_eq!(value(Tag::Str, text), format!("\"{text}\""));
    }
    for text in "n N no No NO false False FALSE off Off OFF".split(' ') {
        assert_eq!(
            (value(Tag::Plain, text), key(text)),
            ("false".into(), "false".into()),
            "{text}"
        );
    }
    for text in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(value(Tag::Plain, text), "null");
        assert_eq!(key(text), "null can't be a key");
    }
    for text in "yEs oFF tRUE nULL nO <<  = inf nan +.nan 1:30 1.2.3 1a . - + -- 0x 0o 0b 0xg 0b12".split(' ')
    {
        assert_eq!(
            value(Tag::Plain, text),
            if text.is_empty() {
                "null".into()
            } else {
                format!("\"{text}\"")
            }
        );
    }
}

#[test]
fn numbers() {
    for (text, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("+12", "12"),
        ("07", "7"),
        ("08", "8"),
        ("-017", "-15"),
        ("0o17", "15"),
        ("0X1f", "31"),
        ("-0x1F", "-31"),
        ("0b11", "3"),
        ("0b-11", "-3"),
        ("0b+1", "1"),
        ("-0b-1", "\"-0b-1\""),
        ("1_000", "1000"),
        ("1__0", "10"),
        ("0x_1", "1"),
        ("1_000.5", "1000.5"),
        ("_1", "\"_1\""),
        ("1.50", "1.5"),
        ("1.", "1"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        (".5_0", "0.5"),
        ("._5", "\"._5\""),
        (".5_", "\".5_\""),
        ("-0.0", "-0"),
        ("1e3", "1000"),
        ("12e03", "12000"),
        ("1E-7", "1e-7"),
        ("1e25", "1e+25"),
        ("1e", "\"1e\""),
        ("1e400", "\"1e400\""),
        ("2024-01-02", "\"2024-01-02\""),
        ("2001-12-14t21:59:43.10-05:00", "\"2001-12-14t21:59:43.10-05:00\""),
        // Whole numbers are kept, where catalogd rounds them.
        ("9007199254740993", "9007199254740993"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0xffffffffffffffff", "18446744073709551615"),
        ("100000000000000000000001", "100000000000000000000001"),
        ("0x10000000000000000", "\"0x10000000000000000\""),
        ("-0x8000000000000001", "\"-0x8000000000000001\""),
    ] {
        assert_eq!(value(Tag::Plain, text), expected, "{text}");
    }
    for text in [".inf", "-.INF", "+.Inf", ".nan"] {
        assert_eq!(
            value(Tag::Plain, text),
            "JSON has no infinity, and nothing that is no number"
        );
    }
}

#[test]
fn keys() {
    for (text, expected) in [
        ("12", "12"),
        ("0x1F", "31"),
        ("1.50", "1.5"),
        ("1e6", "1e+06"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-02", "2024-01-02"),
        (
            "18446744073709551615",
            "a number of 64 bits without a sign can't be a key",
        ),
        ("18446744073709551616", "1.8446744e+19"),
        ("x", "x"),
    ] {
        assert_eq!(key(text), expected, "{text}");
    }
}

#[test]
fn tags() {
    for (tag, text, expected) in [
        (Tag::Int, "0x1F", "31"),
        (Tag::Int, "1.5", MISTAGGED),
        (Tag::Float, "1", "1"),
        (Tag::Float, "x", MISTAGGED),
        (Tag::Bool, "off", "false"),
        (Tag::Bool, "1", MISTAGGED),
        (Tag::Null, "", "null"),
        (Tag::Null, "x", MISTAGGED),
        (Tag::Other, "12", "\"12\""),
        (Tag::Merge, "12", "\"12\""),
        (Tag::Binary, "aGVs\nbG8=\n", "\"hello\""),
        (Tag::Binary, "/w==", "\"\u{fffd}\""),
        (Tag::Binary, "x", "this is no base64"),
        (Tag::Timestamp, "2001-12-14", "\"2001-12-14\""),
        (Tag::Timestamp, "2001-1-4T1:2:3.5Z", "\"2001-1-4T1:2:3.5Z\""),
        (
            Tag::Timestamp,
            "2001-12-14t21:59:43-05:00",
            "\"2001-12-14t21:59:43-05:00\"",
        ),
        (
            Tag::Timestamp,
            "2001-12-14 21:59:43.10",
            "\"2001-12-14 21:59:43.10\"",
        ),
        (Tag::Timestamp, "2001-12-14T21:59:43", "this is no timestamp"),
        (Tag::Timestamp, "2001-12-14 21:59:43Z", "this is no timestamp"),
        (Tag::Timestamp, "x", "this is no timestamp"),
    ] {
        assert_eq!(value(tag, text), expected, "{tag:?} {text}");
    }
}
