//! Entry points for fuzzing, one for each parser of bytes from outside. The targets in `fuzz/` call them
//! with libFuzzer's inputs, [`tests`] with the seeds in `fuzz/corpus/` and with mutations of these.
//!
//! Each takes any bytes and panics where a promise of the parser is broken. What a parser refuses is no
//! finding, but its message must be fit to print: [`check_text`].
//!
//! To add one: a function here and its line in [`TARGETS`], a file in `fuzz/fuzz_targets/` with its
//! `[[bin]]` in `fuzz/Cargo.toml`, and seeds in a directory of `fuzz/corpus/` of the same name. A test
//! fails while one of them is missing.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use crate::{
    config::{ServeArgs, file},
    domain::{Digest, Platform, Reason, Reference},
    error::Fault,
    policy::{Attached, MAX_SIGNATURES, Policy, payload::Payload},
    registry::{
        RawManifest, challenge,
        coding::Coding,
        fault, keyring,
        manifest::{Config, Descriptor, Manifest},
        range, redirect, retry_after, routes, token,
    },
};

mod layers;

#[cfg(test)]
mod tests;

pub use layers::{inflate, tar, unpack};

/// What a target does with an input.
pub type Target = fn(&[u8]);

/// All targets by name, in the alphabet's order.
pub const TARGETS: &[(&str, Target)] = &[
    ("challenge", challenge),
    ("coding", coding),
    ("config", config),
    ("content_range", content_range),
    ("credentials", credentials),
    ("digest", digest),
    ("error_body", error_body),
    ("inflate", inflate),
    ("manifest", manifest),
    ("platform", platform),
    ("policy", policy),
    ("provider_config", provider_config),
    ("provider_response", provider_response),
    ("redirect", redirect),
    ("reference", reference),
    ("retry_after", retry_after),
    ("routes", routes),
    ("settings", settings),
    ("signatures", signatures),
    ("tar", tar),
    ("token", token),
    ("unpack", unpack),
];

/// Bytes of the longest message: a reference of 638 characters, each escaped, is the longest quote.
const LONGEST_MESSAGE: usize = 8 << 10;

/// What was asked, in faults.
const ASKED: &str = "the manifest of quay.io/a/b:v1";

/// Text that a person or a log gets: bounded, on one line, without anything that moves a cursor or turns
/// the direction of writing.
fn check_text(text: &str) {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    assert!(text.len() <= LONGEST_MESSAGE, "{} bytes of message", text.len());
    assert!(!text.contains(moves), "unsafe to print: {text:?}");
}

fn check_fault(fault: &Fault) {
    check_text(&fault.to_string());
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// The header that an answer may hold: the HTTP client lets no other bytes pass.
fn headers(name: HeaderName, data: &[u8]) -> Option<HeaderMap> {
    let value = HeaderValue::from_bytes(data).ok()?;
    Some(HeaderMap::from_iter([(name, value)]))
}

/// What is printed is read again as the same.
pub fn reference(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match text.parse::<Reference>() {
        Ok(reference) => {
            let printed = reference.to_string();
            check_text(&printed);
            assert_eq!(printed.parse(), Ok(reference));
        }
        Err(error) => check_text(&error.to_string()),
    }
}

/// A digest prints as it was given, and names a file.
pub fn digest(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match text.parse::<Digest>() {
        Ok(digest) => {
            assert_eq!(digest.to_string(), text);
            assert_eq!(Path::new(&digest.file_name()).components().count(), 1);
        }
        Err(error) => check_text(&error.to_string()),
    }
}

/// What is printed is read again as the same.
pub fn platform(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match text.parse::<Platform>() {
        Ok(platform) => assert_eq!(platform.to_string().parse(), Ok(platform)),
        Err(error) => check_text(&error.to_string()),
    }
}

/// Schemes are tokens in lower case, as those who compare them expect.
pub fn challenge(data: &[u8]) {
    let Some(headers) = headers(header::WWW_AUTHENTICATE, data) else {
        return;
    };
    for challenge in challenge::all(&headers) {
        assert!(!challenge.scheme.is_empty());
        assert!(
            challenge
                .scheme
                .bytes()
                .all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase())
        );
        if let Some(realm) = challenge.parameter("realm") {
            assert!(realm.len() <= String::from_utf8_lossy(data).len());
        }
    }
}

/// Whatever registries.conf says, what is asked is a registry and a repository, and the last one is no
/// mirror.
pub fn routes(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (table, unknown) = match routes::Table::parse(text) {
        Ok(parsed) => parsed,
        Err(problem) => return check_text(&problem),
    };
    unknown.iter().for_each(|key| check_text(key));
    for (registry, repository) in [
        ("quay.io", "a/b/c"),
        ("docker.io", "library/a"),
        ("a.b.io:5000", "a"),
    ] {
        let routes::Route::Endpoints(endpoints) = table.route(registry, repository, true) else {
            continue;
        };
        assert!(endpoints.last().is_some_and(|last| !last.mirror));
        for endpoint in endpoints {
            let (registry, repository) = (endpoint.registry, endpoint.repository);
            let reference: Result<Reference, _> = format!("{registry}/{repository}:tag").parse();
            assert_eq!(
                reference.map(|r| (r.registry, r.repository)),
                Ok((registry, repository))
            );
        }
    }
    for name in ["nginx", "a/b:tag", text] {
        if let Err(problem) = table.written_out(name) {
            check_text(&problem);
        }
    }
}

/// No registry stops us for longer than the longest pause.
pub fn retry_after(data: &[u8]) {
    let Some(headers) = headers(header::RETRY_AFTER, data) else {
        return;
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    if let Some(pause) = retry_after::of(&headers, now) {
        assert!(pause <= retry_after::LONGEST);
    }
}

/// A body is decoded the same in pieces as in one, and never to more than is wanted.
pub fn coding(data: &[u8]) {
    const CAP: usize = 64 << 10;
    for coding in Coding::ALL {
        let whole = coding.decoded(data, CAP);
        let pieces: Vec<_> = data
            .chunks(7)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let broken =
            |error: &std::io::Error| Fault::new(Reason::DigestMismatch, "a body", error.to_string(), "");
        let mut undone = coding.undo(futures_util::stream::iter(pieces).boxed(), broken);
        let mut bytes = Vec::new();
        let mut outcome = Ok(());
        while let Some(piece) = undone.next().now_or_never().expect("all is there")
            && bytes.len() <= CAP
        {
            match piece {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(fault) => outcome = Err(fault),
            }
        }
        // The other way round need not hold: the digest decides about what only one of them takes.
        if let Some(whole) = whole {
            assert_eq!((outcome, &bytes), (Ok(()), &whole.to_vec()));
        }
    }
}

/// The start of an accepted range is the number that the header holds.
pub fn content_range(data: &[u8]) {
    /// Of the blob; the seeds are of parts of it.
    const SIZE: u64 = 10;
    let Some(headers) = headers(header::CONTENT_RANGE, data) else {
        return;
    };
    if let Some(start) = range::start_of(&headers, SIZE) {
        assert!(start < SIZE);
        let text = String::from_utf8_lossy(data);
        let digits: String = text
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        assert_eq!(digits.parse(), Ok(start));
    }
}

/// A redirect leads to HTTPS, or to HTTP where the registry itself is plain, with no name and password.
pub fn redirect(data: &[u8]) {
    let Ok(location) = HeaderValue::from_bytes(data) else {
        return;
    };
    for (from, plain) in [
        ("https://reg.io:5000/v2/a/blobs/x?y", false),
        ("http://[::1]/v2/", true),
    ] {
        let from = Url::parse(from).expect("a constant");
        match redirect::next(&from, Some(&location), plain) {
            Ok(to) => {
                assert!(to.scheme() == "https" || plain && to.scheme() == "http", "{to}");
                assert!(
                    to.has_host() && to.username().is_empty() && to.password().is_none(),
                    "{to}"
                );
                assert_eq!(to.fragment(), None);
                assert!(redirect::same_origin(&to, &to));
                assert_eq!(Url::parse(to.as_str()), Ok(to));
            }
            Err(problem) => check_text(&problem),
        }
    }
}

/// What a registry says in the body of an error can be quoted.
pub fn error_body(data: &[u8]) {
    check_text(&fault::said(data));
}

/// Each credential is found for its own place only, and none twice.
pub fn credentials(data: &[u8]) {
    let config = match keyring::config::Config::parse(data) {
        Ok((config, ignored)) => {
            ignored.iter().for_each(|what| check_text(what));
            Arc::new(config)
        }
        Err(error) => return check_text(&error.to_string()),
    };
    // Two equal configs say nothing new.
    let twice = [Arc::clone(&config), config];
    for (registry, repository) in [
        ("quay.io", "org/repo"),
        ("docker.io", "library/nginx"),
        ("[::1]:5000", "a"),
    ] {
        let found = keyring::config::candidates(&twice[..1], registry, repository);
        assert!((1..found.len()).all(|i| !found[..i].contains(&found[i])));
        assert_eq!(keyring::config::candidates(&twice, registry, repository), found);
    }
}

/// A provider is a file of its directory, and whatever its patterns are, images can be looked up.
pub fn provider_config(data: &[u8]) {
    let (providers, ignored) = match keyring::provider::config::parse(data) {
        Ok(parsed) => parsed,
        Err(problem) => return check_text(&problem),
    };
    ignored.iter().for_each(|what| check_text(what));
    for provider in providers {
        assert!(!provider.name.contains('/') && !matches!(provider.name.as_str(), "" | "." | ".."));
        provider.is_for("[::1]:5000", "library/nginx");
    }
}

/// The credentials that a provider answers are found for their own place only, and its failures are
/// fit to print.
pub fn provider_response(data: &[u8]) {
    let api = "credentialprovider.kubelet.k8s.io/v1";
    let config = match keyring::provider::response::parse(data, api) {
        Ok(response) => Arc::new(response.config),
        Err(problem) => return check_text(&problem),
    };
    let found = keyring::config::candidates(&[config], "quay.io", "org/repo");
    assert!((1..found.len()).all(|i| !found[..i].contains(&found[i])));
}

/// A token fits into a header or is refused, and lives for a time that clocks can count.
pub fn token(data: &[u8]) {
    let now = jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let Some((token, life)) = token::parse(data, now) else {
        return;
    };
    assert!(!token.is_empty());
    assert!(!life.is_zero() && life <= token::LONGEST_LIFE);
}

/// `policy.json`; the rest after a NUL is the file of each key that it names.
pub fn policy(data: &[u8]) {
    let nul = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (json, key) = data.split_at(nul);
    let mut read_key = |_: &Path| Ok(key.get(1..).unwrap_or_default().to_vec());
    let policy = match Policy::parse(Path::new("/etc/policy.json"), json, &mut read_key) {
        Ok(policy) => policy,
        Err(problem) => return check_text(&problem),
    };
    let digest = Digest::sha256(b"");
    for reference in [
        "quay.io/team/app:v1".to_owned(),
        format!("a.example.com:5000/x@{digest}"),
    ] {
        let reference = reference.parse().expect("a constant");
        match policy.ask(&reference) {
            Ok(mut check) => {
                check.look_at(&digest, 0);
                check.show(b"{}", "AAAA");
                if let Err(fault) = check.verdict() {
                    check_fault(&fault);
                }
            }
            Err(fault) => check_fault(&fault),
        }
    }
}

/// What stands under the tag of an image's signatures, and the payload of one of them.
pub fn signatures(data: &[u8]) {
    match Attached::parse(data) {
        Ok(attached) => assert!(attached.signatures.len() <= MAX_SIGNATURES),
        Err(problem) => check_text(&problem),
    }
    if let Err(problem) = Payload::parse(data) {
        check_text(&problem);
    }
}

/// The first line is the `Content-Type`, the rest the document: a manifest or an index.
pub fn manifest(data: &[u8]) {
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (content_type, body) = data.split_at(line);
    let raw = RawManifest {
        bytes: Bytes::copy_from_slice(body.get(1..).unwrap_or_default()),
        content_type: String::from_utf8_lossy(content_type).into_owned(),
    };
    match Manifest::parse(&raw, ASKED) {
        Ok(Manifest::Index(index)) => {
            for entry in &index.entries {
                match &entry.descriptor {
                    Ok(descriptor) => check_descriptor(descriptor),
                    Err(fault) => check_fault(fault),
                }
            }
            for platform in ["linux/amd64", "linux/arm64/v8", "linux/arm/v7"] {
                let platform = platform.parse().expect("a constant");
                match index.pick(&platform, ASKED) {
                    Ok(entry) => assert!(!entry.attestation),
                    Err(fault) => check_fault(&fault),
                }
            }
        }
        Ok(Manifest::Image(image)) => {
            check_descriptor(&image.config);
            image
                .layers
                .iter()
                .for_each(|layer| check_descriptor(&layer.descriptor));
        }
        Ok(Manifest::Artifact(artifact)) => {
            check_text(&artifact.artifact_type);
            check_descriptor(&artifact.config);
            artifact
                .layers
                .iter()
                .for_each(|layer| check_descriptor(&layer.descriptor));
        }
        Err(fault) => check_fault(&fault),
    }
}

/// Inline data is what the digest and the size say; the rest can be shown.
fn check_descriptor(descriptor: &Descriptor) {
    check_text(&descriptor.media_type);
    check_fault(&descriptor.refused_as_foreign(ASKED));
    if let Some(data) = &descriptor.data {
        assert_eq!(data.len() as u64, descriptor.size);
        assert_eq!(descriptor.digest.of_same_kind(data), descriptor.digest);
    }
}

/// The first byte is the number of layers, the rest the config of an image that has so many.
pub fn config(data: &[u8]) {
    let Some((layers, body)) = data.split_first() else {
        return;
    };
    let layers = usize::from(layers & 0xf);
    match Config::parse(body, layers, ASKED) {
        Ok(config) => assert_eq!(config.diff_ids.len(), layers),
        Err(fault) => check_fault(&fault),
    }
}

/// A settings file: what is accepted are settings that there are, each with a value.
pub fn settings(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match file::parse(Path::new("puller.toml"), text) {
        Ok(values) => {
            for (name, values) in values {
                assert!(ServeArgs::names().any(|known| known == name), "{name:?}");
                assert!(!values.is_empty(), "{name:?}");
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            problems.iter().for_each(|problem| check_text(problem));
        }
    }
}
