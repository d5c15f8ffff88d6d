//! `ClusterCatalog`, `olm.operatorframework.io/v1`: the same fields, defaults and rules as those of catalogd,
//! so that objects and clients need not change.

mod crd;
mod schema;

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::crd::crd;

/// Holds an object until its content is gone.
pub const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
/// The label that holds the object's own name: ClusterExtensions select catalogs by it.
pub const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// The condition that says whether content is served.
pub const SERVING: &str = "Serving";
/// The condition that says what goes on, and what keeps it from going on.
pub const PROGRESSING: &str = "Progressing";

/// What a user asks for.
// kube's derive repeats keys in its lists of printer columns, which the lint takes for a mistake.
#[allow(clippy::duplicated_attributes)]
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    plural = "clustercatalogs",
    derive = "PartialEq",
    status = "ClusterCatalogStatus",
    doc = "A catalog of operators, kept in an image of a registry, whose content the cluster serves to those that install from it.",
    printcolumn(name = "LastUnpacked", type_ = "date", json_path = ".status.lastUnpacked"),
    printcolumn(
        name = "Serving",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Serving")].status"#
    ),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Progressing")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = r#".status.conditions[?(@.type=="Progressing")].message"#
    ),
    printcolumn(
        name = "Resolved",
        type_ = "string",
        priority = 1,
        json_path = ".status.resolvedSource.image.ref"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogSpec {
    /// Where the catalog's content comes from.
    pub source: CatalogSource,
    /// Ranks this catalog against others that offer the same package: the higher number is preferred. It is
    /// for those who read catalogs; pulling and serving don't depend on it.
    #[serde(default)]
    pub priority: i32,
    /// Whether the content is served. Available: it is pulled, kept up to date and served. Unavailable: it is
    /// dropped, and nothing is pulled.
    #[serde(default)]
    pub availability_mode: AvailabilityMode,
}

/// Where content comes from: of one type, with the field of that type set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = schema::union_rule()))]
pub struct CatalogSource {
    /// The kind of source. Image: an image of a registry.
    #[serde(rename = "type")]
    pub type_: SourceType,
    /// The image, where the type is Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The kinds of source.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub enum SourceType {
    /// An image of a registry.
    Image,
}

/// Whether a catalog is to be served.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub enum AvailabilityMode {
    /// It is.
    #[default]
    Available,
    /// It is not.
    Unavailable,
}

/// An image of a registry.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = schema::poll_rule()))]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The image's reference with its registry and a tag, a digest or both, such as
    /// quay.io/operatorhubio/catalog:latest. With a digest it always means the same content.
    #[serde(rename = "ref")]
    #[schemars(schema_with = "schema::reference")]
    pub reference: String,
    /// How often the registry is asked what the tag stands for, in minutes; it is asked a little later each
    /// time, so that catalogs don't all ask at once. Unset: once. Not allowed with a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::poll_interval")]
    pub poll_interval_minutes: Option<i64>,
}

/// What is the case.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCatalogStatus {
    /// Progressing: what goes on. Serving: whether content is served.
    #[schemars(schema_with = "schema::conditions")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What is served, by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedSource>,
    /// Where it is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls: Option<Urls>,
    /// When what is served was unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<Time>,
}

/// What a source stands for.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = schema::union_rule()))]
pub struct ResolvedSource {
    /// The kind of source. Image: an image of a registry.
    #[serde(rename = "type")]
    pub type_: SourceType,
    /// The image, where the type is Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ResolvedImage>,
}

/// An image by its digest.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct ResolvedImage {
    /// The image's reference by digest.
    #[serde(rename = "ref")]
    #[schemars(schema_with = "schema::resolved_reference")]
    pub reference: String,
}

/// Where content is served.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Urls {
    /// What the paths of the content's API are appended to.
    #[schemars(schema_with = "schema::base_url")]
    pub base: String,
}

impl ClusterCatalog {
    /// The object's name.
    pub fn name(&self) -> String {
        self.name_any()
    }

    /// The spec's generation.
    pub fn generation(&self) -> i64 {
        self.meta().generation.unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// Whether our finalizer holds it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// A condition of the status.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.condition(type_)
    }

    /// What the status says is served.
    pub fn resolved(&self) -> Option<&str> {
        self.status.as_ref()?.resolved()
    }

    /// What Events are about.
    pub fn event_subject(&self) -> ObjectReference {
        self.object_ref(&())
    }
}

impl ClusterCatalogStatus {
    /// A condition by its type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// The resolved reference.
    pub fn resolved(&self) -> Option<&str> {
        Some(self.resolved_source.as_ref()?.image.as_ref()?.reference.as_str())
    }
}
