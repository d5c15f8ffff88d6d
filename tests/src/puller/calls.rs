//! The calls of the API as a scenario makes them.

use puller_api::v1::{
    GetRequest, Image, ListRequest, Phase, ReleaseRequest, get_request::By, release_request,
};
use tonic::Status;

use super::{Fetch, Puller, WatchCall};
use crate::wait::within_patience;

impl Puller {
    /// Fetches a reference. `.await` it for the Image, or refine it first: see [`Fetch`].
    pub fn fetch(&self, reference: &str) -> Fetch {
        Fetch::new(self.client(), reference)
    }

    /// The state of one Image.
    ///
    /// # Errors
    /// What the puller answers.
    pub async fn try_get(&self, id: &str) -> Result<Image, Status> {
        let request = GetRequest {
            by: Some(By::Id(id.to_owned())),
        };
        Ok(self
            .client()
            .get(request)
            .await?
            .into_inner()
            .image
            .expect("an answer has an Image"))
    }

    /// The state of one Image.
    ///
    /// # Panics
    /// The puller refuses.
    pub async fn get(&self, id: &str) -> Image {
        self.try_get(id)
            .await
            .unwrap_or_else(|status| panic!("Get {id}: {status}"))
    }

    /// The states of all Images.
    ///
    /// # Panics
    /// The puller refuses.
    pub async fn list(&self) -> Vec<Image> {
        let answer = self.client().list(ListRequest::default()).await;
        answer
            .unwrap_or_else(|status| panic!("List: {status}"))
            .into_inner()
            .images
    }

    /// Ends a claim.
    ///
    /// # Panics
    /// The puller refuses.
    pub async fn release(&self, id: &str, claimant: &str) {
        let request = ReleaseRequest {
            by: Some(release_request::By::Id(id.to_owned())),
            claimant: claimant.to_owned(),
        };
        self.client()
            .release(request)
            .await
            .unwrap_or_else(|status| panic!("Release {id}: {status}"));
    }

    /// A Watch. `.await` it for the [`Watcher`](super::Watcher), or refine it first: see [`WatchCall`].
    pub fn watch(&self) -> WatchCall {
        WatchCall::new(self.client())
    }

    /// Waits, by Watch, until an Image is as wanted.
    ///
    /// # Panics
    /// It is not within a minute; the message says what was wanted and shows the last state.
    pub async fn wait_for(&self, id: &str, what: &str, is_so: impl Fn(&Image) -> bool) -> Image {
        let watcher = self.watch().only(id).await;
        watcher.wait_for_image(id, what, is_so).await
    }

    /// Waits until the Image is published, and returns it.
    ///
    /// # Panics
    /// It is not within a minute, or it fails for good.
    pub async fn unpacked(&self, id: &str) -> Image {
        let image = self
            .wait_for(id, "the phase Unpacked", |image| {
                matches!(image.phase(), Phase::Unpacked | Phase::Failed)
            })
            .await;
        assert_eq!(image.phase(), Phase::Unpacked, "{image:#?}");
        image
    }

    /// Waits until the Image rests as failed, and returns it.
    ///
    /// # Panics
    /// It does not within a minute, or it is unpacked.
    pub async fn failed(&self, id: &str) -> Image {
        let image = self
            .wait_for(id, "the phase Failed", |image| {
                matches!(image.phase(), Phase::Unpacked | Phase::Failed)
            })
            .await;
        assert_eq!(image.phase(), Phase::Failed, "{image:#?}");
        image
    }

    /// Waits until the Image has failed and will be tried again, and returns it.
    ///
    /// # Panics
    /// It does not within a minute.
    pub async fn retrying(&self, id: &str) -> Image {
        self.wait_for(id, "the phase Retrying", |image| image.phase() == Phase::Retrying)
            .await
    }

    /// Waits until nobody knows the Image any more.
    ///
    /// # Panics
    /// It is still there after a minute.
    pub async fn gone(&self, id: &str) {
        within_patience(&format!("the end of {id}"), async {
            while let Ok(_image) = self.try_get(id).await {
                tokio::time::sleep(super::ASK_EVERY).await;
            }
        })
        .await;
    }

    /// Fetches, and waits until it is unpacked.
    pub async fn pull(&self, reference: &str) -> Image {
        let image = self.fetch(reference).await;
        self.unpacked(&image.id).await
    }
}
