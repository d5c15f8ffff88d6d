//! What a person would look for in a catalog's Events, told by the difference of two statuses: so each is told
//! with the write that it belongs to, and not again.

use super::Progress;
use crate::api::{ClusterCatalogStatus, PROGRESSING};

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Whether something is wrong.
    pub is_warning: bool,
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub note: String,
}

/// What happened between two statuses.
pub fn happenings(old: &ClusterCatalogStatus, new: &ClusterCatalogStatus) -> Vec<Happening> {
    let message = new
        .condition(PROGRESSING)
        .map_or("", |condition| condition.message.as_str());
    let (before, now) = (Progress::of(old), Progress::of(new));
    let mut happened = Vec::new();
    let mut tell = |is_warning, reason, note: String| {
        happened.push(Happening {
            is_warning,
            reason,
            note,
        });
    };
    match (before, now) {
        (before, now) if before == now => {}
        (_, Some(Progress::Blocked)) => tell(true, "Blocked", message.to_owned()),
        (_, Some(Progress::Retrying)) => tell(true, "Failed", message.to_owned()),
        (
            None | Some(Progress::Succeeded | Progress::Blocked),
            Some(Progress::Pulling | Progress::Unpacking),
        ) => {
            tell(false, "Pulling", message.to_owned());
        }
        (
            Some(Progress::Retrying | Progress::Blocked),
            Some(Progress::Pulling | Progress::Unpacking | Progress::Succeeded),
        ) => {
            tell(false, "Recovered", message.to_owned());
        }
        _ => {}
    }
    if let Some(resolved) = new.resolved().filter(|resolved| old.resolved() != Some(resolved)) {
        let note = match old.resolved() {
            Some(before) => format!("The content is that of {resolved} now; it was that of {before}"),
            None => format!("The content is that of {resolved}"),
        };
        tell(false, "ContentChanged", note);
    } else if old.resolved().is_some() && new.resolved().is_none() {
        tell(true, "ContentGone", "Nothing is served any more".to_owned());
    }
    happened
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{super::*, *};

    fn status(progress: Progress, served: Option<&str>) -> ClusterCatalogStatus {
        let serving = match served {
            Some(reference) => Serving::Available(Served {
                reference: reference.into(),
                base_url: String::new(),
                unpacked: Timestamp::UNIX_EPOCH,
            }),
            None => Serving::Unavailable(String::new()),
        };
        let message = "so it is".into();
        Says {
            progress,
            message,
            serving,
        }
        .status(&Default::default(), 1, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn each_change_is_told_once_and_what_stays_is_not() {
        let nothing = ClusterCatalogStatus::default();
        let pulling = status(Progress::Pulling, None);
        let retrying = status(Progress::Retrying, None);
        let done = status(Progress::Succeeded, Some("r@sha256:1"));
        for (old, new, reasons) in [
            (&nothing, &pulling, vec!["Pulling"]),
            (&pulling, &pulling, vec![]),
            (&pulling, &status(Progress::Unpacking, None), vec![]),
            (&pulling, &retrying, vec!["Failed"]),
            (&retrying, &pulling, vec!["Recovered"]),
            (&retrying, &done, vec!["Recovered", "ContentChanged"]),
            (&pulling, &done, vec!["ContentChanged"]),
            (
                &done,
                &status(Progress::Pulling, Some("r@sha256:1")),
                vec!["Pulling"],
            ),
            (
                &done,
                &status(Progress::Succeeded, Some("r@sha256:2")),
                vec!["ContentChanged"],
            ),
            (
                &done,
                &status(Progress::Blocked, None),
                vec!["Blocked", "ContentGone"],
            ),
        ] {
            let told: Vec<_> = happenings(old, new).iter().map(|told| told.reason).collect();
            assert_eq!(told, reasons);
        }
    }
}
