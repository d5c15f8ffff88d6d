//! Between the machine's Images and the volume's records.

use std::collections::HashMap;

use crate::{
    domain::Content,
    machine::{Image, Saved},
    store::{ImageRecord, Recovered},
};

/// What the machine begins with: the Images of an earlier run, each with its content if that is there
/// still.
pub fn restored(recovered: Recovered) -> Vec<Saved> {
    let contents: HashMap<String, Content> = recovered
        .contents
        .into_iter()
        .map(|content| (content.name(), content))
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
    Saved {
        image: Image {
            id: wish.id(),
            wish,
            // A record without claims was written when the last one ended, whatever it says of that.
            unclaimed_since: claims.is_empty().then_some(unclaimed_since.unwrap_or(created)),
            claims,
            phase,
            phase_since,
            progress: None,
            content: content.and_then(|name| contents.get(&name).cloned()),
            resolution,
            attempt,
            last_error,
            attempts,
            next_retry,
            created,
            awaits_credentials: false,
        },
        streak: failures,
        blobs,
        content_for,
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
            claims,
            unclaimed_since,
            resolution,
            content: content.as_ref().map(Content::name),
            content_for,
            attempt,
            failures: streak,
            next_retry,
            last_error,
            attempts,
            blobs,
        }
    }
}
