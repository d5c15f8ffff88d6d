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

#[cfg(test)]
mod tests {
    #[test]
    fn the_one_in_deploy_is_what_is_printed() {
        let text = serde_saphyr::to_string(&super::crd()).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crd.yaml");
        let deployed = std::fs::read_to_string(path).unwrap();
        assert!(
            deployed == format!("---\n{text}"),
            "deploy/crd.yaml is not what `catalog-controller crd` prints; write it anew"
        );
    }
}
