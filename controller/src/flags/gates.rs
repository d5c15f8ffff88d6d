//! Feature gates: `Name=true,Other=false`.

use std::str::FromStr;

/// What is off unless it is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `APIV1MetasHandler`: the route `metas`.
    pub metas: bool,
    /// `GraphQLCatalogQueries`: the route `graphql`.
    pub graphql: bool,
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
            let (name, value) = gate
                .split_once('=')
                .ok_or_else(|| format!("{gate:?} is not of the form NAME=true or NAME=false"))?;
            let value = match value {
                "true" | "True" | "1" | "t" => true,
                "false" | "False" | "0" | "f" => false,
                _ => {
                    return Err(format!(
                        "{value:?} of the feature gate {name} is neither true nor false"
                    ));
                }
            };
            match name {
                "APIV1MetasHandler" => gates.metas = value,
                "GraphQLCatalogQueries" => gates.graphql = value,
                // Upstream's way to say "all that are alpha".
                "AllAlpha" => {
                    gates = Self {
                        metas: value,
                        graphql: value,
                    }
                }
                "AllBeta" => {}
                _ => {
                    return Err(format!(
                        "there is no feature gate {name:?}: there are APIV1MetasHandler and GraphQLCatalogQueries"
                    ));
                }
            }
        }
        Ok(gates)
    }
}
