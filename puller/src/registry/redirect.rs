//! Where a redirect leads.

use http::{HeaderValue, StatusCode};
use url::Url;

/// The most hops that are followed; registries need one or two.
pub(super) const MOST_HOPS: usize = 10;

/// Whether an answer is a redirect that may be followed.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The URL that `location` means in an answer to a request for `from`. Plain HTTP is followed only
/// where the registry itself is plain.
///
/// # Errors
/// It leads nowhere that we go; the text completes "answered 307 …".
pub(crate) fn next(from: &Url, location: Option<&HeaderValue>, plain: bool) -> Result<Url, String> {
    let location = location.ok_or("without saying where to")?;
    // Not by `to_str`: a name beyond ASCII is often sent as it is.
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| "to something that is no URL")?;
    let mut to = from
        .join(location)
        .map_err(|error| format!("to something that is no URL: {error}"))?;
    match to.scheme() {
        "https" => {}
        "http" if plain => {}
        "http" => {
            return Err(format!(
                "to {}, which is plain HTTP",
                super::fault::authority(&to)
            ));
        }
        scheme => {
            return Err(format!("to a URL of scheme {}", super::fault::quoted(scheme)));
        }
    }
    strip_userinfo(&mut to).map_err(|()| "to a URL without a host")?;
    to.set_fragment(None);
    Ok(to)
}

/// Takes user name and password out of a URL from outside: the client would make credentials of them.
pub(super) fn strip_userinfo(url: &mut Url) -> Result<(), ()> {
    url.set_username("").and_then(|()| url.set_password(None))
}

/// Whether credentials for one URL may be sent to the other.
pub(crate) fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(location: &str, plain: bool) -> Result<String, String> {
        let from = Url::parse("https://reg.io:5000/v2/a/blobs/x").unwrap();
        next(&from, Some(&location.parse().unwrap()), plain).map(String::from)
    }

    #[test]
    fn resolves_against_the_request() {
        for (location, url) in [
            ("/x?y=z", "https://reg.io:5000/x?y=z"),
            ("y", "https://reg.io:5000/v2/a/blobs/y"),
            ("//cdn.io/x", "https://cdn.io/x"),
            ("\\\\cdn.io\\x", "https://cdn.io/x"),
            ("https://cdn.io/x?sig=1#f", "https://cdn.io/x?sig=1"),
            ("https://user:pass@cdn.io/x", "https://cdn.io/x"),
            ("?y=z", "https://reg.io:5000/v2/a/blobs/x?y=z"),
            ("../up", "https://reg.io:5000/v2/a/up"),
            ("HTTPS://CDN.io:443/x", "https://cdn.io/x"),
        ] {
            assert_eq!(follow(location, false).as_deref(), Ok(url), "{location}");
        }
    }

    #[test]
    fn goes_nowhere_else() {
        assert!(
            follow("http://cdn.io/x", false)
                .unwrap_err()
                .contains("plain HTTP")
        );
        assert_eq!(follow("http://cdn.io/x", true).as_deref(), Ok("http://cdn.io/x"));
        for location in ["file:///etc/passwd", "ftp://x/y", "data:,x", "https://"] {
            assert!(follow(location, true).is_err(), "{location}");
        }
        let from = Url::parse("https://reg.io/").unwrap();
        assert!(next(&from, None, false).is_err());
        let beyond_ascii = HeaderValue::from_bytes("/sch\u{f6}n".as_bytes()).unwrap();
        assert_eq!(
            next(&from, Some(&beyond_ascii), false).unwrap().as_str(),
            "https://reg.io/sch%C3%B6n"
        );
        assert!(next(&from, Some(&HeaderValue::from_bytes(b"/\xff").unwrap()), false).is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| same_origin(&a.parse().unwrap(), &b.parse().unwrap());
        assert!(same("https://a.io/x", "https://A.io:443/y?z"));
        for other in [
            "http://a.io/",
            "https://b.io/",
            "https://a.io:444/",
            "https://x.a.io/",
        ] {
            assert!(!same("https://a.io/", other), "{other}");
        }
    }
}
