use super::*;
use crate::api::{CatalogSource, ClusterCatalogSpec, ImageSource, SourceType};

/// A catalog that wants this image, as the API server would hand it out first.
pub(super) fn catalog(reference: &str) -> ClusterCatalog {
    let mut catalog = ClusterCatalog::new(
        "cat",
        ClusterCatalogSpec {
            source: CatalogSource {
                type_: SourceType::Image,
                image: Some(ImageSource {
                    reference: reference.to_owned(),
                    poll_interval_minutes: None,
                }),
            },
            priority: 0,
            availability_mode: AvailabilityMode::Available,
        },
    );
    catalog.metadata.generation = Some(1);
    catalog.metadata.uid = Some("00000000-0000-0000-0000-000000000001".to_owned());
    catalog
}
