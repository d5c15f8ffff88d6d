//! The one way to a server: every request of the puller, to registries, their token servers and their
//! storage, goes through [`Wire::ask`], which checks addresses, follows redirects and ends waits.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use tokio::time::timeout;
use url::Url;

use super::{
    address::{Guard, Reach},
    clients::{Clients, Profile},
    fault,
    guests::Guest,
    proxy::Proxies,
    redirect, retry_after,
    settings::Settings,
};
use crate::{
    domain::{Activity, Reason, Secret},
    error::{Error, Fault},
};

/// Most of an error's body that is read.
const ERROR_CAP: usize = 64 << 10;

/// How long an error's body may take: it is for the message only.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// A wait for the next bytes of a body is told after this.
const QUIET: Duration = Duration::from_secs(1);

/// Kept connections that may turn out to be closed before a request fails: one for each of the requests to a
/// registry that run at the same time, and some more.
const MOST_KEPT: usize = 16;

/// The HTTP clients, and the rules for using them.
#[derive(Debug)]
pub(super) struct Wire {
    clients: Clients,
    pub(super) guard: Arc<Guard>,
    pub(super) idle: Duration,
}

/// One request, before any redirect.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    /// Kept at each hop.
    pub(super) headers: HeaderMap,
    /// Sent to the URL's own origin only.
    pub(super) authorization: Option<HeaderValue>,
    /// Sent to its own origin only, once a redirect has led there.
    pub(super) guest: Option<Guest>,
    /// A form to be posted. Such a request is not redirected.
    pub(super) form: Option<Secret<String>>,
    /// Whether redirects may lead to plain HTTP.
    pub(super) plain: bool,
    pub(super) reach: Reach,
    /// Whether the URL's own origin may have any certificate. Hosts that redirects lead to may not.
    pub(super) insecure: bool,
    pub(super) activity: &'a Arc<Activity>,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    response: reqwest::Response,
    /// The request and the URL first asked, for messages.
    asked: String,
    head: bool,
    /// Who answered.
    pub(super) host: String,
    /// Who answered what in the end; it may hold secrets in its query.
    pub(super) url: Url,
    /// Whether it is the origin that was asked first, which had our credentials and whose words may be
    /// quoted.
    pub(super) at_home: bool,
    activity: Arc<Activity>,
    idle: Duration,
}

impl Wire {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let proxies = Proxies::of_environment()?;
        let guard = Arc::new(Guard::new(
            settings.allow_private.clone(),
            proxies.hosts().clone(),
        ));
        Ok(Self {
            clients: Clients::new(settings, proxies, Arc::clone(&guard))?,
            guard,
            idle: settings.idle_timeout,
        })
    }

    /// Sends a request, follows its redirects, and gives the first answer that is none.
    ///
    /// # Errors
    /// No answer came, or a redirect leads where we do not go.
    pub(super) async fn ask(&self, call: &Call<'_>) -> Result<Answer, Fault> {
        let asked = format!("{} {}", call.method, fault::shown(&call.url));
        let mut url = call.url.clone();
        let mut at_home = true;
        for _ in 0..=redirect::MOST_HOPS {
            let host = fault::authority(&url);
            let response = self.send(call, &url, &host, at_home, &asked).await?;
            let status = response.status();
            tracing::debug!(method = %call.method, url = fault::shown(&url), status = status.as_u16(), "answered");
            if !redirect::is_redirect(status) || call.form.is_some() {
                return Ok(Answer {
                    response,
                    asked,
                    head: call.method == Method::HEAD,
                    host,
                    url,
                    at_home,
                    activity: Arc::clone(call.activity),
                    idle: self.idle,
                });
            }
            url = redirect::next(&url, response.headers().get(LOCATION), call.plain).map_err(|problem| {
                Fault::new(
                    Reason::RegistryError,
                    asked.as_str(),
                    format!("{host} answered {status}, a redirect {problem}"),
                    "have the registry redirect to https URLs",
                )
            })?;
            // Once away, never at home again: who led us away chose where we come back to.
            at_home = at_home && redirect::same_origin(&url, &call.url);
        }
        Err(Fault::new(
            Reason::RegistryError,
            asked,
            format!("more than {} redirects", redirect::MOST_HOPS),
            "look for a loop in the registry's redirects",
        ))
    }

    async fn send(
        &self,
        call: &Call<'_>,
        url: &Url,
        host: &str,
        at_home: bool,
        asked: &str,
    ) -> Result<reqwest::Response, Fault> {
        self.guard
            .check(url, call.reach)
            .map_err(|refused| fault::refused_address(asked, &refused))?;
        let profile = Profile {
            reach: call.reach,
            insecure: call.insecure && at_home,
        };
        let client = self.clients.of(&profile, asked, url, host)?;
        let _wait = call.activity.waiting_for(format!("an answer from {host}"));
        for _ in 0..MOST_KEPT {
            let dials = client.dials();
            let request = request(&client.http, call, url, at_home);
            let error = match timeout(self.idle, request.send()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => return Err(fault::idle(asked, host, self.idle)),
            };
            // A connection that was kept for the next request may be closed by then, or while that is on
            // its way; what only reads is asked again then (RFC 9110 section 9.2.2).
            let was_kept = client.dials() == dials && !error.is_connect() && !error.is_timeout();
            if !was_kept || call.form.is_some() {
                return Err(fault::of_transport(asked, host, &error));
            }
            tracing::debug!(host, %error, "a kept connection turned out to be closed");
        }
        Err(Fault::new(
            Reason::Network,
            asked,
            format!("{host} closed {MOST_KEPT} connections one after the other"),
            "",
        ))
    }
}

fn request(client: &reqwest::Client, call: &Call<'_>, url: &Url, at_home: bool) -> reqwest::RequestBuilder {
    let mut request = client
        .request(call.method.clone(), url.clone())
        // Without this field any coding would do (RFC 9110 section 12.5.3), and digests are of the bytes as they
        // are.
        .header(ACCEPT_ENCODING, "identity")
        .headers(call.headers.clone());
    let guest = call.guest.as_ref();
    let authorization = match at_home {
        true => call.authorization.as_ref(),
        false => guest
            .filter(|guest| redirect::same_origin(&guest.origin, url))
            .map(|guest| &guest.header),
    };
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    if let Some(form) = &call.form {
        request = request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.expose().clone());
    }
    request
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Whether it has no body because none was asked for.
    pub(super) fn was_head(&self) -> bool {
        self.head
    }

    /// The body's length, if the answer says it.
    pub(super) fn length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// What was asked, as faults say it.
    pub(super) fn asked(&self) -> &str {
        &self.asked
    }

    /// The pause that the answer asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        retry_after::of(self.headers(), SystemTime::now())
    }

    /// The fault that an answer without success is, with what the registry says of it.
    pub(super) async fn into_fault(self, remedy: impl Into<String>) -> Fault {
        let status = self.status();
        // RFC 9110 section 10.2.3 has it for 503, RFC 6585 for 429; gateways send it with their own too.
        let paused = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let retry_after = self.retry_after().filter(|_| paused);
        let asked = self.asked.clone();
        let mut happened = format!("{} answered {status}", self.host);
        let said = self.said().await;
        if !said.is_empty() {
            happened.push_str(": ");
            happened.push_str(&said);
        }
        let mut fault = Fault::new(fault::reason_of(status), asked, happened, remedy);
        fault.retry_after = retry_after;
        fault
    }

    /// What the body of an error says; nothing, if it is not from the registry's own origin.
    async fn said(mut self) -> String {
        let mut body = BytesMut::new();
        if !self.at_home {
            return String::new();
        }
        // Whatever came of it is used: a body that breaks off must not hide the status.
        let _ = timeout(ERROR_PATIENCE, async {
            while let Ok(Some(chunk)) = self.response.chunk().await {
                let room = ERROR_CAP - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() >= ERROR_CAP {
                    break;
                }
            }
        })
        .await;
        fault::said(&body)
    }

    /// The whole body, if it is not longer than `cap`.
    ///
    /// # Errors
    /// It is longer (`limit exceeded`), or it breaks off.
    pub(super) async fn into_bytes(mut self, cap: usize) -> Result<Bytes, Fault> {
        let too_long = |asked: &str| {
            Fault::new(
                Reason::LimitExceeded,
                asked,
                format!("the answer is longer than {cap} bytes"),
                format!("at most {cap} bytes are read of such an answer"),
            )
        };
        let announced = self.length().unwrap_or(0);
        if announced > cap as u64 {
            return Err(too_long(&self.asked));
        }
        // The announcement is bounded by the cap, but nothing has come yet that would justify it.
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > cap {
                return Err(too_long(&self.asked));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// The body as it arrives.
    pub(super) fn into_chunks(self) -> BoxStream<'static, Result<Bytes, Fault>> {
        // After a fault there is no more.
        stream::unfold(Some(self), |answer| async {
            let mut answer = answer?;
            match answer.chunk().await {
                Ok(Some(chunk)) => Some((Ok(chunk), Some(answer))),
                Ok(None) => None,
                Err(fault) => Some((Err(fault), None)),
            }
        })
        .boxed()
    }

    /// The next piece of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let quiet = QUIET.min(self.idle);
        let chunk = match timeout(quiet, self.response.chunk()).await {
            Ok(chunk) => chunk,
            Err(_) => {
                let _wait = self.activity.waiting_for(format!("bytes from {}", self.host));
                timeout(self.idle - quiet, self.response.chunk())
                    .await
                    .map_err(|_| fault::idle(&self.asked, &self.host, self.idle))?
            }
        };
        chunk.map_err(|error| fault::of_transport(&self.asked, &self.host, &error))
    }
}
