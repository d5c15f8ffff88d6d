//! Between the machine's Images and the volume's records.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::{
    machine::{AttemptError, AttemptRecord, Claim, Content, Image, Resolution, Saved},
    store::{self, ContentRecord, ImageRecord, Recovered},
};

/// What the machine begins with: the Images of an earlier run, each with its content if that is there
/// still.
pub fn restored(recovered: Recovered) -> Vec<Saved> {
    let contents: HashMap<String, Content> = recovered
        .contents
        .into_iter()
        .map(Content::from)
        .map(|content| (content.name.clone(), content))
        .collect();
    recovered
        .images
        .into_iter()
        .map(|record| saved(record, &contents))
        .collect()
}

fn saved(record: ImageRecord, contents: &HashMap<String, Content>) -> Saved {
    let ImageRecord {
        wish,
        created,
        phase,
        phase_since,
        claims,
        unclaimed_since,
        resolution,
        content,
        content_for,
        attempt,
        failures,
        next_retry,
        last_error,
        attempts,
        blobs,
    } = record;
    let claims: BTreeMap<_, _> = claims
        .into_iter()
        .map(
            |store::ClaimRecord {
                 claimant,
                 renewed,
                 expires,
                 in_use,
             }| {
                (
                    claimant,
                    Claim {
                        renewed,
                        expires,
                        in_use,
                    },
                )
            },
        )
        .collect();
    Saved {
        image: Image {
            id: wish.id(),
            wish,
            unclaimed_since: unclaimed_since
                .filter(|_| claims.is_empty())
                .or(claims.is_empty().then_some(created)),
            claims,
            phase,
            phase_since,
            progress: None,
            content: content.and_then(|name| contents.get(&name).cloned()),
            resolution: resolution.map(
                |store::ResolutionRecord {
                     digest,
                     resolved,
                     checked,
                 }| Resolution {
                    digest,
                    resolved,
                    checked,
                },
            ),
            attempt,
            last_error: last_error.map(
                |store::ErrorRecord {
                     reason,
                     message,
                     time,
                     attempt,
                 }| AttemptError {
                    reason,
                    message,
                    time,
                    attempt,
                },
            ),
            attempts: attempts.into_iter().map(attempt_record).collect(),
            next_retry,
            created,
            awaits_credentials: false,
        },
        streak: failures,
        blobs,
        content_for,
    }
}

fn attempt_record(record: store::AttemptRecord) -> AttemptRecord {
    let store::AttemptRecord {
        attempt,
        started,
        ended,
        reason,
        message,
        bytes,
    } = record;
    AttemptRecord {
        attempt,
        started,
        ended,
        error: reason.map(|reason| (reason, message)),
        bytes,
    }
}

impl From<&Saved> for ImageRecord {
    fn from(saved: &Saved) -> Self {
        let Saved {
            image,
            streak,
            blobs,
            content_for,
        } = saved.clone();
        let Image {
            id: _,
            wish,
            claims,
            phase,
            phase_since,
            progress: _,
            content,
            resolution,
            attempt,
            last_error,
            attempts,
            next_retry,
            created,
            unclaimed_since,
            awaits_credentials: _,
        } = image;
        Self {
            wish,
            created,
            phase,
            phase_since,
            claims: claims
                .into_iter()
                .map(
                    |(
                        claimant,
                        Claim {
                            renewed,
                            expires,
                            in_use,
                        },
                    )| store::ClaimRecord {
                        claimant,
                        renewed,
                        expires,
                        in_use,
                    },
                )
                .collect(),
            unclaimed_since,
            resolution: resolution.map(
                |Resolution {
                     digest,
                     resolved,
                     checked,
                 }| store::ResolutionRecord {
                    digest,
                    resolved,
                    checked,
                },
            ),
            content: content.map(|content| content.name),
            content_for,
            attempt,
            failures: streak,
            next_retry,
            last_error: last_error.map(
                |AttemptError {
                     reason,
                     message,
                     time,
                     attempt,
                 }| store::ErrorRecord {
                    reason,
                    message,
                    time,
                    attempt,
                },
            ),
            attempts: attempts
                .into_iter()
                .map(
                    |AttemptRecord {
                         attempt,
                         started,
                         ended,
                         error,
                         bytes,
                     }| {
                        let (reason, message) = error.map_or((None, String::new()), |(r, m)| (Some(r), m));
                        store::AttemptRecord {
                            attempt,
                            started,
                            ended,
                            reason,
                            message,
                            bytes,
                        }
                    },
                )
                .collect(),
            blobs,
        }
    }
}

impl From<ContentRecord> for Content {
    fn from(record: ContentRecord) -> Self {
        Self {
            name: record.name(),
            sync: Duration::from_micros(record.sync_micros),
            manifest_digest: record.manifest_digest,
            selected: record.selected,
            unpack: record.unpack,
            size: record.size,
            files: record.files,
            escaping_links: record.escaping_links,
            skipped: record.skipped,
            published: record.published,
        }
    }
}

impl From<Content> for ContentRecord {
    fn from(content: Content) -> Self {
        Self {
            manifest_digest: content.manifest_digest,
            selected: content.selected,
            unpack: content.unpack,
            size: content.size,
            files: content.files,
            escaping_links: content.escaping_links,
            skipped: content.skipped,
            published: content.published,
            sync_micros: u64::try_from(content.sync.as_micros()).unwrap_or(u64::MAX),
        }
    }
}
