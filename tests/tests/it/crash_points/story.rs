//! What happens around a death, and how it has to end.

use std::{fs, time::Duration};

use puller_tests::{
    scripted::{Get, Lie, Throttle},
    tree::Tree,
};
use tokio::time::sleep;

use super::world::World;

const REFERENCE: &str = "team/app:v1";

/// The shortest age that the puller lets a Fetch ask for, and a little more.
const LEAST_AGE: Duration = Duration::from_millis(10_100);

/// Bytes a second of a layer that is to be under way for a while.
const SLOW: u64 = 20_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Story {
    /// It dies in the first start of a volume.
    FirstStart,
    /// It dies in a start after something was published.
    Start,
    /// It dies while it pulls.
    Pull {
        /// How many layers are verified by then, at least.
        kept: usize,
    },
    /// It dies in the start after a pull that died there.
    AfterCrash { at: &'static str },
    /// The registry has sent wrong bytes at first.
    WrongBytes,
    /// Somebody's hands were on the volume, and a published tree is not there.
    LostTree,
    /// Nobody wants an image any more.
    Removal,
    /// Nobody wants a pull any more that is under way.
    Cancelled,
    /// Another image has got the tag.
    MovedTag,
}

impl Story {
    pub(super) async fn tell(self, point: &str) {
        match self {
            Self::FirstStart => {
                let mut world = World::new().await;
                let reference = world.hold(REFERENCE, "new");
                world.start_and_crash_at(point).await;
                world.ends_well(&reference).await;
            }
            Self::Start => {
                let mut world = World::with_content().await;
                let reference = world.hold(REFERENCE, "new");
                world.start_and_crash_at(point).await;
                world.ends_well(&reference).await;
            }
            Self::Pull { kept } => {
                let (mut world, reference) = dies_in_pull(point).await;
                let found = world.kept().len();
                assert!(found >= kept, "{found} layers are whole, and {kept} should be");
                world.ends_well(&reference).await;
            }
            Self::AfterCrash { at } => {
                let (mut world, reference) = dies_in_pull(at).await;
                world.start_and_crash_at(point).await;
                world.ends_well(&reference).await;
            }
            Self::WrongBytes => {
                let mut world = World::with_content().await;
                let reference = world.hold(REFERENCE, "new");
                let layer = world.image().layers()[0].digest().to_owned();
                world
                    .registry
                    .on(Get::blob(&layer))
                    .times(1)
                    .then(Lie::corrupt(100));
                world.start_to_crash_at(point).await;
                world.ask(&reference).await;
                world.crashed().await;
                world.ends_well(&reference).await;
            }
            Self::LostTree => lost_tree(point).await,
            Self::Removal => removal(point).await,
            Self::Cancelled => cancelled(point).await,
            Self::MovedTag => moved_tag(point).await,
        }
    }
}

async fn dies_in_pull(point: &str) -> (World, String) {
    let mut world = World::with_content().await;
    let reference = world.hold(REFERENCE, "new");
    world.start_to_crash_at(point).await;
    world.ask(&reference).await;
    world.crashed().await;
    (world, reference)
}

/// Something else than it, and then it, is published; the puller does not run.
async fn two_published() -> (World, String, String) {
    let mut world = World::with_content().await;
    world.start_again().await;
    let reference = world.hold(REFERENCE, "new");
    let id = world.pull(&reference).await;
    world.is_tidy().await;
    (world, reference, id)
}

async fn lost_tree(point: &str) {
    let (mut world, reference, id) = two_published().await;
    let content = world.puller.content(&world.puller.get(&id).await);
    world.kill().await;
    world.unpacked.pop();
    fs::remove_dir_all(content).expect("it was there");
    world.set_aside = 1;
    world.start_and_crash_at(point).await;
    world.ends_well(&reference).await;
}

async fn removal(point: &str) {
    let (mut world, _, id) = two_published().await;
    world.kill().await;
    world.start_to_crash_at(point).await;
    world.unpacked.pop();
    world.puller.release(&id, "scenario").await;
    world.crashed().await;
    world.start_again().await;
    world.puller.gone(&id).await;
    world.is_tidy().await;
}

async fn cancelled(point: &str) {
    let mut world = World::with_content().await;
    let reference = world.hold(REFERENCE, "new");
    world.registry.on(Get::blobs()).then(Throttle::to(SLOW));
    world.start_to_crash_at(point).await;
    let id = world.puller.fetch(&reference).await.id;
    world
        .puller
        .wait_for(&id, "bytes", |image| {
            image
                .progress
                .as_ref()
                .is_some_and(|progress| progress.bytes_done > 0)
        })
        .await;
    world.puller.release(&id, "scenario").await;
    world.crashed().await;
    world.start_again().await;
    world.puller.gone(&id).await;
    world.is_tidy().await;
}

async fn moved_tag(point: &str) {
    let (mut world, reference, id) = two_published().await;
    world.kill().await;
    sleep(LEAST_AGE).await;
    world.unpacked.pop();
    let old = world.image().clone();
    world.hold(REFERENCE, "newer");
    world.start_to_crash_at(point).await;
    let _ = world.puller.fetch(&reference).max_age(LEAST_AGE).send().await;
    world.crashed().await;

    world.start_again().await;
    let state = world.puller.get(&id).await;
    let content = state.content.as_ref();
    let digest = &content
        .unwrap_or_else(|| panic!("a hole: {state:#?}"))
        .manifest_digest;
    let image = if *digest == old.digest() {
        &old
    } else {
        world.image()
    };
    Tree::of(world.puller.content(&state)).assert_same_as(&Tree::of_image(image));

    let newer = world.image().clone();
    world.puller.fetch(&reference).max_age(LEAST_AGE).await;
    world
        .puller
        .wait_for(&id, "the newer content", |image| {
            image
                .content
                .as_ref()
                .is_some_and(|content| content.manifest_digest == newer.digest())
        })
        .await;
    world.unpacked.push((id, newer));
    world.is_tidy().await;
}
