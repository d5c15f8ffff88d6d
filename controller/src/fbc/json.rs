//! Reads JSON as Go's encoding/json does: what is no UTF-8 becomes U+FFFD, and so does half a surrogate pair;
//! of keys that are there twice the last one counts. Whole numbers stay as they are.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    Problem, number,
    source::newlines,
    value::{MAX_DEPTH, MAX_VALUES, Value},
};

/// Reads a document that is all there is.
pub(super) fn parse(text: &[u8]) -> Result<Value<'_>, Problem> {
    let mut parser = Parser {
        text,
        at: 0,
        values: 0,
    };
    parser.document().map_err(|what| {
        let read = &text[..parser.at.min(text.len())];
        Problem {
            line: newlines(read),
            what: what.to_owned(),
        }
    })
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    values: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn document(&mut self) -> Parsed<Value<'a>> {
        let value = self.value(0)?;
        match self.next() {
            None => Ok(value),
            Some(_) => Err("more follows the document"),
        }
    }

    /// The next byte that is no white space; it stays.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err("the document has more than a million values");
        }
        if depth > MAX_DEPTH {
            return Err("the document is nested too deeply");
        }
        match self.next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => Err("a value of JSON was expected"),
            None => Err("the document ends too early"),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Parsed<Value<'a>> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err("a value of JSON was expected");
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut values = Vec::new();
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(values));
                }
                _ => return Err("a comma or the end of an array was expected"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut values = BTreeMap::new();
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(values));
        }
        loop {
            if self.next() != Some(b'"') {
                return Err("a key in quotes was expected");
            }
            let key = self.string()?;
            if self.next() != Some(b':') {
                return Err("a colon was expected");
            }
            self.at += 1;
            values.insert(key, self.value(depth + 1)?);
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(values));
                }
                _ => return Err("a comma or the end of an object was expected"),
            }
        }
    }

    fn digits(&mut self) -> Parsed<()> {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        self.at += length;
        if length == 0 {
            Err("a digit was expected")
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Parsed<Value<'a>> {
        let start = self.at;
        let has = |parser: &Self, bytes: &[u8]| parser.text.get(parser.at).is_some_and(|b| bytes.contains(b));
        if has(self, b"-") {
            self.at += 1;
        }
        if has(self, b"0") {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if has(self, b".") {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if has(self, b"eE") {
            whole = false;
            self.at += 1;
            if has(self, b"+-") {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = str::from_utf8(&self.text[start..self.at]).map_err(|_| "a number was expected")?;
        if whole {
            return Ok(Value::Number(Cow::Borrowed(text)));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Number(number::float(value).into())),
            _ => Err("the number is too large"),
        }
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let mut made: Option<String> = None;
        loop {
            let rest = &self.text[self.at..];
            let length = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                .ok_or("a string does not end")?;
            let piece = lossy(&rest[..length]);
            self.at += length + 1;
            match rest[length] {
                b'"' => {
                    return Ok(match made {
                        None => piece,
                        Some(made) => Cow::Owned(made + &piece),
                    });
                }
                b'\\' => {
                    let made = made.get_or_insert_default();
                    made.push_str(&piece);
                    made.push(self.escape()?);
                }
                _ => {
                    self.at -= 1;
                    return Err("a string holds a control character");
                }
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let byte = self.text.get(self.at).ok_or("a string does not end")?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if !(0xD800..0xDC00).contains(&first) {
                    return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                if !self.text[self.at..].starts_with(b"\\u") {
                    return Ok(char::REPLACEMENT_CHARACTER);
                }
                let before = self.at;
                self.at += 2;
                let second = self.hex()?;
                if (0xDC00..0xE000).contains(&second) {
                    let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                // What follows stands for itself.
                self.at = before;
                char::REPLACEMENT_CHARACTER
            }
            _ => return Err("a backslash in a string is followed by none of its letters"),
        })
    }

    fn hex(&mut self) -> Parsed<u32> {
        const WHAT: &str = "four hexadecimal digits were expected";
        let digits = self.text.get(self.at..self.at + 4).ok_or(WHAT)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(WHAT);
        }
        self.at += 4;
        let digits = str::from_utf8(digits).map_err(|_| WHAT)?;
        u32::from_str_radix(digits, 16).map_err(|_| WHAT)
    }
}

/// Go replaces every byte that is no UTF-8; Rust's own function makes one replacement of several.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests;
