//! Who pulls: the puller, the bare pipeline, and the peers as their users run them.

use std::{
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::process::Command;

use super::{
    Run,
    process::{self, PeakWatch},
    shape::Shape,
};
use crate::puller::{Phase, Puller};

/// Somebody who can pull an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// The daemon, from Fetch to UNPACKED.
    Puller,
    /// Three threads and nothing else; see `tests/examples/bare_pipeline.rs`.
    Bare,
    /// `skopeo copy`, then `umoci unpack`.
    SkopeoUmoci,
    /// `podman pull`, overlay storage.
    Podman,
    /// containerd's `ctr images pull`, overlayfs.
    Containerd,
    /// `crane export`, piped to tar.
    Crane,
}

impl Contestant {
    /// All, in the report's order.
    pub const ALL: [Self; 6] = [
        Self::Puller,
        Self::Bare,
        Self::SkopeoUmoci,
        Self::Podman,
        Self::Containerd,
        Self::Crane,
    ];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Puller => "puller",
            Self::Bare => "bare pipeline",
            Self::SkopeoUmoci => "skopeo + umoci",
            Self::Podman => "podman",
            Self::Containerd => "containerd (ctr)",
            Self::Crane => "crane, tar",
        }
    }

    /// The programs that it needs, with the arguments that make them tell their version.
    pub fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Puller | Self::Bare => &[],
            Self::SkopeoUmoci => &[("skopeo", "--version"), ("umoci", "--version")],
            Self::Podman => &[("podman", "--version")],
            Self::Containerd => &[("containerd", "--version"), ("ctr", "--version")],
            Self::Crane => &[("crane", "version"), ("tar", "--version")],
        }
    }

    /// Why it can't pull images of this shape.
    pub fn cannot(self, shape: &Shape) -> Option<&'static str> {
        (self == Self::SkopeoUmoci && shape.zstd).then_some("umoci knows no zstd")
    }

    /// Pulls into an empty directory.
    ///
    /// # Errors
    /// It failed.
    pub async fn pull(
        self,
        host: &str,
        name: &str,
        directory: &Path,
        registry: Option<u32>,
    ) -> anyhow::Result<Run> {
        let script = match self {
            Self::Puller => return pull_by_puller(host, name, directory).await,
            Self::Bare => {
                let (repository, tag) = name.split_once(':').context("a name has a tag")?;
                format!(
                    "'{}' {host} {repository} {tag} .",
                    beside("examples/bare_pipeline")?.display()
                )
            }
            Self::SkopeoUmoci => format!(
                "skopeo copy -q --src-tls-verify=false docker://{host}/{name} oci:image:v1 && \
                 umoci unpack --image image:v1 bundle"
            ),
            Self::Podman => format!(
                "podman --root $PWD/root --runroot $PWD/run --storage-driver overlay pull -q --tls-verify=false {host}/{name}"
            ),
            Self::Containerd => format!(
                "containerd --root $PWD/root --state $PWD/state --address $PWD/sock > log 2>&1 & daemon=$!; \
                 until ctr -a $PWD/sock version > /dev/null 2>&1; do :; done; \
                 date +%s.%N > begun; ctr -a $PWD/sock images pull --plain-http {host}/{name} > /dev/null; code=$?; \
                 date +%s.%N > ended; kill $daemon; wait $daemon; exit $code"
            ),
            Self::Crane => format!("crane export --insecure {host}/{name} - | tar -x"),
        };
        run(&script, directory, registry).await
    }
}

/// The built binaries lie beside this one.
///
/// # Errors
/// This program does not know where it is.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    Ok(env::current_exe()?
        .parent()
        .context("a program is in a directory")?
        .join(name))
}

async fn run(script: &str, directory: &Path, registry: Option<u32>) -> anyhow::Result<Run> {
    let before = process::cpu_of_children();
    let watch = PeakWatch::start(registry);
    let start = Instant::now();
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .kill_on_drop(true)
        .output()
        .await
        .context("start a shell")?;
    let wall = start.elapsed();
    let peak = watch.peak();
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{script}\n{errors}");
    Ok(Run {
        // A daemon's start and end are not part of its pull.
        wall: noted(directory).unwrap_or(wall),
        sync: None,
        cpu: process::cpu_of_children().saturating_sub(before),
        peak,
    })
}

/// The time between the two moments that a script has noted.
fn noted(directory: &Path) -> Option<Duration> {
    let moment = |name| {
        std::fs::read_to_string(directory.join(name))
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
    };
    Some(Duration::from_secs_f64(
        (moment("ended")? - moment("begun")?).max(0.0),
    ))
}

async fn pull_by_puller(host: &str, name: &str, directory: &Path) -> anyhow::Result<Run> {
    let puller = Puller::start()
        .volume(directory.join("volume"))
        .binary(beside("puller")?)
        .try_start()
        .await?;
    let before = process::cpu_of(puller.pid());
    let start = Instant::now();
    let fetched = puller.fetch(&format!("{host}/{name}")).await;
    let image = puller
        .wait_for(&fetched.id, "its content", |image| {
            image.phase() == Phase::Unpacked
        })
        .await;
    let wall = start.elapsed();
    let sync = image
        .content
        .and_then(|content| content.sync)
        .and_then(|sync| Duration::try_from(sync).ok());
    Ok(Run {
        wall: wall.saturating_sub(sync.unwrap_or_default()),
        sync,
        cpu: process::cpu_of(puller.pid()).saturating_sub(before),
        peak: process::peak_of(puller.pid()),
    })
}
