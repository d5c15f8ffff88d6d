//! What the real cosign wrote: version 2.4.1, `generate-key-pair`, then `sign --key cosign.key
//! --tlog-upload=false` of an image in a registry on loopback. The files beside this one are the public key, the
//! manifest under the signatures' tag, and the payload.

use super::*;

const MANIFEST: &[u8] = include_bytes!("cosign/manifest.json");
const PAYLOAD: &[u8] = include_bytes!("cosign/payload.json");
const PUBLIC_KEY: &[u8] = include_bytes!("cosign/cosign.pub");

const REPOSITORY: &str = "127.0.0.1:5055/team/app";
const DIGEST: &str = "sha256:a6bee4bbb6dfb51b79cd805181141702a24bd2ba2b449be405d5bbbaeb191fd7";

/// What comes of showing cosign's signature for this digest of this reference.
fn verdict(reference: &str, digest: &str, key: &[u8]) -> Result<(), Fault> {
    let json = needs(&json!([by("cosign.pub")]));
    let policy = Policy::parse(Path::new("/etc/policy.json"), json.as_bytes(), &mut |_| {
        Ok(key.to_owned())
    });
    let mut check = ask(&policy.unwrap(), reference)?;
    let attached = Attached::parse(MANIFEST).unwrap();
    let [signature] = &attached.signatures[..] else {
        panic!("one signature: {attached:?}");
    };
    assert_eq!(signature.digest, Digest::sha256(PAYLOAD));
    assert_eq!(signature.size, PAYLOAD.len() as u64);
    check.look_at(&digest.parse().unwrap(), attached.left_out);
    check.show(PAYLOAD, &signature.signature);
    check.verdict()
}

#[test]
fn a_signature_by_the_real_cosign_is_accepted_for_what_it_was_made_for() {
    let stranger = KeyPair::generate().unwrap().public_key_pem();
    let other = Digest::sha256(b"another image").to_string();
    for reference in [
        format!("{REPOSITORY}:v1"),
        format!("{REPOSITORY}:v2"),
        format!("{REPOSITORY}@{DIGEST}"),
    ] {
        assert_eq!(verdict(&reference, DIGEST, PUBLIC_KEY), Ok(()), "{reference}");
        for (digest, key, says) in [
            (DIGEST, stranger.as_bytes(), "made by none of the keys"),
            (&other, PUBLIC_KEY, "for the digest"),
        ] {
            let fault = verdict(&reference, digest, key).unwrap_err();
            assert_eq!(fault.reason, Reason::VerificationFailed);
            assert!(fault.to_string().contains(says), "{fault}");
        }
    }
    let fault = verdict("127.0.0.1:5055/team/other:v1", DIGEST, PUBLIC_KEY).unwrap_err();
    assert!(fault.to_string().contains(REPOSITORY), "{fault}");
}
