//! docker-registry's access log, in Apache's combined format.

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Such as `GET`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The answer's status.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes: u64,
}

/// All requests so far, in the order in which they were done with.
#[derive(Debug, Clone, Default)]
pub struct AccessLog {
    /// The requests.
    pub lines: Vec<LogLine>,
}

impl AccessLog {
    /// Reads what the registry wrote; lines that are no access log are left out.
    pub(crate) fn parse(output: &str) -> Self {
        Self {
            lines: output.lines().filter_map(LogLine::parse).collect(),
        }
    }

    /// How often the content of a digest, manifest or blob, was sent (in whole or in part).
    pub fn gets_of(&self, digest: &str) -> usize {
        self.count("GET", |path| path.ends_with(digest))
    }

    /// How often a manifest was sent under this tag.
    pub fn gets_of_tag(&self, tag: &str) -> usize {
        self.count("GET", |path| path.ends_with(&format!("/manifests/{tag}")))
    }

    /// How often a tag was asked about without its manifest.
    pub fn heads_of_tag(&self, tag: &str) -> usize {
        self.count("HEAD", |path| path.ends_with(&format!("/manifests/{tag}")))
    }

    /// How many manifests and blobs were sent.
    pub fn gets(&self) -> usize {
        self.count("GET", |path| {
            path.contains("/manifests/") || path.contains("/blobs/")
        })
    }

    fn count(&self, method: &str, path: impl Fn(&str) -> bool) -> usize {
        let sent = |line: &&LogLine| line.method == method && (200..300).contains(&line.status);
        self.lines
            .iter()
            .filter(sent)
            .filter(|line| path(&line.path))
            .count()
    }
}

impl LogLine {
    /// `127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /v2/ HTTP/1.1" 200 2 "" "agent"`
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("] \"")?;
        let (request, rest) = rest.split_once("\" ")?;
        let mut request = request.split(' ');
        let mut rest = rest.split(' ');
        Some(Self {
            method: request.next()?.to_owned(),
            path: request.next()?.to_owned(),
            status: rest.next()?.parse().ok()?,
            bytes: rest.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_requests_and_nothing_else() {
        let log = AccessLog::parse(concat!(
            "time=\"2026-01-01T00:00:00Z\" level=warning msg=\"No HTTP secret provided\" go.version=go1.19.8\n",
            "127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /v2/a/blobs/sha256:ab HTTP/1.1\" 200 42 \"\" \"x y\"\n",
            "127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /v2/a/blobs/sha256:ab HTTP/1.1\" 401 7 \"\" \"x\"\n",
            "127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"HEAD /v2/a/manifests/v1 HTTP/1.1\" 200 0 \"\" \"x\"\n",
        ));
        assert_eq!(log.lines.len(), 3);
        assert_eq!((log.lines[0].status, log.lines[0].bytes), (200, 42));
        assert_eq!(log.gets_of("sha256:ab"), 1);
        assert_eq!((log.heads_of_tag("v1"), log.gets_of_tag("v1")), (1, 0));
    }
}
