//! What holds for any document.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::streams::read;

/// Any value of JSON, but for floats that are whole, which lose their point, and such as serde_json reads a
/// little beside.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| (f64::from(number) + 0.25).into()),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~\u{85}\u{2028}\u{feff}\n\t]{0,12}",
        "yes|~|0x1F|1e3|<<|-|---"
    ]
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((text(), value), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}

/// A document that has none of the keys that have a meaning, nor keys that differ in case only.
fn document() -> impl Strategy<Value = Value> {
    prop::collection::vec(value(), 0..4).prop_map(|values| {
        let pairs = values.into_iter().enumerate();
        Value::Object(
            pairs
                .map(|(index, value)| (format!("key {index}"), value))
                .collect(),
        )
    })
}

/// A value as YAML, in blocks as far as it can be.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let space = " ".repeat(indent);
    match value {
        Value::Array(values) if !values.is_empty() => {
            for value in values {
                write!(out, "\n{space}-").unwrap();
                yaml(value, indent + 1, out);
            }
        }
        Value::Object(values) if !values.is_empty() => {
            for (key, value) in values {
                write!(out, "\n{space}? {}\n{space}:", quoted(key)).unwrap();
                yaml(value, indent + 1, out);
            }
        }
        Value::String(text) => write!(out, " {}", quoted(text)).unwrap(),
        other => write!(out, " {other}").unwrap(),
    }
}

/// In double quotes, with escapes that YAML knows: all but plain ASCII.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            ' '..='~' => out.push(char),
            _ => write!(out, "\\U{:08x}", u32::from(char)).unwrap(),
        }
    }
    out + "\""
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn json_and_yaml_are_rendered_the_same(document in document()) {
        let json = read(serde_json::to_string(&document).unwrap());
        let pretty = read(serde_json::to_string_pretty(&document).unwrap());
        let mut text = String::new();
        yaml(&document, 0, &mut text);
        prop_assert_eq!(&json, &pretty);
        prop_assert_eq!(&json, &read(&text), "{}", text);
        // It means what it meant, and is rendered the same again.
        let again: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&again, &document);
        prop_assert_eq!(&json, &read(&json));
    }

    #[test]
    fn floats_are_what_they_were(value in any::<f64>()) {
        prop_assert_eq!(crate::fbc::number::float(value).parse::<f64>().unwrap(), value);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
    }

    #[test]
    fn whatever_looks_like_yaml_is_read_without_a_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "a: b", "- c", "  d: e", "? g", ": h", "&i ", "*i", "<<: *i", "!!str ", "!!binary ", "|", ">", "\n", " ",
                "\t", "{", "}", "[", "]", ",", "---", "...", "# k", "'", "\"", "1e3", "{\"a\":1}", "%YAML 1.1", "\u{feff}",
            ]),
            0..30,
        ),
    ) {
        read(pieces.concat());
    }
}
