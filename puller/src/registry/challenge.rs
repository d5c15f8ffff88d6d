//! What a 401 asks for: `WWW-Authenticate`, as RFC 9110 section 11.6.1 has it.

use http::{HeaderMap, header::WWW_AUTHENTICATE};

/// One challenge: a scheme and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// In lower case, such as `bearer`.
    pub(crate) scheme: String,
    /// Names in lower case.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// A parameter's value; the first, if a name is given twice.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self.parameters.iter().find(|(n, _)| n == name)?;
        Some(value)
    }
}

/// All challenges of an answer, in order. A header field that goes wrong gives those before the error:
/// servers send odd schemes beside the one that we want.
pub(crate) fn all(headers: &HeaderMap) -> Vec<Challenge> {
    headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .flat_map(|value| parse(&String::from_utf8_lossy(value.as_bytes())))
        .collect()
}

/// The challenges of one header field.
///
/// The grammar is ambiguous to the eye: commas separate both challenges and parameters. A token that
/// is followed by `=` and a value is a parameter of the challenge before it, any other begins a
/// challenge; what follows the scheme's name without being a parameter is a token68, as in
/// `Negotiate YII=`.
fn parse(text: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (name, after) = token(rest);
        if name.is_empty() {
            return challenges;
        }
        let spaced = after.trim_start_matches([' ', '\t']);
        let value = spaced
            .strip_prefix('=')
            .map(|after| after.trim_start_matches([' ', '\t']));
        match (value, challenges.last_mut()) {
            (Some(value), Some(challenge)) => {
                let Some((value, after)) = parameter_value(value) else {
                    return challenges;
                };
                challenge.parameters.push((name.to_ascii_lowercase(), value));
                rest = after;
            }
            (Some(_), None) => return challenges,
            (None, _) => {
                challenges.push(Challenge {
                    scheme: name.to_ascii_lowercase(),
                    parameters: Vec::new(),
                });
                rest = skip_token68(spaced);
            }
        }
    }
}

fn token(text: &str) -> (&str, &str) {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    text.split_at(text.bytes().position(|b| !is_token(b)).unwrap_or(text.len()))
}

/// A token or a quoted string. Values that hold characters a token may not, such as an unquoted URL,
/// are taken up to the next comma or space: registries send them.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

/// Skips a token68 if one comes up to the next comma or the end.
fn skip_token68(text: &str) -> &str {
    let (candidate, rest) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
    let is_token68 = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    let ends = rest.trim_start_matches([' ', '\t']);
    if !candidate.is_empty()
        && candidate.trim_end_matches('=').bytes().all(is_token68)
        && (ends.is_empty() || ends.starts_with(','))
        // `Bearer realm=` at the very end is a parameter without a value, not a token68, but neither
        // is of use.
        && !candidate.trim_end_matches('=').is_empty()
    {
        rest
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn challenge(scheme: &str, parameters: &[(&str, &str)]) -> Challenge {
        Challenge {
            scheme: scheme.into(),
            parameters: parameters
                .iter()
                .map(|&(n, v)| (n.to_owned(), v.to_owned()))
                .collect(),
        }
    }

    #[test]
    fn understands_what_registries_send() {
        for (text, challenges) in [
            (
                r#"Bearer realm="https://auth.io/token",service="reg.io",scope="repository:a/b:pull,push""#,
                vec![challenge(
                    "bearer",
                    &[
                        ("realm", "https://auth.io/token"),
                        ("service", "reg.io"),
                        ("scope", "repository:a/b:pull,push"),
                    ],
                )],
            ),
            (
                r#"Basic realm="x", Bearer realm="https://a.io/t?account=1" , scope="""#,
                vec![
                    challenge("basic", &[("realm", "x")]),
                    challenge("bearer", &[("realm", "https://a.io/t?account=1"), ("scope", "")]),
                ],
            ),
            (
                r#"Negotiate, NTLM TlRMTVNTUAAB==, Bearer Realm = "a\"b\\c", error=insufficient_scope"#,
                vec![
                    challenge("negotiate", &[]),
                    challenge("ntlm", &[]),
                    challenge(
                        "bearer",
                        &[("realm", r#"a"b\c"#), ("error", "insufficient_scope")],
                    ),
                ],
            ),
            (
                "Bearer realm=https://auth.io/token,service=reg.io",
                vec![challenge(
                    "bearer",
                    &[("realm", "https://auth.io/token"), ("service", "reg.io")],
                )],
            ),
            ("BASIC", vec![challenge("basic", &[])]),
            (r#"Basic realm="never closed"#, vec![challenge("basic", &[])]),
            (r#"realm="no scheme""#, vec![]),
            ("", vec![]),
            (" ,, ", vec![]),
        ] {
            assert_eq!(parse(text), challenges, "{text}");
        }
    }

    #[test]
    fn reads_all_header_fields() {
        let mut headers = HeaderMap::new();
        headers.append(
            WWW_AUTHENTICATE,
            r#"Digest realm="x", nonce="y""#.parse().unwrap(),
        );
        headers.append(WWW_AUTHENTICATE, r#"Bearer realm="z""#.parse().unwrap());
        let found = all(&headers);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].parameter("realm"), Some("z"));
        assert_eq!(found[1].parameter("scope"), None);
    }

    proptest! {
        #[test]
        fn any_quoted_value_is_read_back(value in "\\PC{0,30}", scheme in "[A-Za-z]{1,8}") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let found = parse(&format!("Other a=b, {scheme} realm=\"{escaped}\", x=y"));
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(found[1].parameter("realm"), Some(value.as_str()));
            prop_assert_eq!(found[1].parameter("x"), Some("y"));
        }

        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,80}|[A-Za-z=\",\\\\ ]{0,60}") {
            parse(&text);
        }
    }
}
