//! What the status is to say.

use puller_client::api::{Image, Phase};

use super::{Answer, Observed};
use crate::{
    api::AvailabilityMode,
    status::{Progress, Says, Served, Serving, checking_failed, pulling, rests, retrying, unpacking},
};

impl Observed<'_> {
    pub(super) fn says(&self) -> Says {
        let catalog = self.catalog;
        if catalog.is_deleting() {
            return Says {
                progress: Progress::Succeeded,
                message: "It is being deleted: its content is gone and nothing is pulled".to_owned(),
                serving: Serving::Unavailable("It is being deleted".to_owned()),
            };
        }
        if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
            return Says {
                progress: Progress::Succeeded,
                message: "Its content is gone and nothing is pulled, as spec.availabilityMode asks"
                    .to_owned(),
                serving: Serving::UserSpecifiedUnavailable,
            };
        }
        let (progress, message) = self.progress();
        Says {
            progress,
            message,
            serving: self.serving(),
        }
    }

    fn serving(&self) -> Serving {
        match self.stored {
            Some(stored) => Serving::Available(Served {
                reference: stored.reference.clone(),
                base_url: self.base_url.to_owned(),
                unpacked: stored.unpacked,
            }),
            None => Serving::Unavailable(match self.missing() {
                Some(missing) => {
                    format!("The content of {missing} is no longer here, and is being fetched again")
                }
                None => "There is no content yet".to_owned(),
            }),
        }
    }

    fn progress(&self) -> (Progress, String) {
        let reference = self.reference();
        let image = match &self.wanted {
            Some(Answer::Image(image)) => image,
            Some(Answer::Refused(why)) => {
                return (
                    Progress::Blocked,
                    format!("spec.source.image.ref {reference:?} can't be pulled: {why}"),
                );
            }
            Some(Answer::None(why)) => {
                let message =
                    format!("The puller does not answer, and is asked again every few seconds: {why}");
                return (Progress::Retrying, message);
            }
            None => return (Progress::Pulling, format!("Pulling {reference}")),
        };
        let failure = self
            .failure
            .filter(|failure| Some(failure.tree.as_str()) == super::tree(image));
        match (image.phase(), failure) {
            (Phase::Unpacked, Some(failure)) => (
                Progress::Retrying,
                format!(
                    "{reference}: its content can't be stored: {}; it is tried again at {}",
                    failure.message,
                    failure.again.strftime("%Y-%m-%dT%H:%M:%SZ")
                ),
            ),
            (phase, _) => self.phase(phase, reference, image),
        }
    }

    fn phase(&self, phase: Phase, reference: &str, image: &Image) -> (Progress, String) {
        let is_stored = self
            .stored
            .is_some_and(|stored| Some(stored.tree.as_str()) == super::tree(image));
        match phase {
            Phase::Unspecified | Phase::Initiated | Phase::Pulling => {
                (Progress::Pulling, pulling(reference, image))
            }
            Phase::Unpacking => (Progress::Unpacking, unpacking(reference, image)),
            Phase::Unpacked if !is_stored => {
                (Progress::Unpacking, format!("Storing the content of {reference}"))
            }
            Phase::Unpacked if image.last_error.is_some() => {
                (Progress::Retrying, checking_failed(reference, image))
            }
            Phase::Unpacked => (
                Progress::Succeeded,
                format!("What {reference} stands for is served"),
            ),
            Phase::Retrying => (Progress::Retrying, retrying(reference, image)),
            Phase::Failed => match self.is_pinned() {
                true => (Progress::Blocked, rests(reference, image)),
                // The tag may come to stand for something else.
                false => (Progress::Retrying, rests(reference, image)),
            },
        }
    }

    /// Whether what the spec asks for is the same for ever.
    fn is_pinned(&self) -> bool {
        self.reference().contains('@')
    }
}
