//! The CustomResourceDefinition, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

use super::ClusterCatalog;

/// What `catalog-controller crd` prints, and `deploy/` holds.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = ClusterCatalog::crd();
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        // An object without metadata has no name; catalogd's schema says so too.
        let required = schema.and_then(|schema| schema.required.as_mut());
        if let Some(required) = required {
            required.insert(0, "metadata".to_owned());
        }
    }
    crd
}
