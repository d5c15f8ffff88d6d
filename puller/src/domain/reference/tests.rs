use proptest::prelude::*;

use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn normalises() {
    let long = format!("quay.io/a/b:v1@{DIGEST}");
    for (text, normalised) in [
        ("quay.io/a/b:v1", "quay.io/a/b:v1"),
        ("docker.io/nginx:1", "docker.io/library/nginx:1"),
        ("index.docker.io/nginx:1", "docker.io/library/nginx:1"),
        ("docker.io/bitnami/nginx:1", "docker.io/bitnami/nginx:1"),
        ("localhost/x:1", "localhost/x:1"),
        ("localhost:5000/x:1", "localhost:5000/x:1"),
        ("[fd00::1]:5000/a/b:t", "[fd00::1]:5000/a/b:t"),
        ("Registry.Example.COM/a:B", "registry.example.com/a:B"),
        ("example.com/a__b/c-d--e.f:_x", "example.com/a__b/c-d--e.f:_x"),
        (long.as_str(), long.as_str()),
    ] {
        assert_eq!(text.parse::<Reference>().unwrap().to_string(), normalised);
    }
}

#[test]
fn an_error_names_the_part() {
    let long_tag = format!("quay.io/a/b:{}", "t".repeat(129));
    for (text, part) in [
        ("", "empty"),
        ("nginx", "docker.io/library/nginx"),
        ("nginx:1", "docker.io/library/nginx:1"),
        ("bitnami/nginx:1", "docker.io/bitnami/nginx:1"),
        ("quay.io/a/b", "neither tag nor digest"),
        ("localhost:5000/x", "neither tag nor digest"),
        ("quay.io/A/b:1", "must be lower case"),
        ("quay.io/a/b:", "tag is empty"),
        ("quay.io/a/b:.x", "the tag \".x\""),
        (&long_tag, "the tag has 129 characters"),
        ("quay.io/a b:1", "spaces"),
        (" quay.io/a/b:1", "spaces"),
        ("quay.io/../b:1", "part \"..\""),
        ("../b:1", "registry \"..\""),
        ("quay.io//b:1", "empty part"),
        ("quay.io/a/b@sha256:abc", "digest \"sha256:abc\""),
        ("quay.io/a/b@md5:d41d8cd98f00b204e9800998ecf8427e", "digest"),
        ("quay.io:99999/a:1", "port \"99999\""),
        ("quay.io:/a:1", "port \"\""),
        ("[fd00::1/a:1", "bracket"),
        ("[nope]/a:1", "IPv6"),
        ("-x.io/a:1", "no host name"),
        ("https://quay.io/a:1", "leave that out"),
    ] {
        let error = text.parse::<Reference>().unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error:?} does not name {part:?}");
    }
}

/// Found by fuzzing: some parts were quoted whole, or as they came.
#[test]
fn an_error_is_bounded_and_escaped() {
    let long = "a".repeat(20_000);
    for text in [
        format!("{long}.io:x/a:1"),
        format!("quay.io:{long}/a:1"),
        format!("{long}://quay.io/a:1"),
        format!("quay.io/a@{long}"),
        long,
        "a\u{202e}b://quay.io/a:1".to_owned(),
        "a\u{202e}b".to_owned(),
    ] {
        let error = text.parse::<Reference>().unwrap_err().to_string();
        assert!(error.len() < 1000, "{} bytes", error.len());
        assert!(!error.contains('\u{202e}'), "{error}");
    }
    let longest = format!(
        "{}.io:65535/{}:{}@sha512:{}",
        "a".repeat(MAX_NAME - 3),
        "b".repeat(MAX_NAME),
        "c".repeat(MAX_TAG),
        "d".repeat(128)
    );
    assert_eq!(longest.len(), MAX_REFERENCE);
    assert_eq!(longest.parse::<Reference>().unwrap().to_string(), longest);
}

proptest! {
    #[test]
    fn whatever_parses_prints_as_something_that_parses_the_same(
        text in "[a-z\\[:.]{1,8}[.:]?[a-zA-Z0-9]{0,4}/[a-z0-9._/-]{1,20}(:[a-zA-Z0-9._-]{1,8})?"
    ) {
        if let Ok(reference) = text.parse::<Reference>() {
            let again: Reference = reference.to_string().parse().unwrap();
            prop_assert_eq!(again, reference);
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,80}") {
        let _ = text.parse::<Reference>();
    }
}
