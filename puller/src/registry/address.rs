//! Which addresses may be dialled.
//!
//! A registry, or who speaks in its name, can send us anywhere: by a redirect, by a token realm, by
//! what its host name resolves to. So every hop is checked, and what is checked is the address that is
//! dialled:
//! - an address written in a URL by [`Guard::check`],
//! - a name by the [`Resolver`] that the HTTP client dials with. There are two clients, one for each
//!   [`Reach`], with connections of their own, so that a request can't use a connection that was
//!   made under wider rules.
//!
//! A proxy resolves names itself: behind one only what is written in a URL can be checked.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::settings::AllowPrivate;

/// How long it is remembered where a registry is. Short, since names move.
const REMEMBERED: Duration = Duration::from_secs(30);

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anywhere on the Internet.
    Public,
    /// This machine or a private network.
    Inside,
    /// Link-local, where clouds serve credentials to machines, and what is no host's address.
    Never,
}

impl Place {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// RFC 6890 and the IANA registry of special-purpose addresses.
    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [169, 254, ..] | [224..=239, ..] | [255, 255, 255, 255] => Self::Never,
            // A cloud's metadata service that is not link-local.
            [100, 100, 100, 200] => Self::Never,
            // "This host" reaches loopback on Linux; shared, protocol, benchmark and reserved
            // ranges are used inside networks.
            [0 | 10 | 127 | 240..=255, ..]
            | [100, 64..=127, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0, _]
            | [192, 168, ..]
            | [198, 18..=19, ..] => Self::Inside,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let s = address.segments();
        let v4 = |high: u16, low: u16| Self::of_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
        match s {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Inside,
            // IPv4 in other clothes: mapped, translated (SIIT), compatible, NAT64, 6to4.
            [0, 0, 0, 0, 0, 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0, 0, 0, 0, 0, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => v4(high, low),
            [0x64, 0xff9b, 1, ..] => Self::Inside,
            // A cloud's metadata service that is not link-local.
            [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254] => Self::Never,
            [0xfe80..=0xfebf, ..] | [0xff00..=0xffff, ..] => Self::Never,
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Self::Inside,
            _ => Self::Public,
        }
    }
}

/// What the requests that belong to a registry may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// Public addresses, and hosts that a setting allows.
    Public,
    /// Private and loopback addresses too: the registry is at one itself.
    Inside,
}

/// An address that may not be dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is at {address}, which {}", self.why())]
pub(super) struct Refused {
    host: String,
    address: String,
    never: bool,
}

impl Refused {
    fn why(&self) -> &'static str {
        if self.never {
            "is link-local or no host's address and is never dialled"
        } else {
            "is private or loopback, and the registry is not at such an address itself"
        }
    }

    /// What would be right.
    pub(super) fn remedy(&self) -> String {
        if self.never {
            "find out why the registry or its name leads there".to_owned()
        } else {
            format!("if that is intended, allow private addresses for {}", self.host)
        }
    }
}

/// Decides which addresses may be dialled.
#[derive(Debug)]
pub(super) struct Guard {
    allow: AllowPrivate,
    /// Hosts of the proxies, which the resolver is asked for too and which are often inside.
    proxies: HashSet<String>,
    reaches: Mutex<HashMap<String, (Instant, Reach)>>,
}

impl Guard {
    pub(super) fn new(allow: AllowPrivate, proxies: HashSet<String>) -> Self {
        Self {
            allow,
            proxies,
            reaches: Mutex::default(),
        }
    }

    /// What a registry's requests may reach, by where the registry itself is: inside, if all
    /// addresses of its name are; of a mixed lot only the public ones are dialled.
    pub(super) async fn reach_of(&self, host: &Host<&str>) -> Reach {
        let name = match host {
            Host::Domain(name) => *name,
            Host::Ipv4(address) => return reach_of_addresses([IpAddr::V4(*address)]),
            Host::Ipv6(address) => return reach_of_addresses([IpAddr::V6(*address)]),
        };
        {
            let reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((when, reach)) = reaches.get(name)
                && when.elapsed() < REMEMBERED
            {
                return *reach;
            }
        }
        // A name that can't be resolved here may be one that only a proxy knows; if there is no
        // proxy, the request itself fails and says why.
        let Ok(addresses) = tokio::net::lookup_host((name, 0)).await else {
            return Reach::Public;
        };
        let reach = reach_of_addresses(addresses.map(|address| address.ip()));
        let mut reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        reaches.retain(|_, (when, _)| when.elapsed() < REMEMBERED);
        reaches.insert(name.to_owned(), (Instant::now(), reach));
        reach
    }

    /// Forgets where a registry is, because a request found it elsewhere.
    pub(super) fn forget(&self, host: &str) {
        let mut reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        reaches.remove(host);
    }

    /// Checks what can be checked of a URL without asking the network.
    pub(super) fn check(&self, url: &Url, reach: Reach) -> Result<(), Refused> {
        let (name, address) = match url.host() {
            Some(Host::Ipv4(address)) => (address.to_string(), IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => (address.to_string(), IpAddr::V6(address)),
            // The resolver lets a proxy's host pass for the proxy's sake, not for a redirect's.
            Some(Host::Domain(name))
                if reach == Reach::Public && self.is_proxy(name) && !self.allow.covers(name) =>
            {
                return Err(Refused {
                    host: name.to_owned(),
                    address: "the address of a proxy".to_owned(),
                    never: false,
                });
            }
            _ => return Ok(()),
        };
        self.admits(&name, address, reach)
            .then_some(())
            .ok_or_else(|| Refused {
                host: name,
                address: address.to_string(),
                never: Place::of(address) == Place::Never,
            })
    }

    /// The addresses of a name, without those that may not be dialled.
    ///
    /// # Errors
    /// The name can't be resolved, or no address is left ([`Refused`]).
    pub(super) async fn resolve(
        &self,
        host: &str,
        port: u16,
        reach: Reach,
    ) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        Ok(self.admitted(host, found, reach)?)
    }

    fn admitted(&self, host: &str, found: Vec<SocketAddr>, reach: Reach) -> Result<Vec<SocketAddr>, Refused> {
        let first = found.first().copied();
        let reach = if self.is_proxy(host) { Reach::Inside } else { reach };
        let good: Vec<_> = found
            .into_iter()
            .filter(|a| self.admits(host, a.ip(), reach))
            .collect();
        match first {
            Some(address) if good.is_empty() => Err(Refused {
                host: host.to_owned(),
                address: address.ip().to_string(),
                never: Place::of(address.ip()) == Place::Never,
            }),
            _ => Ok(good),
        }
    }

    fn admits(&self, host: &str, address: IpAddr, reach: Reach) -> bool {
        match Place::of(address) {
            Place::Public => true,
            Place::Inside => reach == Reach::Inside || self.allow.covers(host),
            Place::Never => false,
        }
    }

    fn is_proxy(&self, host: &str) -> bool {
        self.proxies.contains(host.trim_end_matches('.'))
    }
}

fn reach_of_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Reach {
    let mut places = addresses.into_iter().map(Place::of).peekable();
    if places.peek().is_some() && places.all(|place| place == Place::Inside) {
        Reach::Inside
    } else {
        Reach::Public
    }
}

/// Resolves names for the client of one [`Reach`].
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) guard: Arc<Guard>,
    pub(super) reach: Reach,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, reach) = (Arc::clone(&self.guard), self.reach);
        Box::pin(async move {
            // The port is 0 here; the client puts the URL's in its place.
            let addresses = guard.resolve(name.as_str(), 0, reach).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
