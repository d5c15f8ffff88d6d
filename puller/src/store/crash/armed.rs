//! Dying at a place, in builds that can.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use rustix::process::{Signal, getpid, kill_process};

use super::{NAMES, Point, VARIABLE};
use crate::error::Error;

/// What the variable says.
static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

#[derive(Debug)]
struct Plan {
    name: &'static str,
    point: Point,
    /// How often the place is to be passed until then, this time included.
    left: AtomicU32,
}

pub(super) fn arm() -> Result<(), Error> {
    let plan = match std::env::var_os(VARIABLE) {
        None => None,
        Some(text) => Some(parse(&text.to_string_lossy())?),
    };
    PLAN.get_or_init(|| plan);
    Ok(())
}

fn parse(text: &str) -> Result<Plan, Error> {
    let (name, times) = text.split_once(':').unwrap_or((text, "1"));
    let found = NAMES.iter().find(|(known, _)| *known == name);
    match (found, times.parse()) {
        (Some((name, point)), Ok(times @ 1..)) => Ok(Plan {
            name,
            point: *point,
            left: AtomicU32::new(times),
        }),
        _ => {
            let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
            Err(Error::Config(format!(
                "{VARIABLE}={text:?} is not the name of a place to die at, or NAME:N for the N-th time; the names \
                 are {}",
                names.join(", ")
            )))
        }
    }
}

pub(super) fn at(point: Point) {
    let Some(Some(plan)) = PLAN.get() else { return };
    if plan.point == point && plan.left.fetch_sub(1, Relaxed) == 1 {
        tracing::warn!(at = plan.name, "dies here, as it was told");
        // It can't fail, and if it did, the test would see a process that lives.
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            // The signal may take a moment.
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_with_or_without_a_number() {
        for (text, times) in [("tree-synced", 1), ("tree-synced:1", 1), ("tree-synced:12", 12)] {
            let plan = parse(text).unwrap();
            assert_eq!(plan.point, Point::TreeSynced);
            assert_eq!(plan.left.into_inner(), times);
        }
    }

    #[test]
    fn whoever_names_no_place_is_told_all_names() {
        for text in [
            "",
            "nowhere",
            "tree-synced:",
            "tree-synced:0",
            "tree-synced:-1",
            ":1",
        ] {
            let error = parse(text).unwrap_err().to_string();
            for (name, _) in NAMES {
                assert!(error.contains(name), "{error}");
            }
        }
    }

    /// Cargo sets debug assertions by the profile: those that are shipped must not ask for them.
    #[test]
    fn no_profile_that_is_released_holds_places_to_die_at() {
        let manifest: toml::Table = include_str!("../../../../Cargo.toml").parse().unwrap();
        for profile in ["release", "dist"] {
            let settings = manifest["profile"][profile].as_table().unwrap();
            assert_eq!(settings.get("debug-assertions"), None, "profile {profile}");
            assert!(
                profile == "release" || settings["inherits"].as_str() == Some("release"),
                "profile {profile} takes over what another profile says"
            );
        }
    }
}
