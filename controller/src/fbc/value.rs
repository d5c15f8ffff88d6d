//! A value of JSON, and how it is written.

use std::{borrow::Cow, collections::BTreeMap};

/// How deep a document may be. Published ones are 40 deep at most; who reads and writes them recurses.
pub(super) const MAX_DEPTH: usize = 400;
/// How many values a document may have, aliases expanded.
pub(super) const MAX_VALUES: usize = 1_000_000;
/// How long a line may become: aliases can make it longer than what it is made of.
const MAX_LINE: usize = 2 * super::source::MAX_DOCUMENT;

/// A value that borrows from its source what it can.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    /// Sorted by the bytes of the keys, as Go sorts maps that it writes.
    Object(BTreeMap<Cow<'a, str>, Value<'a>>),
}

/// The line of a value; none, if it would be too long.
pub(super) fn line(value: &Value<'_>) -> Option<String> {
    let mut line = String::new();
    write(value, &mut line)?;
    Some(line)
}

fn write(value: &Value<'_>, line: &mut String) -> Option<()> {
    match value {
        Value::Null => line.push_str("null"),
        Value::Bool(value) => line.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => line.push_str(number),
        Value::String(text) => string(text, line),
        Value::Array(values) => {
            line.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                write(value, line)?;
            }
            line.push(']');
        }
        Value::Object(values) => {
            line.push('{');
            for (index, (key, value)) in values.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                string(key, line);
                line.push(':');
                write(value, line)?;
            }
            line.push('}');
        }
    }
    (line.len() <= MAX_LINE).then_some(())
}

/// Escapes what Go's encoding/json escapes where it was told to leave HTML alone.
fn string(text: &str, line: &mut String) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    line.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        // The separators U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
        let separator =
            byte == 0xE2 && matches!(text.as_bytes().get(at + 1..at + 3), Some([0x80, 0xA8 | 0xA9]));
        if byte >= 0x20 && byte != b'"' && byte != b'\\' && !separator {
            continue;
        }
        line.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => line.push_str("\\\""),
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x08 => line.push_str("\\b"),
            0x0C => line.push_str("\\f"),
            0xE2 => {
                let second = text.as_bytes()[at + 2] == 0xA9;
                line.push_str(if second { "\\u2029" } else { "\\u2028" });
                plain = at + 3;
            }
            other => {
                line.push_str("\\u00");
                line.push(HEX[usize::from(other >> 4)]);
                line.push(HEX[usize::from(other & 15)]);
            }
        }
    }
    line.push_str(&text[plain..]);
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        line(&Value::String(text.into())).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        assert_eq!(of("<b> & 'é' 日 😀 \u{7f}"), "\"<b> & 'é' 日 😀 \u{7f}\"");
        assert_eq!(of("a\u{2028}b\u{2029}c\u{2027}"), "\"a\\u2028b\\u2029c\u{2027}\"");
        assert_eq!(
            of("\"\\/\n\r\t\u{8}\u{c}\u{0}\u{1f}"),
            r#""\"\\/\n\r\t\b\f\u0000\u001f""#
        );
    }

    #[test]
    fn keys_are_sorted_by_bytes() {
        let object: BTreeMap<_, _> = ["b", "a", "Z", "é", "", "aa"]
            .map(|key| (Cow::Borrowed(key), Value::Null))
            .into();
        assert_eq!(
            line(&Value::Object(object)).unwrap(),
            r#"{"":null,"Z":null,"a":null,"aa":null,"b":null,"é":null}"#
        );
    }

    #[test]
    fn a_line_has_a_limit() {
        let text = "x".repeat(MAX_LINE / 8);
        let values = vec![Value::String(Cow::Borrowed(text.as_str())); 9];
        assert_eq!(line(&Value::Array(values)), None);
    }
}
