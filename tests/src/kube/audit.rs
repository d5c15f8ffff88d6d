//! What the server was asked, by its own audit log.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The verbs that change objects.
const WRITES: [&str; 6] = ["create", "update", "patch", "delete", "deletecollection", "apply"];

/// A request that the server has answered or, if it is a watch, begun to answer.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    /// Who asked.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; for what is no resource, the HTTP
    /// method in lower case.
    pub verb: String,
    /// The path and the query.
    pub uri: String,
    /// The API group; empty for the core group and for what is no resource.
    pub group: String,
    /// The resource with its subresource, such as `clustercatalogs/status`; empty for what is no resource.
    pub resource: String,
    /// The subresource alone, such as `status`, else empty.
    pub subresource: String,
    /// Empty for what has no namespace.
    pub namespace: String,
    /// The object's name; empty where the request does not say it.
    pub name: String,
    /// The answer's HTTP status.
    pub code: u16,
    /// When the request came.
    pub time: Timestamp,
    /// The body of a write: the object, or the patch.
    pub request_object: Option<Value>,
}

impl AuditEvent {
    /// Whether it was to change an object.
    pub fn is_write(&self) -> bool {
        !self.resource.is_empty() && WRITES.contains(&self.verb.as_str())
    }
}

/// The policy by which the server writes the log: of writes it keeps what was sent, too.
pub(super) fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            { "level": "Metadata", "verbs": ["get", "list", "watch"] },
            { "level": "Request" },
        ],
    })
}

/// Reads the log. A last line that is still being written is left out, and so is the end of a watch whose
/// start is there.
pub(super) fn parse(log: &str) -> Vec<AuditEvent> {
    let mut seen = std::collections::HashSet::new();
    log.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("audit log: {error}: {line}")))
        .filter(|line: &Line| seen.insert(line.audit_id.clone()))
        .map(AuditEvent::from)
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    user: Who,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: What,
    response_status: Option<Answer>,
    request_received_timestamp: Timestamp,
    request_object: Option<Value>,
}

#[derive(Deserialize)]
struct Who {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct What {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
}

impl From<Line> for AuditEvent {
    fn from(line: Line) -> Self {
        let What {
            api_group,
            mut resource,
            subresource,
            namespace,
            name,
        } = line.object_ref;
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        Self {
            user: line.user.username,
            verb: line.verb,
            uri: line.request_uri,
            group: api_group,
            resource,
            subresource,
            namespace,
            name,
            code: line.response_status.map_or(0, |answer| answer.code),
            time: line.request_received_timestamp,
            request_object: line.request_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_whole_lines_and_each_request_once() {
        let line = |id: &str, object: &Value| {
            let line = json!({
                "auditID": id, "user": { "username": "controller" }, "verb": "patch", "requestURI": "/apis/x",
                "objectRef": object, "responseStatus": { "metadata": {}, "code": 409 },
                "requestReceivedTimestamp": "2026-01-02T03:04:05.678901Z", "requestObject": { "a": 1 },
            });
            format!("{line}\n")
        };
        let status = json!({ "apiGroup": "g", "resource": "things", "subresource": "status", "name": "n" });
        let log = [
            line("1", &status),
            line("1", &status),
            line("2", &json!({})),
            "{".to_owned(),
        ]
        .concat();

        let events = parse(&log);

        assert_eq!(events.len(), 2);
        let first = &events[0];
        assert_eq!(
            (first.group.as_str(), first.resource.as_str(), first.name.as_str()),
            ("g", "things/status", "n")
        );
        assert_eq!(
            (first.code, first.request_object.as_ref()),
            (409, Some(&json!({ "a": 1 })))
        );
        assert!(first.is_write() && !events[1].is_write());
    }
}
