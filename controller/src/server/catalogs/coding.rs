//! Which coding a client gets.

use axum::http::{HeaderMap, header};

use crate::content::Coding;

/// A coding's name in headers.
pub(super) const fn name(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Identity => None,
        Coding::Gzip => Some("gzip"),
        Coding::Zstd => Some("zstd"),
    }
}

/// The coding that a client likes best, of two that it likes the same Zstandard. As with catalogd, a client
/// must name a coding to get it: `*` alone is none.
pub(super) fn choose(headers: &HeaderMap) -> Coding {
    let (mut gzip, mut zstd, mut identity) = (0, 0, 0);
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    for item in values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
    {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight(parameters);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = weight,
            "zstd" => zstd = weight,
            "identity" => identity = weight,
            _ => {}
        }
    }
    let (best, coding) = match zstd >= gzip {
        true => (zstd, Coding::Zstd),
        false => (gzip, Coding::Gzip),
    };
    match best > 0 && best >= identity {
        true => coding,
        false => Coding::Identity,
    }
}

/// Thousandths. What is not a weight counts as none, so that a client never gets what it might not want.
fn weight(parameters: &str) -> u16 {
    const ONE: f32 = 1000.0;
    let parameters = parameters.trim();
    let Some((name, value)) = parameters.split_once('=') else {
        return if parameters.is_empty() { ONE as u16 } else { 0 };
    };
    match (name.trim(), value.trim().parse::<f32>()) {
        ("q" | "Q", Ok(weight)) if (0.0..=1.0).contains(&weight) => (weight * ONE).round() as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_they_like_best() {
        use Coding::{Gzip, Identity, Zstd};
        for (accepted, coding) in [
            (&[][..], Identity),
            (&[""], Identity),
            (&["*"], Identity),
            (&["br"], Identity),
            (&["gzip"], Gzip),
            (&["GZip"], Gzip),
            (&["x-gzip"], Gzip),
            (&["zstd"], Zstd),
            (&["gzip, zstd"], Zstd),
            (&["gzip, deflate, br, zstd"], Zstd),
            (&["gzip", "zstd"], Zstd),
            (&["gzip;q=1.0, zstd;q=0.9"], Gzip),
            (&["gzip;q=0.5, zstd; q = 0.5"], Zstd),
            (&["gzip;q=0"], Identity),
            (&["gzip;q=0.001"], Gzip),
            (&["gzip, zstd;q=0"], Gzip),
            (&["identity, gzip;q=0.5"], Identity),
            (&["identity;q=0.5, gzip;q=0.5"], Gzip),
            (&["gzip;q=2"], Identity),
            (&["gzip;q=NaN"], Identity),
            (&["gzip;level=9"], Identity),
        ] {
            let mut headers = HeaderMap::new();
            for accepted in accepted {
                headers.append(header::ACCEPT_ENCODING, accepted.parse().unwrap());
            }
            assert_eq!(choose(&headers), coding, "{accepted:?}");
        }
    }
}
