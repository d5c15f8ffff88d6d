//! Values of flags, as Go's programs write them.

use std::{
    net::{Ipv6Addr, SocketAddr},
    time::Duration,
};

/// A value that `0` or nothing switches off. (clap would take a bare `Option` for a flag that may be missing.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optional<T>(pub Option<T>);

/// `:8443` is all addresses of this machine.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let problem = || {
        format!(
            "{text:?} is no address: it is HOST:PORT with an IP address, or :PORT for all of this machine's"
        )
    };
    match text.strip_prefix(':') {
        Some(port) => {
            let port = port.parse().map_err(|_| problem())?;
            Ok((Ipv6Addr::UNSPECIFIED, port).into())
        }
        None => text
            .replace("localhost:", "127.0.0.1:")
            .parse()
            .map_err(|_| problem()),
    }
}

pub(super) fn optional_address(text: &str) -> Result<Optional<SocketAddr>, String> {
    match text {
        "0" | "" => Ok(Optional(None)),
        text => address(text).map(|address| Optional(Some(address))),
    }
}

/// `12h`, `1h30m`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is no duration such as 12h, 1h30m or 500ms");
    let duration: jiff::SignedDuration = text.parse().map_err(|_| problem())?;
    Duration::try_from(duration).map_err(|_| problem())
}

pub(super) fn namespaced_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not of the form namespace/name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [
            ("12h", 43_200_000),
            ("1h30m", 5_400_000),
            ("137s", 137_000),
            ("500ms", 500),
        ] {
            assert_eq!(duration(text).unwrap().as_millis(), millis, "{text}");
        }
        for text in ["", "5", "-5s", "x"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_gos() {
        assert_eq!(address(":80").unwrap().to_string(), "[::]:80");
        assert_eq!(address("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("localhost:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(optional_address("0").unwrap(), Optional(None));
        for text in ["", "80", ":x", "a:b:c"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
