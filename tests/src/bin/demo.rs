//! `make demo`: a registry in this process, the real puller beside it, and a pull to look at.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{IsTerminal as _, Write as _, stdout},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use puller_api::v1::{FetchRequest, Progress, WatchRequest, Wish, watch_event::Event};
use puller_tests::{
    image::{Image, Layer},
    puller::{self, Phase, Puller},
    scripted::{Get, ScriptedRegistry, Throttle},
    wait::PATIENCE,
};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt as _;

/// Bytes a second of each layer: slow enough to see the pull, and over in a few seconds.
const LAYER_RATE: u64 = 900_000;

/// Lines of the tree that are shown.
const TREE_LINES: usize = 24;

#[tokio::main]
async fn main() -> ExitCode {
    match demo().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demo() -> anyhow::Result<()> {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("demo/catalog:v1", catalog());
    registry.on(Get::blobs()).then(Throttle::to(LAYER_RATE));
    let puller = Puller::start().plain_http(&registry.host()).try_start().await?;
    say(&format!(
        "A registry is at {}, a puller at unix://{}.",
        registry.host(),
        puller.socket().display()
    ))?;

    let image = tokio::time::timeout(PATIENCE, pull(&puller, &reference))
        .await
        .with_context(|| format!("the pull did not end within {PATIENCE:?}"))??;
    let content = image.content.as_ref().context("an unpacked Image has content")?;
    say(&format!(
        "\nUnpacked: {} files, {} on the volume at {}",
        content.files,
        megabytes(content.size),
        puller.content(&image).display()
    ))?;
    say(&tree(&puller.content(&image))?)?;

    let socket = puller.socket().display().to_string();
    say(&format!(
        "Ask it yourself:\n\
         \x20 grpcurl -plaintext unix://{socket} list\n\
         \x20 grpcurl -plaintext unix://{socket} puller.v1.Puller/List\n\
         \x20 grpcurl -plaintext -d '{{\"id\": \"{id}\"}}' unix://{socket} puller.v1.Puller/Get\n\
         \x20 grpcurl -plaintext -d '{wish}' unix://{socket} puller.v1.Puller/Fetch\n\
         \x20 grpcurl -plaintext unix://{socket} puller.v1.Puller/Watch",
        id = image.id,
        wish = json!({ "wish": { "reference": reference }, "claimant": "you" }),
    ))?;
    if std::env::var("ONCE").is_ok_and(|once| once == "1") {
        return Ok(());
    }
    say("\nCtrl-C ends it.")?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Ok(())
}

/// Fetches, and shows what the Watch tells until the content is there.
async fn pull(puller: &Puller, reference: &str) -> anyhow::Result<puller::Image> {
    let mut client = puller.client();
    let wish = Wish {
        reference: reference.to_owned(),
        ..Wish::default()
    };
    let request = FetchRequest {
        wish: Some(wish),
        claimant: "demo".to_owned(),
        ..FetchRequest::default()
    };
    let fetched = client
        .fetch(request)
        .await?
        .into_inner()
        .image
        .context("Fetch answered no Image")?;
    say(&format!(
        "Fetch {reference}\n  answered at once: id {}, {}\n",
        fetched.id,
        phase(&fetched)
    ))?;

    let watch = WatchRequest {
        ids: vec![fetched.id],
        ..WatchRequest::default()
    };
    let mut events = client.watch(watch).await?.into_inner();
    let mut screen = Screen::new();
    while let Some(event) = events.next().await {
        let Some(Event::Put(image)) = event?.event else {
            continue;
        };
        screen.show(&image)?;
        match image.phase() {
            Phase::Unpacked => {
                screen.finish()?;
                return Ok(image);
            }
            Phase::Failed | Phase::Retrying => {
                screen.finish()?;
                let error = image.last_error.context("a failed Image has an error")?;
                anyhow::bail!("{}: {}", error.reason().as_str_name(), error.message);
            }
            Phase::Unspecified | Phase::Initiated | Phase::Pulling | Phase::Unpacking => {}
        }
    }
    anyhow::bail!("the Watch ended before the image was there")
}

/// Where progress is shown: a terminal has one line that changes within a phase, anything else a line
/// for each event.
struct Screen {
    rewrites: bool,
    last_phase: Option<Phase>,
}

impl Screen {
    fn new() -> Self {
        Self {
            rewrites: stdout().is_terminal(),
            last_phase: None,
        }
    }

    fn show(&mut self, image: &puller::Image) -> anyhow::Result<()> {
        let line = progress_line(image);
        let same_phase = self.last_phase.replace(image.phase()) == Some(image.phase());
        let mut out = stdout().lock();
        match (self.rewrites, same_phase) {
            (false, _) => writeln!(out, "{line}")?,
            // Back to the line's begin, and erase it.
            (true, true) => write!(out, "\r\x1b[2K{line}")?,
            (true, false) => write!(out, "\n{line}")?,
        }
        Ok(out.flush()?)
    }

    fn finish(&self) -> anyhow::Result<()> {
        if self.rewrites {
            writeln!(stdout())?;
        }
        Ok(())
    }
}

fn progress_line(image: &puller::Image) -> String {
    /// Characters of the bar.
    const BAR: u64 = 24;
    let Progress {
        bytes_done,
        bytes_total,
        layers_done,
        layers_total,
        unpacked_entries,
        waiting_for,
        ..
    } = image.progress.clone().unwrap_or_default();
    let mut line = format!("  {:<10}", phase(image));
    if let (Some(bytes_total), Some(layers_total)) = (bytes_total, layers_total) {
        let full = (bytes_done * BAR)
            .checked_div(bytes_total)
            .unwrap_or(BAR)
            .min(BAR) as usize;
        let bar = format!("{:-<width$}", "#".repeat(full), width = BAR as usize);
        // Writing to a String does not fail.
        let _ = write!(
            line,
            "[{bar}] {} of {}, {layers_done} of {layers_total} layers, {unpacked_entries} entries unpacked",
            megabytes(bytes_done),
            megabytes(bytes_total),
        );
    }
    if !waiting_for.is_empty() {
        let _ = write!(line, "; waits for {waiting_for}");
    }
    line
}

fn phase(image: &puller::Image) -> String {
    let name = image.phase().as_str_name().to_lowercase();
    name[..1].to_uppercase() + &name[1..]
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A catalog as operators publish it, on a base of two layers.
fn catalog() -> Image {
    let mut base = Layer::gzip()
        .file("etc/os-release", "ID=demo\nVERSION_ID=1\n")
        .symlink("lib", "usr/lib");
    base = base
        .executable("usr/bin/serve", "#!/bin/sh\nexit 0\n")
        .noise(40, 60_000);
    let mut configs = Layer::gzip().dir("configs");
    for n in 1..=40 {
        let name = format!("operator-{n:02}");
        let documents = [
            json!({ "schema": "olm.package", "name": name, "defaultChannel": "stable" }),
            json!({ "schema": "olm.channel", "package": name, "name": "stable",
                    "entries": [{ "name": format!("{name}.v1.0.{n}") }] }),
            json!({ "schema": "olm.bundle", "package": name, "name": format!("{name}.v1.0.{n}"),
                    "image": format!("registry.example.com/{name}:1.0.{n}") }),
        ];
        let text: String = documents
            .iter()
            .map(|document| format!("{document:#}\n"))
            .collect();
        configs = configs.file(&format!("configs/{name}/catalog.json"), text);
    }
    Image::catalog(base)
        .layer(Layer::zstd().noise(30, 80_000))
        .layer(configs.noise(20, 50_000))
}

/// The first lines of the tree; each directory with the number of its entries.
fn tree(root: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    tree_lines(root, 1, &mut lines)?;
    let rest = lines.len().saturating_sub(TREE_LINES);
    lines.truncate(TREE_LINES);
    if rest > 0 {
        lines.push(format!("  … and {rest} more"));
    }
    Ok(lines.join("\n") + "\n")
}

fn tree_lines(directory: &Path, depth: usize, lines: &mut Vec<String>) -> anyhow::Result<()> {
    /// Entries of one directory that are shown.
    const SHOWN: usize = 4;
    let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    let entries: BTreeMap<_, _> = entries
        .into_iter()
        .map(|entry| (entry.file_name(), entry))
        .collect();
    let indent = "  ".repeat(depth);
    for (name, entry) in entries.iter().take(SHOWN) {
        let (name, kind) = (name.to_string_lossy(), entry.file_type()?);
        if kind.is_symlink() {
            lines.push(format!(
                "{indent}{name} -> {}",
                fs::read_link(entry.path())?.display()
            ));
        } else if kind.is_dir() {
            lines.push(format!("{indent}{name}/"));
            tree_lines(&entry.path(), depth + 1, lines)?;
        } else {
            lines.push(format!("{indent}{name}  {} bytes", entry.metadata()?.len()));
        }
    }
    if entries.len() > SHOWN {
        lines.push(format!("{indent}… {} entries in all", entries.len()));
    }
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    // println! would panic when the reader of a pipe goes away.
    Ok(writeln!(stdout(), "{text}")?)
}
