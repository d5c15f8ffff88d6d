//! The status of a ClusterCatalog: made anew from what is the case, and compared with what stands there.

mod events;
mod message;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub use self::events::{Happening, happenings};
pub(crate) use self::message::{checking_failed, pulling, rests, retrying, shorten, unpacking};
use crate::api::{
    ClusterCatalogStatus, PROGRESSING, ResolvedImage, ResolvedSource, SERVING, SourceType, Urls,
};

/// Longest message of a condition, in characters: the bound of the schema, which is that of Kubernetes' own
/// conditions.
pub const MAX_MESSAGE: usize = 32_768;

/// Reasons of [`PROGRESSING`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// What is asked for is served.
    Succeeded,
    /// Layers are on their way.
    Pulling,
    /// All is here, and is made into content.
    Unpacking,
    /// Something failed, and is tried again.
    Retrying,
    /// Something failed, and is not tried again before the object changes.
    Blocked,
}

impl Progress {
    /// The reason as it stands in the condition.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Pulling => "Pulling",
            Self::Unpacking => "Unpacking",
            Self::Retrying => "Retrying",
            Self::Blocked => "Blocked",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [
            Self::Succeeded,
            Self::Pulling,
            Self::Unpacking,
            Self::Retrying,
            Self::Blocked,
        ]
        .into_iter()
        .find(|progress| progress.name() == name)
    }

    /// What a status says.
    pub fn of(status: &ClusterCatalogStatus) -> Option<Self> {
        Self::from_name(&status.condition(PROGRESSING)?.reason)
    }
}

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// By digest.
    pub reference: String,
    /// What paths are appended to.
    pub base_url: String,
    /// When it was unpacked.
    pub unpacked: Timestamp,
}

/// Reasons of [`SERVING`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// This is.
    Available(Served),
    /// Nothing is; the text says why.
    Unavailable(String),
    /// Nothing is to be.
    UserSpecifiedUnavailable,
}

/// All that the status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Says {
    /// What goes on.
    pub progress: Progress,
    /// The same, for a person.
    pub message: String,
    /// What is served.
    pub serving: Serving,
}

impl Says {
    /// The status that says this, where `old` stands now: what does not change stays as it is, conditions of
    /// others too.
    pub fn status(
        &self,
        old: &ClusterCatalogStatus,
        generation: i64,
        now: Timestamp,
    ) -> ClusterCatalogStatus {
        let mut status = old.clone();
        let blocked = self.progress == Progress::Blocked;
        set(
            &mut status,
            now,
            PROGRESSING,
            !blocked,
            self.progress.name(),
            &self.message,
            generation,
        );

        let served = match &self.serving {
            Serving::Available(served) => {
                let message = format!("The content of {} is served", served.reference);
                let old = old
                    .condition(SERVING)
                    .filter(|condition| condition.message == message);
                // It is about the spec that it fulfils: not about a newer one whose content is still to come.
                let of = match self.progress {
                    Progress::Succeeded => None,
                    _ => old.and_then(|condition| condition.observed_generation),
                };
                set(
                    &mut status,
                    now,
                    SERVING,
                    true,
                    "Available",
                    &message,
                    of.unwrap_or(generation),
                );
                Some(served)
            }
            Serving::Unavailable(message) => {
                set(
                    &mut status,
                    now,
                    SERVING,
                    false,
                    "Unavailable",
                    message,
                    generation,
                );
                None
            }
            Serving::UserSpecifiedUnavailable => {
                let message = "spec.availabilityMode is Unavailable";
                set(
                    &mut status,
                    now,
                    SERVING,
                    false,
                    "UserSpecifiedUnavailable",
                    message,
                    generation,
                );
                None
            }
        };
        status.resolved_source = served.map(|served| ResolvedSource {
            type_: SourceType::Image,
            image: Some(ResolvedImage {
                reference: served.reference.clone(),
            }),
        });
        status.urls = served.map(|served| Urls {
            base: served.base_url.clone(),
        });
        status.last_unpacked = served.map(|served| Time(seconds(served.unpacked)));
        status
    }
}

/// The API server keeps whole seconds.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn set(
    status: &mut ClusterCatalogStatus,
    now: Timestamp,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    generation: i64,
) {
    let value = if holds { "True" } else { "False" };
    let old = status
        .conditions
        .iter()
        .position(|condition| condition.type_ == type_);
    let since = old
        .map(|at| &status.conditions[at])
        .filter(|old| old.status == value)
        .map(|old| old.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: shorten(message, MAX_MESSAGE),
        observed_generation: Some(generation),
        last_transition_time: since.unwrap_or_else(|| Time(seconds(now))),
    };
    match old {
        Some(at) => status.conditions[at] = condition,
        None => status.conditions.push(condition),
    }
}

/// How urgent it is that others see a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It says anew how far something is.
    Progress,
    /// Something else goes on.
    Phase,
    /// Something else is served, or it is about another spec.
    Content,
}

/// How urgent it is that others see a status, after another one.
pub fn urgency(old: &ClusterCatalogStatus, new: &ClusterCatalogStatus) -> Urgency {
    let progress = |status: &ClusterCatalogStatus| {
        let condition = status.condition(PROGRESSING);
        condition.map(|condition| (condition.reason.clone(), condition.status.clone()))
    };
    let rest = |status: &ClusterCatalogStatus| {
        let mut rest = status.clone();
        for condition in rest
            .conditions
            .iter_mut()
            .filter(|condition| condition.type_ == PROGRESSING)
        {
            condition.message.clear();
            condition.reason.clear();
            condition.status.clear();
            condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        }
        rest
    };
    if rest(old) != rest(new) {
        Urgency::Content
    } else if progress(old) != progress(new) {
        Urgency::Phase
    } else {
        Urgency::Progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn says(progress: Progress, served: Option<&str>) -> Says {
        Says {
            progress,
            message: format!("{progress:?}"),
            serving: match served {
                Some(reference) => Serving::Available(Served {
                    reference: reference.into(),
                    base_url: "https://host/catalogs/a".into(),
                    unpacked: time(7),
                }),
                None => Serving::Unavailable("There is no content yet".into()),
            },
        }
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let first = says(Progress::Succeeded, Some("r@sha256:1")).status(&Default::default(), 3, time(10));
        assert_eq!(
            says(Progress::Succeeded, Some("r@sha256:1")).status(&first, 3, time(99)),
            first
        );
    }

    #[test]
    fn a_transition_is_a_change_of_status_not_of_reason() {
        let pulls = says(Progress::Pulling, None).status(&Default::default(), 1, time(10));
        let retries = says(Progress::Retrying, None).status(&pulls, 1, time(20));
        let blocked = says(Progress::Blocked, None).status(&retries, 1, time(30));
        let since = |status: &ClusterCatalogStatus| {
            status
                .condition(PROGRESSING)
                .unwrap()
                .last_transition_time
                .0
                .as_second()
        };
        assert_eq!((since(&pulls), since(&retries), since(&blocked)), (10, 10, 30));
    }

    #[test]
    fn what_is_served_stays_of_its_generation_until_a_newer_one_is_fulfilled() {
        let generation = |status: &ClusterCatalogStatus, type_: &str| {
            status.condition(type_).unwrap().observed_generation.unwrap()
        };
        let served = says(Progress::Succeeded, Some("r@sha256:1")).status(&Default::default(), 1, time(1));
        let edited = says(Progress::Pulling, Some("r@sha256:1")).status(&served, 2, time(2));
        assert_eq!(
            (generation(&edited, SERVING), generation(&edited, PROGRESSING)),
            (1, 2)
        );
        let done = says(Progress::Succeeded, Some("r@sha256:2")).status(&edited, 2, time(3));
        assert_eq!(
            (generation(&done, SERVING), generation(&done, PROGRESSING)),
            (2, 2)
        );
    }

    #[test]
    fn what_is_not_served_is_not_named() {
        let served = says(Progress::Succeeded, Some("r@sha256:1")).status(&Default::default(), 1, time(1));
        assert_eq!(served.resolved(), Some("r@sha256:1"));
        let lost = says(Progress::Pulling, None).status(&served, 1, time(2));
        assert_eq!(
            (lost.resolved(), &lost.urls, &lost.last_unpacked),
            (None, &None, &None)
        );
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let mut old = ClusterCatalogStatus::default();
        set(
            &mut old,
            time(1),
            "Deprecated",
            true,
            "Old",
            "by somebody else",
            1,
        );
        let new = says(Progress::Pulling, None).status(&old, 1, time(2));
        assert_eq!(new.condition("Deprecated"), old.condition("Deprecated"));
    }

    #[test]
    fn texts_are_less_urgent_than_reasons_and_those_than_content() {
        let mut text = says(Progress::Pulling, None);
        let first = text.status(&Default::default(), 1, time(1));
        assert_eq!(urgency(&Default::default(), &first), Urgency::Content);
        text.message = "another text".into();
        let second = text.status(&first, 1, time(2));
        assert_eq!(urgency(&first, &second), Urgency::Progress);
        let third = says(Progress::Blocked, None).status(&second, 1, time(3));
        assert_eq!(urgency(&second, &third), Urgency::Phase);
        let spec = says(Progress::Blocked, None).status(&third, 2, time(3));
        assert_eq!(urgency(&third, &spec), Urgency::Content);
        let served = says(Progress::Succeeded, Some("r@sha256:1")).status(&third, 1, time(3));
        assert_eq!(urgency(&third, &served), Urgency::Content);
    }
}
