//! Answers: the daemon's types as the proto file has them.

use std::time::Duration;

use jiff::Timestamp;
use puller_api::v1;

use super::status;
use crate::{
    domain::{AttemptError, AttemptRecord, Claim, Content, Phase, Platform, Resolution, Selection, Wish},
    hub::{Event, Version},
    machine::{Image, Progress},
};

pub(super) fn event(event: Event) -> v1::WatchEvent {
    use v1::watch_event::Event as Told;
    let told = match event {
        Event::Put(put, version) => Told::Put(image(&put, version)),
        Event::Deleted(id, version) => Told::Deleted(v1::Deleted {
            id: id.to_string(),
            version: version.to_string(),
        }),
        Event::Bookmark { version, synced } => Told::Bookmark(v1::Bookmark {
            version: version.to_string(),
            synced,
        }),
        Event::Reset => Told::Reset(v1::Reset {}),
    };
    v1::WatchEvent { event: Some(told) }
}

pub(crate) fn image(image: &Image, version: Version) -> v1::Image {
    // Taken apart whole, so that a new field can't be forgotten.
    let Image {
        id,
        wish: wished,
        claims,
        phase: entered,
        phase_since,
        progress: progressed,
        content: published,
        resolution: resolved,
        attempt,
        last_error,
        attempts,
        next_retry,
        created,
        unclaimed_since,
        awaits_credentials: _,
    } = image;
    v1::Image {
        id: id.to_string(),
        version: version.to_string(),
        normalized_reference: wished.reference.to_string(),
        wish: Some(wish(wished)),
        claims: claims
            .iter()
            .map(|(claimant, held)| claim(claimant, held))
            .collect(),
        phase: phase(*entered).into(),
        message: image.message(),
        progress: progressed.as_ref().map(progress),
        content: published.as_ref().map(content),
        resolution: resolved.as_ref().map(resolution),
        attempt: *attempt,
        last_error: last_error.as_ref().map(error),
        attempts: attempts.iter().map(record).collect(),
        next_retry: next_retry.map(timestamp),
        created: Some(timestamp(*created)),
        phase_since: Some(timestamp(*phase_since)),
        unclaimed_since: unclaimed_since.map(timestamp),
    }
}

fn wish(wish: &Wish) -> v1::Wish {
    let Wish {
        asked,
        reference: _,
        platform,
        selection,
        unpack,
        scope,
    } = wish;
    let Platform {
        os,
        architecture,
        variant,
    } = platform.clone();
    let kind = match selection {
        Selection::All => None,
        Selection::Path(path) => Some(v1::selection::Kind::Path(format!("/{path}"))),
        Selection::Label(label) => Some(v1::selection::Kind::Label(label.clone())),
    };
    v1::Wish {
        reference: asked.clone(),
        platform: Some(v1::Platform {
            os,
            architecture,
            variant,
        }),
        selection: kind.map(|kind| v1::Selection { kind: Some(kind) }),
        unpack: unpack.refuse_escaping_links.then_some(v1::UnpackOptions {
            refuse_escaping_links: unpack.refuse_escaping_links,
        }),
        credential_scope: Some(scope.0.clone()).filter(|scope| !scope.is_empty()),
    }
}

fn claim(claimant: &str, claim: &Claim) -> v1::Claim {
    let Claim {
        renewed,
        expires,
        in_use,
    } = claim;
    v1::Claim {
        claimant: claimant.to_owned(),
        renewed: Some(timestamp(*renewed)),
        expires: expires.map(timestamp),
        in_use: in_use.iter().map(ToString::to_string).collect(),
    }
}

fn phase(phase: Phase) -> v1::Phase {
    match phase {
        Phase::Initiated => v1::Phase::Initiated,
        Phase::Pulling => v1::Phase::Pulling,
        Phase::Unpacking => v1::Phase::Unpacking,
        Phase::Unpacked => v1::Phase::Unpacked,
        Phase::Retrying => v1::Phase::Retrying,
        Phase::Failed => v1::Phase::Failed,
    }
}

fn progress(progress: &Progress) -> v1::Progress {
    let Progress {
        layers_done,
        layers_total,
        bytes_done,
        bytes_total,
        unpacked_bytes,
        unpacked_entries,
        waiting_for,
        started,
        pulling_since,
        unpacking_since,
        unpacked_at,
    } = progress;
    v1::Progress {
        layers_done: *layers_done,
        layers_total: *layers_total,
        bytes_done: *bytes_done,
        bytes_total: *bytes_total,
        unpacked_bytes: *unpacked_bytes,
        unpacked_entries: *unpacked_entries,
        waiting_for: waiting_for.clone(),
        started: Some(timestamp(*started)),
        pulling_since: pulling_since.map(timestamp),
        unpacking_since: unpacking_since.map(timestamp),
        unpacked_at: unpacked_at.map(timestamp),
    }
}

fn content(content: &Content) -> v1::Content {
    let Content {
        manifest_digest,
        selected,
        unpack: _,
        size,
        files,
        escaping_links,
        skipped,
        published,
        sync,
    } = content;
    v1::Content {
        manifest_digest: manifest_digest.to_string(),
        path: content.path(),
        selected: selected.clone(),
        size: *size,
        files: *files,
        escaping_links: *escaping_links,
        skipped: Some(v1::Skipped {
            special_files: skipped.special_files,
            xattrs: skipped.xattrs,
            mode_bits: skipped.mode_bits,
            owners: skipped.owners,
        }),
        published: Some(timestamp(*published)),
        sync: Some(duration(*sync)),
    }
}

fn resolution(resolution: &Resolution) -> v1::Resolution {
    let Resolution {
        digest,
        resolved,
        checked,
    } = resolution;
    v1::Resolution {
        digest: digest.to_string(),
        resolved: Some(timestamp(*resolved)),
        checked: Some(timestamp(*checked)),
    }
}

fn error(error: &AttemptError) -> v1::AttemptError {
    let AttemptError {
        reason,
        message,
        time,
        attempt,
    } = error;
    v1::AttemptError {
        reason: status::reason(*reason).into(),
        message: message.clone(),
        time: Some(timestamp(*time)),
        attempt: *attempt,
    }
}

fn record(record: &AttemptRecord) -> v1::AttemptRecord {
    let AttemptRecord {
        attempt,
        started,
        ended,
        reason,
        message,
        bytes,
    } = record;
    v1::AttemptRecord {
        attempt: *attempt,
        started: Some(timestamp(*started)),
        ended: Some(timestamp(*ended)),
        reason: reason.map_or(v1::Reason::Unspecified, status::reason).into(),
        message: message.clone(),
        bytes: *bytes,
    }
}

fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let mut seconds = time.as_second();
    let mut nanos = time.subsec_nanosecond();
    if nanos < 0 {
        // Before 1970 the two types count a second's fraction in opposite directions.
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    prost_types::Timestamp { seconds, nanos }
}

fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}
