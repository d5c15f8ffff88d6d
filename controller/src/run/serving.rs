//! What is handed out of which catalog.

use std::{sync::Arc, time::Duration};

use kube::runtime::reflector::ObjectRef;

use super::known::Known;
use crate::{
    api::{AvailabilityMode, PROGRESSING},
    leader::Leadership,
    server::{Catalogs, Look},
    store::Store,
};

/// When a client asks again that came to a replica which does not lead: by then it may come to another one.
const ANOTHER_REPLICA: Duration = Duration::from_secs(1);
/// When a client asks again for content that is on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(5);

/// The catalogs that this replica hands out.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) store: Arc<Store>,
    pub(super) leadership: Leadership,
    pub(super) objects: Known,
}

impl Catalogs for Serving {
    fn look(&self, name: &str) -> Look {
        let Some(term) = self.leadership.term() else {
            // Its content may be older than what the status names; a consumer would keep it for ever.
            return Look::Unavailable {
                reason: "this replica does not lead; ask again, and another one answers".to_owned(),
                retry_after: ANOTHER_REPLICA,
            };
        };
        if let Some(content) = self.store.published(name, term) {
            return Look::Here(content);
        }
        let unavailable = |reason: String| Look::Unavailable {
            reason,
            retry_after: ON_ITS_WAY,
        };
        match self.objects.0.get(&ObjectRef::new(name)) {
            None if !self.objects.is_ready() => {
                unavailable("the catalogs are not known yet: the API server was not heard yet".to_owned())
            }
            None => Look::Unknown,
            Some(catalog) if catalog.spec.availability_mode == AvailabilityMode::Unavailable => Look::Unknown,
            Some(catalog) => unavailable(match catalog.condition(PROGRESSING) {
                Some(condition) => format!("there is no content yet: {}", condition.message),
                None => "there is no content yet".to_owned(),
            }),
        }
    }
}
