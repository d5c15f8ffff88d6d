//! The content of catalogs, by the routes of catalogd.
//!
//! What clients may notice to be otherwise than with catalogd:
//! - There are ETags, and conditions are held against them. `If-None-Match` that names any coding of the
//!   content is answered with 304, since who has one has the content.
//! - A malformed `If-Modified-Since` is ignored by `metas` as by `all`; catalogd sends 500 and then the content.
//! - `metas` has a `Content-Length`, for HEAD too. What it filters is not compressed, because only the whole is
//!   kept compressed; `metas` that filters nothing is sent as `all` is.
//! - Compressed content has a `Content-Length`. `identity` with a larger `q` than the codings is honoured.
//! - More than one range is answered with the whole, and so is a range in a unit other than bytes; catalogd
//!   sends `multipart/byteranges` and 416. HEAD ignores `Range`, as HTTP has it.
//! - A catalog that is known and has no content yet is 503 with the reason and `Retry-After`, not 404.
//! - A redirect has no body. HTTP/2 is spoken where clients want it.

mod coding;
mod conditions;
mod ranges;

use std::{fmt::Debug, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::any,
};

use self::{
    conditions::{Held, Validators},
    ranges::Wanted,
};
use super::Requests;
use crate::content::{Coding, Content, Query, Section};

/// Less than this is not worth a coding; catalogd's threshold.
const SMALL: u64 = 1024;

/// Where content comes from.
pub trait Catalogs: Debug + Send + Sync {
    /// What there is to hand out of a catalog.
    fn look(&self, name: &str) -> Look;
}

/// What there is to hand out of a catalog.
#[derive(Debug)]
pub enum Look {
    /// There is no such catalog.
    Unknown,
    /// There is nothing of it yet, or not here.
    Unavailable {
        /// Why, for who asks.
        reason: String,
        /// When it may be otherwise.
        retry_after: Duration,
    },
    /// Its content.
    Here(Arc<Content>),
}

/// The routes of all catalogs; `metas` only where it is wanted.
pub fn catalogs(catalogs: Arc<dyn Catalogs>, metas: bool, requests: &Requests) -> Router {
    let mut router = Router::new().route("/catalogs/{name}/api/v1/all", any(self::all));
    if metas {
        router = router.route("/catalogs/{name}/api/v1/metas", any(self::metas));
    }
    let router = router
        .fallback(async || Refusal::Route)
        .with_state(catalogs)
        .layer(from_fn(tidy));
    requests.count(router)
}

async fn all(
    State(catalogs): State<Arc<dyn Catalogs>>,
    Path(name): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let head = is_head(&method)?;
    check_name(&name)?;
    let content = find(&*catalogs, &name)?;
    Ok(deliver(&content, None, head, &headers))
}

async fn metas(
    State(catalogs): State<Arc<dyn Catalogs>>,
    Path(name): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let head = is_head(&method)?;
    check_name(&name)?;
    let query = query(uri.query().unwrap_or_default())?;
    let content = find(&*catalogs, &name)?;
    Ok(deliver(&content, Some(&query), head, &headers))
}

/// Sends what is wanted of content: the whole, or what a query finds in it.
fn deliver(content: &Content, query: Option<&Query>, head: bool, headers: &HeaderMap) -> Response {
    let length = content.length(Coding::Identity);
    let whole = Section { offset: 0, length };
    let sections = query.map_or_else(|| vec![whole], |query| content.find(query));
    let is_whole = sections == [whole];
    let coding = match !head && is_whole && length >= SMALL {
        true => coding::choose(headers),
        false => Coding::Identity,
    };
    let validators = Validators::of(content);
    match validators.hold(headers, coding) {
        Held::Yes => {}
        Held::NotModified(tag) => return validators.answer(StatusCode::NOT_MODIFIED, tag),
        Held::Failed => return validators.answer(StatusCode::PRECONDITION_FAILED, coding),
    }
    let wanted = match query.is_none() && !head && validators.range_holds(headers) {
        true => ranges::wanted(headers, length),
        false => Wanted::All,
    };
    let (status, coding, sections, length) = match wanted {
        Wanted::None => return unsatisfiable(length),
        // Parts are never compressed: a part of what is compressed is of no use to who asks for it.
        Wanted::Part(part) => (
            StatusCode::PARTIAL_CONTENT,
            Coding::Identity,
            vec![part],
            part.length,
        ),
        Wanted::All if coding == Coding::Identity => {
            let length = sections.iter().map(|section| section.length).sum();
            (StatusCode::OK, coding, sections, length)
        }
        Wanted::All => {
            let length = content.length(coding);
            (
                StatusCode::OK,
                coding,
                vec![Section { offset: 0, length }],
                length,
            )
        }
    };
    let mut response = validators.answer(status, coding);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/jsonl"),
    );
    headers.insert(header::CONTENT_LENGTH, length.into());
    if let Some(coding) = coding::name(coding) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    } else if query.is_none() {
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    if let (Wanted::Part(part), Ok(range)) = (wanted, ranges::describe(wanted, whole.length).try_into()) {
        debug_assert_eq!(part.length, length);
        headers.insert(header::CONTENT_RANGE, range);
    }
    if !head {
        *response.body_mut() = Body::from_stream(content.read(coding, sections));
    }
    response
}

fn unsatisfiable(length: u64) -> Response {
    let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, "the content has no such range");
    if let Ok(range) = ranges::describe(Wanted::None, length).try_into() {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    response
}

fn find(catalogs: &dyn Catalogs, name: &str) -> Result<Arc<Content>, Refusal> {
    match catalogs.look(name) {
        Look::Here(content) => Ok(content),
        Look::Unknown => Err(Refusal::Unknown),
        Look::Unavailable { reason, retry_after } => Err(Refusal::Unavailable { reason, retry_after }),
    }
}

fn is_head(method: &Method) -> Result<bool, Refusal> {
    match *method {
        Method::GET => Ok(false),
        Method::HEAD => Ok(true),
        _ => Err(Refusal::Method),
    }
}

/// A DNS subdomain as RFC 1123 has it, which is what names of objects are.
fn check_name(name: &str) -> Result<(), Refusal> {
    const LONGEST: usize = 253;
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(inner)
    };
    match name.len() <= LONGEST && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(Refusal::Name(name.to_owned())),
    }
}

/// Of each parameter the first counts.
fn query(text: &str) -> Result<Query, Refusal> {
    let mut query = Query::default();
    for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
        let field = match &*name {
            "schema" => &mut query.schema,
            "package" => &mut query.package,
            "name" => &mut query.name,
            _ => return Err(Refusal::Parameter),
        };
        field.get_or_insert_with(|| value.into_owned());
    }
    Ok(query)
}

/// Why there is no content.
#[derive(Debug)]
enum Refusal {
    Route,
    Method,
    Name(String),
    Parameter,
    Unknown,
    Unavailable { reason: String, retry_after: Duration },
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Route => text(StatusCode::NOT_FOUND, "404 page not found"),
            Self::Method => text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
            Self::Name(name) => text(
                StatusCode::BAD_REQUEST,
                &format!(
                    "{name:?} can't be the name of a catalog: names are lower case letters, digits, '-' and '.', \
                     begin and end with a letter or digit, also around each '.', and have at most 253 of them"
                ),
            ),
            Self::Parameter => text(StatusCode::BAD_REQUEST, "400 Bad Request"),
            Self::Unknown => text(StatusCode::NOT_FOUND, "404 Not Found"),
            Self::Unavailable { reason, retry_after } => {
                let mut response = text(StatusCode::SERVICE_UNAVAILABLE, &reason);
                // Never 0, which would have clients ask in a loop.
                let seconds = retry_after.as_millis().div_ceil(1000).max(1);
                let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                response
            }
        }
    }
}

fn text(status: StatusCode, line: &str) -> Response {
    let nosniff = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    (status, [nosniff], format!("{line}\n")).into_response()
}

/// Redirects paths that are not in their shortest form, and says of all else what it depends on.
async fn tidy(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let clean = clean(uri.path());
    let mut response = match clean == uri.path() {
        true => next.run(request).await,
        false => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            (
                StatusCode::TEMPORARY_REDIRECT,
                [(header::LOCATION, format!("{clean}{query}"))],
            )
                .into_response()
        }
    };
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// A path without empty segments and dots; a slash at its end stays.
fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut clean = format!("/{}", segments.join("/"));
    if path.ends_with('/') && clean.len() > 1 {
        clean.push('/');
    }
    clean
}

#[cfg(test)]
mod tests;
