//! Numbers in headers: octal text, or GNU's base-256 for what does not fit.

/// `None`: no number, or one that is negative or too large. An empty field is 0.
pub(super) fn parse(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        return base256(field);
    }
    // Some writers put NULs or spaces before the digits. Other readers skip both, and so must we, or they
    // would see another size than we do.
    let is_padding = |byte: &u8| *byte == 0 || *byte == b' ';
    let start = field.iter().position(|byte| !is_padding(byte));
    let end = field.iter().rposition(|byte| !is_padding(byte));
    let (Some(start), Some(end)) = (start, end) else {
        return Some(0);
    };
    let digits = field[start..=end].split(|byte| *byte == 0).next()?;
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value = value.checked_mul(8)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Big-endian two's complement; the first bit marks the format, the second is the sign.
fn base256(field: &[u8]) -> Option<u64> {
    if field[0] & 0x40 != 0 {
        return None;
    }
    let mut value = u64::from(field[0] & 0x3f);
    for byte in &field[1..] {
        if value >> 56 != 0 {
            return None;
        }
        value = value << 8 | u64::from(*byte);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_octal_and_base_256_and_refuses_what_does_not_fit() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b" 755 \0\0\0", Some(0o755)),
            (b"77777777777\0", Some(0o77_777_777_777)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"\x00000644\0", Some(0o644)),
            (b" \0 644 \0", Some(0o644)),
            (b"\x80\0\0\0\xff\xff\xff\xff", Some(0xffff_ffff)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", Some(1 << 63)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"0000648\0", None),
            (b"-000001\0", None),
            (b"12\x0034\0 \0", Some(0o12)),
            (b"12 34\0\0\0", None),
            (b"12 \x0034\0\0", None),
            (b"\t1234\0\0\0", None),
        ] {
            assert_eq!(parse(field), value, "{field:?}");
        }
    }
}
