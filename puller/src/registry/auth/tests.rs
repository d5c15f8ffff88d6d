use super::*;
use crate::registry::{address::Reach, challenge};

fn site(base: &str) -> Site {
    Site {
        registry: "reg.io".into(),
        base: base.parse().unwrap(),
        reach: Reach::Public,
        insecure: false,
        whose: "the daemon's own credentials".into(),
    }
}

fn demand(base: &str, header: &str) -> Result<Demand, String> {
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::WWW_AUTHENTICATE, header.parse().unwrap());
    Demand::of(&challenge::all(&headers), &site(base))
}

#[test]
fn bearer_goes_before_basic_and_basic_before_what_is_unknown() {
    let bearer = demand(
        "https://reg.io/",
        r#"Negotiate, Basic realm="x", Bearer realm="https://auth.io/t?a=b",service="s""#,
    );
    let Ok(Demand::Bearer(realm)) = bearer else {
        panic!("{bearer:?}")
    };
    assert_eq!(
        (realm.url.as_str(), realm.service.as_deref()),
        ("https://auth.io/t?a=b", Some("s"))
    );
    assert_eq!(
        demand("https://reg.io/", r#"Negotiate, Basic realm="x""#),
        Ok(Demand::Basic)
    );
    assert!(
        demand("https://reg.io/", "Negotiate, Digest realm=x")
            .unwrap_err()
            .contains("negotiate, digest")
    );
}

#[test]
fn a_bearer_challenge_without_a_token_server_leaves_basic() {
    for bearer in ["Bearer", r#"Bearer realm="""#, r#"bearer service="x""#] {
        for header in [
            format!(r#"{bearer}, Basic realm="x""#),
            format!(r#"BASIC realm="a, \"b\"", {bearer}"#),
        ] {
            assert_eq!(demand("https://reg.io/", &header), Ok(Demand::Basic), "{header}");
        }
        let both = format!(r#"{bearer}, Basic realm="x", Bearer realm="https://auth.io/t""#);
        assert!(matches!(demand("https://reg.io/", &both), Ok(Demand::Bearer(_))));
        assert!(demand("https://reg.io/", bearer).unwrap_err().contains("no URL"));
    }
}

#[test]
fn a_realm_is_https_unless_the_registry_is_plain() {
    let header = r#"Bearer realm="http://auth.io/t", Basic realm="x""#;
    assert!(
        demand("https://reg.io/", header)
            .unwrap_err()
            .contains("to which no credentials are sent")
    );
    assert!(matches!(demand("http://reg.io/", header), Ok(Demand::Bearer(_))));
    for realm in ["file:///etc/passwd", "ftp://auth.io/", "", "data:,x"] {
        let header = format!(r#"Bearer realm="{realm}""#);
        assert!(demand("http://reg.io/", &header).is_err(), "{realm}");
    }
    let Ok(Demand::Bearer(realm)) = demand("https://reg.io/", r#"Bearer realm="https://u:p@auth.io/t""#)
    else {
        panic!()
    };
    assert_eq!(realm.url.as_str(), "https://auth.io/t");
    let Ok(Demand::Bearer(realm)) = demand("https://reg.io/", r#"Bearer realm="/token""#) else {
        panic!()
    };
    assert_eq!(realm.url.as_str(), "https://reg.io/token");
}

#[test]
fn a_wider_scope_is_one_that_was_not_asked_yet() {
    let wider = |header: &str| {
        let mut headers = http::HeaderMap::new();
        headers.insert(http::header::WWW_AUTHENTICATE, header.parse().unwrap());
        wider_scope(&challenge::all(&headers), "repository:a:pull")
    };
    assert_eq!(wider(r#"Bearer scope="repository:a:pull""#), None);
    assert_eq!(wider(r#"Bearer scope="""#), None);
    assert_eq!(wider("Bearer realm=x"), None);
    assert_eq!(
        wider(r#"Bearer scope="repository:b:pull",error="invalid_token""#),
        None
    );
    for error in ["", r#",error="insufficient_scope""#, ",error=invalid_scope"] {
        let header = format!(r#"Bearer scope="repository:b:pull"{error}"#);
        assert_eq!(wider(&header).as_deref(), Some("repository:b:pull"));
    }
}
