//! Who may call the server.

use serde_json::{Value, json};

/// Somebody whom the server knows by a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The name, as in the subject of a role binding and in the audit log.
    pub name: &'static str,
    /// The group; in addition, the server makes everybody one of `system:authenticated`.
    pub group: &'static str,
}

/// May do everything.
pub const ADMIN: User = User {
    name: "admin",
    group: "system:masters",
};

/// May do nothing until a role is bound to it; the controller of a scenario.
pub const CONTROLLER: User = User {
    name: "controller",
    group: "controllers",
};

/// May do nothing until a role is bound to it; reads metrics in a scenario.
pub const SCRAPER: User = User {
    name: "scraper",
    group: "scrapers",
};

/// May do nothing, ever.
pub const NOBODY: User = User {
    name: "nobody",
    group: "nobodies",
};

/// All of them.
pub(super) const USERS: [User; 4] = [ADMIN, CONTROLLER, SCRAPER, NOBODY];

impl User {
    /// The token; the servers of all scenarios have the same ones, for they are on loopback for seconds.
    pub(super) fn token(self) -> String {
        format!("token-of-{}", self.name)
    }

    /// The line of the server's token file.
    pub(super) fn line(self) -> String {
        format!(
            "{},{name},{name},{}\n",
            self.token(),
            self.group,
            name = self.name
        )
    }

    /// A kubeconfig; JSON, of which YAML is a superset.
    pub(super) fn kubeconfig(self, url: &str, ca: &std::path::Path) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "it", "cluster": { "server": url, "certificate-authority": ca } }],
            "users": [{ "name": self.name, "user": { "token": self.token() } }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": self.name } }],
            "current-context": "it",
        })
    }
}
