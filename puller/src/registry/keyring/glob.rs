//! Patterns for hosts, by the kubelet's rule: `*` stands for any text inside one dot-separated part.

/// Whether a host, with its port if it has one, is what a pattern stands for. Both have the same number
/// of parts and the same port, so that a credential never reaches a deeper domain or another service.
pub(super) fn matches(pattern: &str, host: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == host;
    }
    let (pattern, pattern_port) = split_port(pattern);
    let (host, port) = split_port(host);
    let (mut patterns, mut parts) = (pattern.split('.'), host.split('.'));
    pattern_port == port
        && loop {
            match (patterns.next(), parts.next()) {
                (None, None) => break true,
                (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
                _ => break false,
            }
        }
}

/// How much of a pattern is written out; all of it, if it is none.
pub(super) fn literal(pattern: &str) -> usize {
    if pattern.contains('*') {
        pattern.chars().filter(|&c| c != '*').count()
    } else {
        usize::MAX
    }
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    }
}

/// Pieces between the stars must come in their order; the leftmost place of each is the best one.
fn part_matches(pattern: &str, part: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == part;
    };
    let Some(mut left) = part.strip_prefix(first) else {
        return false;
    };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_inside_its_part_and_the_port_is_the_same() {
        for (pattern, host) in [
            ("*.example.com", "a.example.com"),
            ("*.*.example.com", "a.b.example.com"),
            ("prefix*.io", "prefix-1.io"),
            ("prefix*.io", "prefix.io"),
            ("a*b*c.io", "axxbyyc.io"),
            ("*.example.com:5000", "a.example.com:5000"),
            ("registry.*", "registry.local"),
            ("plain.io", "plain.io"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("*.example.com", "example.com"),
            ("*.example.com", "a.b.example.com"),
            ("**.example.com", "a.b.example.com"),
            ("*", "example.com"),
            ("*.example.com", "a.example.com.evil.io"),
            ("*.example.com", "a.example.com:5000"),
            ("*.example.com:5000", "a.example.com"),
            ("*.example.com:*", "a.example.com:5000"),
            ("prefix*.io", "other.io"),
            ("ab*ba.io", "aba.io"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn what_is_written_out_is_the_most_specific() {
        assert!(literal("a.example.com") > literal("a*.example.com"));
        assert!(literal("a*.example.com") > literal("*.example.com"));
    }
}
