//! Proxies from the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals
//! or not.
//!
//! Read by us and not by the HTTP client, so that one reading gives both the client's proxies and the
//! hosts that the address rules must let pass, and so that loopback is never asked of a proxy.

use std::collections::HashSet;

use url::Url;

use crate::error::Error;

/// What is never reached through a proxy, beside `NO_PROXY`.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// The proxies in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    list: Vec<reqwest::Proxy>,
    hosts: HashSet<String>,
}

impl Proxies {
    /// Those of this process's environment.
    ///
    /// # Errors
    /// A variable is no URL of a proxy.
    pub(super) fn of_environment() -> Result<Self, Error> {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        // The lower-case name goes first, as in curl.
        let given = |name: &'static str| {
            let value = variable(&name.to_ascii_lowercase()).or_else(|| variable(name))?;
            let value = value.trim().to_owned();
            (!value.is_empty()).then_some((name, value))
        };
        let except = match given("NO_PROXY") {
            Some((_, except)) => format!("{except},{LOOPBACK}"),
            None => LOOPBACK.to_owned(),
        };
        let mut proxies = Self::default();
        for (of, make) in [
            ("HTTP_PROXY", reqwest::Proxy::http::<Url> as fn(Url) -> _),
            ("HTTPS_PROXY", reqwest::Proxy::https::<Url>),
        ] {
            let Some((name, text)) = given(of).or_else(|| given("ALL_PROXY")) else {
                continue;
            };
            // The value may hold a password and is not shown.
            let bad = || {
                Error::Config(format!(
                    "{name} is not the URL of a proxy, such as http://proxy.example.com:3128"
                ))
            };
            let url = if text.contains("://") {
                text
            } else {
                format!("http://{text}")
            };
            let url = Url::parse(&url).map_err(|_| bad())?;
            let host = url.host_str().ok_or_else(bad)?.trim_end_matches('.').to_owned();
            let proxy = make(url).map_err(|_| bad())?;
            proxies
                .list
                .push(proxy.no_proxy(reqwest::NoProxy::from_string(&except)));
            proxies.hosts.insert(host);
        }
        Ok(proxies)
    }

    /// Makes a client use these and no others.
    pub(super) fn apply(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        self.list
            .iter()
            .cloned()
            .fold(builder.no_proxy(), reqwest::ClientBuilder::proxy)
    }

    /// The proxies' own hosts.
    pub(super) fn hosts(&self) -> &HashSet<String> {
        &self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(n, _)| *n == name)?;
            Some((*value).to_owned())
        };
        let proxies = Proxies::of(variable).map_err(|error| error.to_string())?;
        let mut hosts: Vec<_> = proxies.hosts().iter().cloned().collect();
        hosts.sort();
        Ok(hosts)
    }

    #[test]
    fn reads_the_usual_variables() {
        assert_eq!(hosts(&[]).unwrap(), [""; 0]);
        assert_eq!(
            hosts(&[
                ("HTTPS_PROXY", "http://user:pass@p.corp:3128"),
                ("https_proxy", "")
            ])
            .unwrap(),
            [""; 0]
        );
        assert_eq!(
            hosts(&[("HTTPS_PROXY", "http://user:pass@p.corp:3128")]).unwrap(),
            ["p.corp"]
        );
        assert_eq!(
            hosts(&[("http_proxy", "q.corp:80"), ("HTTP_PROXY", "no")]).unwrap(),
            ["q.corp"]
        );
        assert_eq!(
            hosts(&[("all_proxy", "a.corp"), ("HTTP_PROXY", "q.corp")]).unwrap(),
            ["a.corp", "q.corp"]
        );
    }

    #[test]
    fn a_bad_one_is_named_and_not_shown() {
        let error = hosts(&[("HTTPS_PROXY", "http://user:hunter2@:::")]).unwrap_err();
        assert!(
            error.contains("HTTPS_PROXY") && !error.contains("hunter2"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn loopback_is_asked_directly() {
        let server = axum::Router::new().fallback(|| async { "direct" });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, server).await.unwrap() });
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let proxies =
            Proxies::of(|name| (name == "HTTP_PROXY").then(|| "http://127.0.0.1:1".to_owned())).unwrap();
        let client = proxies.apply(reqwest::Client::builder()).build().unwrap();
        for host in ["127.0.0.1", "localhost"] {
            let answer = client
                .get(format!("http://{host}:{}/", address.port()))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.text().await.unwrap(), "direct");
        }
        // Anything else goes to the proxy, which is not there.
        assert!(
            client
                .get("http://reg.invalid/")
                .send()
                .await
                .unwrap_err()
                .is_connect()
        );
        task.abort();
    }

    /// A proxy that refuses, and the first line of each request that it gets.
    async fn refusing() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
        use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (lines, received) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let mut connection = BufReader::new(connection);
                let mut line = String::new();
                connection.read_line(&mut line).await.unwrap();
                // Kept before it is answered, so that who has the answer finds it.
                if lines.send(line).is_err() {
                    return;
                }
                let refusal = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                connection.write_all(refusal).await.unwrap();
            }
        });
        (url, received)
    }

    #[tokio::test]
    async fn each_variable_means_its_scheme_and_no_proxy_its_hosts() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (proxy, mut received) = refusing().await;
        let http = "http://reg.invalid/";
        let https = "https://reg.invalid/";
        let inside = "http://10.1.2.3/";
        for (set, except, url, asked) in [
            ("HTTP_PROXY", "", http, true),
            ("HTTP_PROXY", "", https, false),
            ("HTTPS_PROXY", "", https, true),
            ("HTTPS_PROXY", "", http, false),
            ("https_proxy", "", https, true),
            ("ALL_PROXY", "", http, true),
            ("all_proxy", "", https, true),
            ("ALL_PROXY", "other.invalid", https, true),
            ("ALL_PROXY", "other.invalid, reg.invalid", https, false),
            ("ALL_PROXY", "invalid", https, false),
            ("ALL_PROXY", ".invalid", https, false),
            ("ALL_PROXY", "eg.invalid", https, true),
            ("ALL_PROXY", "*", https, false),
            ("ALL_PROXY", "10.1.0.0/16", inside, false),
            ("ALL_PROXY", "10.2.0.0/16", inside, true),
            ("ALL_PROXY", "10.1.2.3", inside, false),
            ("ALL_PROXY", "", "https://[::1]:1/", false),
        ] {
            for no_proxy in ["NO_PROXY", "no_proxy"] {
                let proxies = Proxies::of(|name| {
                    let value = if name == set {
                        &proxy
                    } else if name == no_proxy {
                        except
                    } else {
                        return None;
                    };
                    Some(value.to_owned())
                })
                .unwrap();
                let client = proxies
                    .apply(reqwest::Client::builder())
                    // Nobody is at the addresses that are asked directly.
                    .connect_timeout(std::time::Duration::from_millis(500))
                    .build()
                    .unwrap();
                // Whatever came of it: what counts is who was asked.
                let _ = client.get(url).send().await;
                let line = received.try_recv().ok();
                assert_eq!(line.is_some(), asked, "{set}, {no_proxy}={except}: {url}");
                if let Some(line) = line.filter(|_| url == https) {
                    assert!(line.starts_with("CONNECT reg.invalid:443 "), "{line}");
                }
            }
        }
    }
}
