//! What a scalar of YAML 1.1 stands for, as go-yaml 2 and sigs.k8s.io/yaml see it.

use std::borrow::Cow;

use base64::Engine as _;

use crate::fbc::{json::lossy, number, value::Value};

/// What a scalar stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// A whole number, as JSON has it.
    Integer(String),
    Float(f64),
    String(Cow<'a, str>),
}

/// Which tag a scalar has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// None, and no quotes either.
    Plain,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    /// That of the key `<<`; anywhere else it says nothing.
    Merge,
    /// One that says nothing here: the text stays.
    Other,
}

/// What some text with a tag stands for.
///
/// # Errors
/// The text is none of what the tag says.
pub(super) fn resolve(tag: Tag, text: Cow<'_, str>) -> Result<Scalar<'_>, &'static str> {
    match tag {
        Tag::Str | Tag::Merge | Tag::Other => return Ok(Scalar::String(text)),
        Tag::Binary => {
            return binary(&text).map(|bytes| Scalar::String(lossy(&bytes).into_owned().into()));
        }
        Tag::Timestamp if !is_timestamp(&text) => return Err("this is no timestamp"),
        Tag::Timestamp => return Ok(Scalar::String(text)),
        Tag::Plain | Tag::Bool | Tag::Int | Tag::Float | Tag::Null => {}
    }
    let scalar = plain(&text);
    Ok(match (tag, scalar) {
        (Tag::Plain, None) => Scalar::String(text),
        (Tag::Plain, Some(scalar))
        | (Tag::Bool, Some(scalar @ Scalar::Bool(_)))
        | (Tag::Int, Some(scalar @ Scalar::Integer(_)))
        | (Tag::Float, Some(scalar @ Scalar::Float(_)))
        | (Tag::Null, Some(scalar @ Scalar::Null)) => scalar,
        (Tag::Float, Some(Scalar::Integer(digits))) => match digits.parse() {
            Ok(value) => Scalar::Float(value),
            Err(_) => return Err(MISTAGGED),
        },
        _ => return Err(MISTAGGED),
    })
}

const MISTAGGED: &str = "this is not what its tag says";

/// What text without quotes stands for, if not for itself. Timestamps do.
fn plain(text: &str) -> Option<Scalar<'static>> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            // Go's own reading of floats: underscores stand between digits, and nowhere else.
            b'.' if text
                .split('_')
                .skip(1)
                .any(|part| !part.starts_with(|c: char| c.is_ascii_digit())) =>
            {
                return None;
            }
            b'.' if text
                .split('_')
                .rev()
                .skip(1)
                .any(|part| !part.ends_with(|c: char| c.is_ascii_digit())) =>
            {
                return None;
            }
            b'.' => float(&text.replace('_', ""))?,
            b'+' | b'-' | b'0'..=b'9' => {
                let text = text.replace('_', "");
                integer(&text).map(Scalar::Integer).or_else(|| float(&text))?
            }
            _ => return None,
        },
    })
}

fn float(text: &str) -> Option<Scalar<'static>> {
    // Digits, with a point among or beside them, and perhaps an exponent: no `inf`, no `nan`, nothing of hex.
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, power) = match unsigned.split_once(['e', 'E']) {
        Some((digits, power)) => (digits, Some(power.strip_prefix(['+', '-']).unwrap_or(power))),
        None => (unsigned, None),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let valid = is_digits(whole)
        && is_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && power.is_none_or(|power| !power.is_empty() && is_digits(power));
    let value: f64 = valid.then(|| text.parse().ok())??;
    value.is_finite().then_some(Scalar::Float(value))
}

/// A whole number: with a sign, with a prefix for its base, and a zero in front means octal. Decimal ones may
/// be of any length, and are kept as they are.
fn integer(text: &str) -> Option<String> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        // go-yaml looks twice: a sign may stand behind the prefix as well.
        [b'0', b'b', b'-', ..] if text.starts_with('0') => return signed(true, 2, &unsigned[3..]),
        [b'0', b'b', b'+', ..] if text.starts_with('0') => return signed(false, 2, &unsigned[3..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if base == 10 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let zero = digits == "0";
        return Some(if negative && !zero {
            format!("-{digits}")
        } else {
            digits.to_owned()
        });
    }
    signed(negative, base, digits)
}

/// What does not fit into 64 bits is no number to go-yaml, unless it is decimal.
fn signed(negative: bool, base: u32, digits: &str) -> Option<String> {
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return (value <= 1 << 63).then(|| (-i128::from(value)).to_string());
    }
    Some(value.to_string())
}

fn binary(text: &str) -> Result<Vec<u8>, &'static str> {
    let text: String = text.chars().filter(|char| !matches!(char, '\n' | '\r')).collect();
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|_| "this is no base64")
}

/// Whether text is a date, or a date and a time, in a way that go-yaml knows. Asked for tagged text only, for
/// timestamps stay text anyway; so days beyond the end of their month pass here.
fn is_timestamp(text: &str) -> bool {
    let in_range = |text: &str, longest: usize, range: std::ops::RangeInclusive<u32>| {
        (1..=longest).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse().is_ok_and(|value| range.contains(&value))
    };
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut part = || parts.next().unwrap_or_default();
    let date = part().len() == 4 && in_range(&date[..4], 4, 0..=9999) && in_range(part(), 2, 1..=12);
    let date = date && in_range(part(), 2, 1..=31) && parts.next().is_none();
    let Some(time) = time else { return date };
    let zoned = !text.contains(' ');
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    let zone = match zone.as_bytes() {
        [] => !zoned,
        b"Z" => zoned,
        [_, _, _, b':', ..] => {
            zoned && zone.is_ascii() && in_range(&zone[1..3], 2, 0..=24) && in_range(&zone[4..], 2, 0..=60)
        }
        _ => false,
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let mut part = || parts.next().unwrap_or_default();
    let clock = in_range(part(), 2, 0..=23) && in_range(part(), 2, 0..=59) && in_range(part(), 2, 0..=59);
    date && clock
        && zone
        && parts.next().is_none()
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

impl<'a> Scalar<'a> {
    /// As a value of JSON.
    ///
    /// # Errors
    /// JSON has no such value.
    pub(super) fn value(self) -> Result<Value<'a>, &'static str> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Integer(digits) => Value::Number(digits.into()),
            Self::Float(value) if value.is_finite() => Value::Number(number::float(value).into()),
            Self::Float(_) => return Err("JSON has no infinity, and nothing that is no number"),
            Self::String(text) => Value::String(text),
        })
    }

    /// As a key of JSON.
    ///
    /// # Errors
    /// It can't be one.
    pub(super) fn key(self) -> Result<Cow<'a, str>, &'static str> {
        Ok(match self {
            Self::Null => return Err("null can't be a key"),
            Self::Bool(value) => if value { "true" } else { "false" }.into(),
            Self::Integer(digits) if digits.parse::<i64>().is_ok() => digits.into(),
            Self::Integer(digits) => match digits.parse::<u64>() {
                // sigs.k8s.io/yaml forgot that type.
                Ok(_) => return Err("a number of 64 bits without a sign can't be a key"),
                Err(_) => number::key(digits.parse().unwrap_or(f64::INFINITY)).into(),
            },
            Self::Float(value) => number::key(value).into(),
            Self::String(text) => text,
        })
    }
}

#[cfg(test)]
mod tests;
