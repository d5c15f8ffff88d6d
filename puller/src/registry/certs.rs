//! TLS for single hosts: directories as containers-certs.d(5) has them.
//!
//! `<dir>/<host[:port]>/` may hold `*.crt`, authorities to trust for this host beside all others, and
//! `NAME.cert` with `NAME.key`, the certificate that is shown to this host and its key. The first
//! directory that exists for a host is the one that counts.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{Certificate, Identity};
use url::Url;

use super::stamp::Stamp;

/// How long a directory is not looked at again: often enough for a rotation, seldom enough for a pull
/// with many requests.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Most bytes of a file: bundles of all the world's authorities have some hundred KiB.
const LONGEST_FILE: u64 = 4 << 20;

/// A directory's files, and how each of them was.
type Stamps = Vec<(PathBuf, Option<Stamp>)>;

/// What a host's directory says.
#[derive(Debug)]
pub(super) struct HostTls {
    /// Tells it from what the directory said before.
    stamp: Stamps,
    /// Authorities to trust as well.
    pub(super) roots: Vec<Certificate>,
    /// What we show.
    pub(super) identity: Option<Identity>,
}

/// Why a directory can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub(super) struct Unusable {
    file: PathBuf,
    problem: String,
    /// What would be right.
    pub(super) remedy: &'static str,
}

/// What is known of a host, and since when.
type Looked = (Instant, Result<Option<Arc<HostTls>>, Unusable>);

/// The directories, looked at again as they change.
#[derive(Debug)]
pub(super) struct Certs {
    places: Vec<PathBuf>,
    known: Mutex<HashMap<String, Looked>>,
}

impl Certs {
    pub(super) fn new(places: Vec<PathBuf>) -> Self {
        Self {
            places,
            known: Mutex::default(),
        }
    }

    /// What is said of a URL's host (and port, as a person would write them); `None`: nothing.
    ///
    /// # Errors
    /// A file of its directory can't be used.
    pub(super) fn of(&self, url: &Url, host: &str) -> Result<Option<Arc<HostTls>>, Unusable> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match known.get(host) {
            Some((when, result)) if when.elapsed() < LOOK_EVERY => return result.clone(),
            Some((_, Ok(before))) => before.clone(),
            _ => None,
        };
        known.retain(|_, (when, result)| when.elapsed() < LOOK_EVERY || !matches!(result, Ok(None)));
        let result = self.look(url, host, before);
        known.insert(host.to_owned(), (Instant::now(), result.clone()));
        result
    }

    fn look(
        &self,
        url: &Url,
        host: &str,
        before: Option<Arc<HostTls>>,
    ) -> Result<Option<Arc<HostTls>>, Unusable> {
        let names = names(url, host);
        for directory in self
            .places
            .iter()
            .flat_map(|place| names.iter().map(|name| place.join(name)))
        {
            let files = match files(&directory) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&directory, &error)),
            };
            // Taken before the files are read: what changes meanwhile is read again.
            let stamp = stamps(files)?;
            return match before {
                Some(before) if before.stamp == stamp => Ok(Some(before)),
                _ => HostTls::read(stamp).map(|tls| Some(Arc::new(tls))),
            };
        }
        Ok(None)
    }
}

impl HostTls {
    fn read(stamp: Stamps) -> Result<Self, Unusable> {
        let mut roots = Vec::new();
        let mut identity = None;
        for (file, ..) in &stamp {
            match extension(file) {
                "crt" => {
                    let found = Certificate::from_pem_bundle(&contents(file)?)
                        .ok()
                        .filter(|found| !found.is_empty())
                        .ok_or_else(|| {
                            unusable(
                                file,
                                "holds no certificate in PEM form",
                                "put an authority's certificate there",
                            )
                        })?;
                    roots.extend(found);
                }
                "cert" => {
                    let key = beside(
                        &stamp,
                        file,
                        "key",
                        "the client certificate has no .key beside it",
                    )?;
                    // The first by name is shown: which of several a server wants can't be told.
                    if identity.is_none() {
                        let mut pem = contents(file)?;
                        pem.push(b'\n');
                        pem.extend(contents(&key)?);
                        identity = Some(Identity::from_pem(&pem).map_err(|_| {
                            unusable(
                                file,
                                "is no certificate in PEM form, or the .key beside it no private key",
                                "put a certificate chain and its private key there, without a passphrase",
                            )
                        })?);
                    }
                }
                _ => drop(beside(&stamp, file, "cert", "the key has no .cert beside it")?),
            }
        }
        Ok(Self {
            stamp,
            roots,
            identity,
        })
    }

    /// Whether both say the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }
}

/// The names of a host's directory. Docker Hub's is the one that people know. A reference may name
/// the port even if it is the usual one.
fn names(url: &Url, host: &str) -> Vec<String> {
    let host = match host {
        "registry-1.docker.io" => "docker.io",
        host => host,
    };
    match (url.port(), url.port_or_known_default()) {
        (None, Some(port)) => vec![host.to_owned(), format!("{host}:{port}")],
        _ => vec![host.to_owned()],
    }
}

/// The directory's files that mean something, by name.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if matches!(extension(&path), "crt" | "cert" | "key") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn stamps(files: Vec<PathBuf>) -> Result<Stamps, Unusable> {
    files
        .into_iter()
        .map(|file| {
            let stamp = Stamp::of(&file).map_err(|error| unreadable(&file, &error))?;
            Ok((file, stamp))
        })
        .collect()
}

fn contents(file: &Path) -> Result<Vec<u8>, Unusable> {
    let meta = fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    // A pipe would be waited for.
    if !meta.is_file() || meta.len() > LONGEST_FILE {
        return Err(unusable(
            file,
            "is no file, or too long for certificates",
            "put a PEM file there",
        ));
    }
    fs::read(file).map_err(|error| unreadable(file, &error))
}

/// The other half of a pair.
fn beside(
    stamp: &[(PathBuf, Option<Stamp>)],
    file: &Path,
    extension: &str,
    problem: &'static str,
) -> Result<PathBuf, Unusable> {
    let other = file.with_extension(extension);
    if stamp.iter().any(|(file, ..)| *file == other) {
        Ok(other)
    } else {
        Err(unusable(
            file,
            problem,
            "put NAME.cert and NAME.key there; an authority's certificate is NAME.crt",
        ))
    }
}

fn extension(file: &Path) -> &str {
    file.extension()
        .and_then(|text| text.to_str())
        .unwrap_or_default()
}

fn unreadable(file: &Path, error: &io::Error) -> Unusable {
    unusable(
        file,
        format!("cannot be read: {error}"),
        "let the puller's user read it",
    )
}

fn unusable(file: &Path, problem: impl Into<String>, remedy: &'static str) -> Unusable {
    Unusable {
        file: file.to_owned(),
        problem: problem.into(),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::fault;

    fn of(place: &Path, url: &str) -> Result<bool, String> {
        let certs = Certs::new(vec![place.to_owned()]);
        let url = url.parse().unwrap();
        let found = certs
            .of(&url, &fault::authority(&url))
            .map_err(|error| error.to_string())?;
        Ok(found.is_some())
    }

    #[test]
    fn a_directory_is_for_its_host_and_port_only() {
        let place = tempfile::tempdir().unwrap();
        for name in ["reg.io:5000", "docker.io", "[::1]:5000", "named.io:443"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        for (url, found) in [
            ("https://reg.io:5000/v2/", true),
            ("https://reg.io/v2/", false),
            ("https://reg.io:5001/v2/", false),
            ("https://registry-1.docker.io/v2/", true),
            ("https://[::1]:5000/v2/", true),
            ("https://named.io/v2/", true),
        ] {
            assert_eq!(of(place.path(), url), Ok(found), "{url}");
        }
    }

    #[test]
    fn half_a_pair_and_what_is_no_certificate_are_named() {
        for name in ["a.cert", "a.key", "a.crt"] {
            let place = tempfile::tempdir().unwrap();
            let directory = place.path().join("reg.io");
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(name), "nothing").unwrap();
            let error = of(place.path(), "https://reg.io/").unwrap_err();
            assert!(error.contains(name), "{error}");
            assert_eq!(of(place.path(), "https://other.io/"), Ok(false));
        }
    }
}
