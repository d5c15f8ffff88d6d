//! Numbers as Go writes them.

/// A number of JSON as encoding/json writes a float64; the value is finite.
pub(super) fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        // Rust writes e25, Go e+25.
        return match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
            _ => text,
        };
    }
    format!("{value}")
}

/// A number that is the key of a mapping: sigs.k8s.io/yaml writes it with the precision of a float32.
pub(super) fn key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "that is what is copied")]
    let value = value as f32;
    if value.is_nan() {
        return ".nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let text = format!("{value:e}");
    let Some((digits, Ok(power))) = text.split_once('e').map(|(d, p)| (d, p.parse::<i32>())) else {
        return text;
    };
    // Where Go is told to be as short as can be, it writes six digits before the point and no more.
    if value != 0.0 && !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e25, "1e+25"),
            (-1.25e100, "-1.25e+100"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (12_345_678_901_234_567_890.0, "12345678901234567000"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn keys() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (1e5, "100000"),
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (1e21, "1e+21"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.234_567_89, "1.2345679"),
            (16_777_217.0, "1.6777216e+07"),
            (1e300, ".inf"),
            (-1e300, "-.inf"),
            (f64::NAN, ".nan"),
            (1e-50, "0"),
        ] {
            assert_eq!(key(value), text);
        }
    }
}
