mod cosign;

use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use super::*;
use crate::domain::Digest;

const IMAGE: &str = "quay.io/team/app:v1";

/// Key files are made up: `/keys/NAME`.
fn parse_with(json: &str, keys: &[(&str, &KeyPair)]) -> Result<Policy, String> {
    Policy::parse(Path::new("/etc/policy.json"), json.as_bytes(), &mut |path| {
        let key = keys
            .iter()
            .find(|(name, _)| path == Path::new("/keys").join(name));
        key.map(|(_, key)| key.public_key_pem().into_bytes())
            .ok_or_else(|| "it is not there".to_owned())
    })
}

fn parse(json: &str) -> Result<Policy, String> {
    parse_with(json, &[])
}

fn ask(policy: &Policy, reference: &str) -> Result<Check, Fault> {
    policy.ask(&reference.parse().unwrap())
}

fn blocked(policy: &Policy, reference: &str) -> String {
    let fault = ask(policy, reference).unwrap_err();
    assert_eq!(fault.reason, Reason::BlockedByPolicy, "{fault}");
    assert!(fault.to_string().contains("/etc/policy.json"), "{fault}");
    fault.to_string()
}

/// A payload of this image's, and its signature by this key.
fn signed(key: &KeyPair, name: &str, digest: &Digest) -> (Vec<u8>, String) {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": name },
            "image": { "docker-manifest-digest": digest },
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string().into_bytes();
    let signature = BASE64_STANDARD.encode(key.sign(&payload).unwrap());
    (payload, signature)
}

/// `default` needs these.
fn needs(requirements: &Value) -> String {
    json!({ "default": requirements }).to_string()
}

fn by(key: &str) -> Value {
    json!({ "type": "sigstoreSigned", "keyPath": format!("/keys/{key}"), "signedIdentity": { "type": "matchRepository" } })
}

#[test]
fn the_most_specific_scope_decides_alone() {
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let reject = json!([{ "type": "reject" }]);
    let policy = json!({
        "default": reject,
        "transports": {
            "docker": {
                "quay.io": accept,
                "quay.io/team": reject,
                "quay.io/team/app": accept,
                "quay.io/team/app:bad": reject,
                "*.example.com": accept,
                "a.example.com": reject,
            },
            "docker-daemon": { "": [{ "type": "of the future" }] },
        },
    });
    let policy = parse(&policy.to_string()).unwrap();
    for reference in [
        "quay.io/other/app:v1",
        "quay.io/team/app:v1",
        "b.example.com:5000/x:1",
        // A host with a port is another scope than the host alone.
        "a.example.com:5000/x:1",
        "c.b.example.com/x:1",
    ] {
        assert!(ask(&policy, reference).unwrap().is_met(), "{reference}");
    }
    for (reference, scope) in [
        ("quay.io/team/app:bad", r#"scope "quay.io/team/app:bad""#),
        ("quay.io/team/other:v1", r#"scope "quay.io/team""#),
        ("a.example.com/x:1", r#"scope "a.example.com""#),
        ("example.com/x:1", "the global default"),
        ("docker.io/busybox:1", "the global default"),
    ] {
        let why = blocked(&policy, reference);
        assert!(why.contains(scope), "{why}");
    }
    let transport =
        json!({ "default": accept, "transports": { "docker": { "": reject, "quay.io/a": accept } } });
    let transport = parse(&transport.to_string()).unwrap();
    assert!(blocked(&transport, "ghcr.io/a/b:1").contains("the default of docker"));
    assert!(ask(&transport, "quay.io/a/b:1").unwrap().is_met());
}

#[test]
fn all_requirements_have_to_hold() {
    let both = parse(&needs(
        &json!([{ "type": "insecureAcceptAnything" }, { "type": "reject" }]),
    ));
    blocked(&both.unwrap(), IMAGE);

    let (a, b) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let policy = parse_with(&needs(&json!([by("a"), by("b")])), &[("a", &a), ("b", &b)]).unwrap();
    let digest = Digest::sha256(b"manifest");
    let mut check = ask(&policy, IMAGE).unwrap();
    check.look_at(&digest, 0);
    let (payload, signature) = signed(&a, "quay.io/team/app", &digest);
    check.show(&payload, &signature);
    check.show(&payload, &signature);
    assert!(!check.is_met());
    let (payload, signature) = signed(&b, "quay.io/team/app", &digest);
    check.show(&payload, &signature);
    assert!(check.is_met());
    assert_eq!(check.verdict(), Ok(()));
}

#[test]
fn any_key_of_one_requirement_will_do() {
    let (a, b) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let requirement = json!([{
        "type": "sigstoreSigned", "keyPaths": ["/keys/a", "/keys/b"], "signedIdentity": { "type": "matchRepository" },
    }]);
    let policy = parse_with(&needs(&requirement), &[("a", &a), ("b", &b)]).unwrap();
    let digest = Digest::sha256(b"manifest");
    for key in [&a, &b] {
        let mut check = ask(&policy, IMAGE).unwrap();
        check.look_at(&digest, 0);
        let (payload, signature) = signed(key, "quay.io/team/app", &digest);
        check.show(&payload, &signature);
        assert!(check.is_met());
    }
}

#[test]
fn keys_may_stand_in_the_policy_itself() {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let key = KeyPair::generate().unwrap();
    let data = BASE64_STANDARD.encode(key.public_key_pem());
    let digest = Digest::sha256(b"manifest");
    for field in [json!({ "keyData": data }), json!({ "keyDatas": [data] })] {
        let mut requirement = field;
        requirement["type"] = json!("sigstoreSigned");
        let policy = parse(&needs(&json!([requirement]))).unwrap();
        let mut check = ask(&policy, IMAGE).unwrap();
        check.look_at(&digest, 0);
        let (payload, signature) = signed(&key, IMAGE, &digest);
        check.show(&payload, &signature);
        assert!(check.is_met());
    }
}

#[test]
fn a_refusal_says_what_was_tried_and_why_it_did_not_fit() {
    let (ours, theirs) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let policy = parse_with(&needs(&json!([by("ours")])), &[("ours", &ours)]).unwrap();
    let digest = Digest::sha256(b"manifest");
    let other = Digest::sha256(b"other");

    let mut none = ask(&policy, IMAGE).unwrap();
    none.look_at(&digest, 0);
    let fault = none.verdict().unwrap_err();
    assert_eq!(fault.reason, Reason::VerificationFailed);
    assert!(fault.happened.starts_with("no signature is attached"), "{fault}");
    assert!(
        fault.happened.contains("/keys/ours") && fault.asked.contains(IMAGE),
        "{fault}"
    );

    let mut check = ask(&policy, IMAGE).unwrap();
    check.look_at(&digest, 7);
    let (payload, signature) = signed(&theirs, "quay.io/team/app", &digest);
    check.show(&payload, &signature);
    let (payload, signature) = signed(&ours, "quay.io/team/app", &other);
    check.show(&payload, &signature);
    let (payload, signature) = signed(&ours, "quay.io/team/evil\n", &digest);
    check.show(&payload, &signature);
    let (payload, signature) = signed(&ours, "quay.io/team/other", &digest);
    check.show(&payload, &signature);
    let (mut payload, signature) = signed(&ours, "quay.io/team/app", &digest);
    payload.push(b' ');
    check.show(&payload, &signature);
    check.show(&payload, "%%");
    let fault = check.verdict().unwrap_err();
    for part in [
        "of 6 signatures",
        "tried: /keys/ours",
        "signature 1: it was made by none of the keys",
        &format!("signature 2: it is for the digest {other}"),
        r"signature 3: ",
        "signature 4: it is for quay.io/team/other, not for quay.io/team/app",
        "signature 5: it was made by none",
        "and 1 more",
        "7 more were not looked at",
    ] {
        assert!(fault.happened.contains(part), "{part:?} is missing in {fault}");
    }
    assert!(!fault.to_string().contains('\n'), "{fault}");
}

#[test]
fn what_is_not_supported_is_read_and_refused_where_it_counts() {
    let unsupported = [
        (
            json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k.gpg" }),
            "GPG",
        ),
        (
            json!({ "type": "signedBaseLayer", "baseLayerIdentity": {} }),
            "base layer",
        ),
        (
            json!({ "type": "sigstoreSigned", "fulcio": { "caPath": "/ca" }, "rekorPublicKeyPath": "/r" }),
            "Fulcio",
        ),
        (
            json!({ "type": "sigstoreSigned", "pki": { "caRootsPath": "/ca" } }),
            "pki",
        ),
        (
            json!({ "type": "sigstoreSigned", "keyPath": "/keys/a", "rekorPublicKeyData": "AA==" }),
            "transparency log",
        ),
    ];
    let key = KeyPair::generate().unwrap();
    for (requirement, says) in unsupported {
        let policy = json!({
            "default": [{ "type": "insecureAcceptAnything" }],
            "transports": { "docker": { "quay.io/team": [requirement] } },
        });
        let policy = parse_with(&policy.to_string(), &[("a", &key)]).unwrap();
        let why = blocked(&policy, IMAGE);
        assert!(why.contains(says), "{why}");
        assert!(ask(&policy, "quay.io/else/app:v1").unwrap().is_met());
    }
}

#[test]
fn a_key_that_is_missing_refuses_where_it_counts() {
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { "quay.io/team": [by("gone")] } },
    });
    let policy = parse(&policy.to_string()).unwrap();
    let why = blocked(&policy, IMAGE);
    assert!(why.contains("/keys/gone: it is not there"), "{why}");
    assert!(ask(&policy, "quay.io/else/app:v1").unwrap().is_met());
}

#[test]
fn whatever_is_not_understood_whole_is_refused() {
    let sigstore = |fields: &str| format!(r#"{{"default": [{{"type": "sigstoreSigned", {fields}}}]}}"#);
    let scope = |scope: &str, list: &str| {
        format!(r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{"{scope}": {list}}}}}}}"#)
    };
    let malformed: Vec<(String, &str)> = vec![
        (String::new(), "no JSON object"),
        ("[]".into(), "no JSON object"),
        ("null".into(), "no JSON object"),
        ("{}".into(), "missing field `default`"),
        (r#"{"default": []}"#.into(), "default: the list is empty"),
        (r#"{"default": null}"#.into(), "invalid type: null"),
        (r#"{"default": {"type": "reject"}}"#.into(), "invalid type: map"),
        (
            r#"{"default": ["reject"]}"#.into(),
            "requirement 1: it is no JSON object",
        ),
        (
            r#"{"default": [["reject"]]}"#.into(),
            "requirement 1: it is no JSON object",
        ),
        (r#"{"default": [{}]}"#.into(), "missing field `type`"),
        (
            r#"{"default": [{"type": "accept"}]}"#.into(),
            r#"the type "accept" is not known"#,
        ),
        (
            r#"{"default": [{"type": "reject"}, {"type": "reject", "why": 1}]}"#.into(),
            "requirement 2: unknown field `why`",
        ),
        (
            r#"{"default": [{"type": "reject", "type": "insecureAcceptAnything"}]}"#.into(),
            "duplicate field `type`",
        ),
        (
            r#"{"default": [{"type": "reject"}], "default": [{"type": "reject"}]}"#.into(),
            "duplicate field `default`",
        ),
        (
            r#"{"default": [{"type": "reject"}], "defaults": []}"#.into(),
            "unknown field `defaults`",
        ),
        (
            r#"{"default": [{"type": "reject"}]} {}"#.into(),
            "trailing characters",
        ),
        (
            r#"{"default": [{"type": "reject"}], "transports": null}"#.into(),
            "invalid type: null",
        ),
        (
            r#"{"default": [{"type": "reject"}], "transports": {"docker": {}, "docker": {}}}"#.into(),
            "\"docker\" stands there twice",
        ),
        (
            r#"{"default": [{"type": "reject"}], "transports": {"docker": []}}"#.into(),
            "transports.docker: it is no JSON object",
        ),
        (
            scope("quay.io", "[]"),
            r#"transports.docker."quay.io": the list is empty"#,
        ),
        (
            scope("https://quay.io", r#"[{"type": "reject"}]"#),
            "begins with a scheme",
        ),
        (
            scope(
                "a.io",
                r#"[{"type": "reject"}], "a.io": [{"type": "insecureAcceptAnything"}]"#,
            ),
            r#""a.io" stands there twice"#,
        ),
        (
            sigstore(r#""signedIdentity": {"type": "matchExact"}"#),
            "one of keyPath, keyPaths, keyData, keyDatas, fulcio, pki is missing",
        ),
        (
            sigstore(r#""keyPath": "/keys/a", "keyData": "AA==""#),
            "there are keyPath and keyData; one is right",
        ),
        (sigstore(r#""keyPath": null"#), "invalid type: null"),
        (sigstore(r#""keyPaths": []"#), "its list of keys is empty"),
        (sigstore(r#""keyData": "%""#), "keyData 1 is not base64"),
        (sigstore(r#""keypath": "/keys/a""#), "unknown field `keypath`"),
        (
            sigstore(r#""keyPath": "/keys/a", "signedIdentity": {"type": "any"}"#),
            r#"signedIdentity: the type "any" is not known"#,
        ),
        (
            sigstore(r#""keyPath": "/k", "rekorPublicKeyPath": "/a", "rekorPublicKeyData": "AA==""#),
            "more than one of the rekorPublicKey fields",
        ),
        (
            r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys"}]}"#.into(),
            "one of keyPath, keyPaths, keyData is missing",
        ),
        (
            r#"{"default": [{"type": "signedBy", "keyType": "PGP", "keyPath": "/a"}]}"#.into(),
            r#"the keyType "PGP" is not known"#,
        ),
    ];
    for (json, says) in malformed {
        let problem = parse(&json).map(|_| ()).unwrap_err();
        assert!(
            problem.contains(says),
            "{json}: {problem:?} does not say {says:?}"
        );
    }
    let not_utf8 = Policy::parse(Path::new("p"), b"{\"\xff", &mut |_| unreachable!()).unwrap_err();
    assert!(not_utf8.contains("UTF-8"), "{not_utf8}");
}
