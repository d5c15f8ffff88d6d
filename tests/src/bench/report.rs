//! BENCHMARKS.md.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command, time::Duration};

use super::{Run, contestant::Contestant, load::Load, median, shape::Shape};

/// What stands between these lines is written by hand, and kept.
const NOTES: (&str, &str) = ("<!-- notes -->", "<!-- end of notes -->");

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// Of each shape: layers' compressed bytes.
    pub sizes: BTreeMap<&'static str, u64>,
    /// All runs.
    pub runs: BTreeMap<(&'static str, &'static str), Vec<Run>>,
    /// The daemon under load.
    pub load: Option<Load>,
    /// What was left out, and why.
    pub missing: Vec<String>,
    /// Where it was unpacked.
    pub disk: String,
    /// Runs of each.
    pub repeated: usize,
    /// How it was called.
    pub command: String,
}

impl Report {
    /// Writes the file; the hand-written part stays.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &Path, shapes: &[Shape]) -> std::io::Result<()> {
        let old = fs::read_to_string(path).unwrap_or_default();
        let notes = old
            .split_once(NOTES.0)
            .and_then(|(_, rest)| rest.split_once(NOTES.1))
            .map_or("\n", |(notes, _)| notes);
        fs::write(path, self.text(shapes, notes))
    }

    fn text(&self, shapes: &[Shape], notes: &str) -> String {
        let mut text = String::from("# Benchmarks\n\n");
        let _ = writeln!(
            text,
            "Made by `{}` on {}: {}.\n\n\
             One run measures all, interleaved; each pull is cold, after a sync and a rest. The registry (docker-registry, plain\n\
             HTTP on loopback) shares the cores. A cell is the median of {} pulls by wall time. Only ratios of one run mean\n\
             anything: the machine is shared and noisy.\n",
            self.command,
            jiff::Zoned::now().date(),
            machine(),
            self.repeated,
        );
        let _ = writeln!(text, "Unpacked on {}.\n", self.disk);
        text += "| shape | like | compressed MB |\n|---|---|---:|\n";
        for shape in shapes {
            let size = self.sizes.get(shape.name).copied().unwrap_or_default();
            let _ = writeln!(text, "| {} | {} | {} |", shape.name, shape.like, size / 1_000_000);
        }
        self.table(
            &mut text,
            "Wall, seconds (the puller's without its sync)",
            shapes,
            |run, _| seconds(run.wall),
        );
        self.table(
            &mut text,
            "Wall, as a multiple of the puller's",
            shapes,
            |run, own| {
                format!(
                    "{:.2}",
                    run.wall.as_secs_f64() / own.wall.as_secs_f64().max(f64::MIN_POSITIVE)
                )
            },
        );
        self.table(
            &mut text,
            "CPU, seconds, without the registry's",
            shapes,
            |run, _| seconds(run.cpu),
        );
        self.table(
            &mut text,
            "Peak memory of the process tree, MiB",
            shapes,
            |run, _| (run.peak >> 20).to_string(),
        );
        self.syncs(&mut text, shapes);
        if let Some(load) = &self.load {
            let _ = writeln!(
                text,
                "\n## Four pulls at a time\n\n\
                 Idle {} MiB; peak {} MiB. Over the socket meanwhile, {} rounds: Fetch median {:.2} ms, 99th percentile {:.2} ms;\n\
                 Get {:.2} ms and {:.2} ms.",
                load.idle >> 20,
                load.peak >> 20,
                load.calls,
                millis(load.fetch.0),
                millis(load.fetch.1),
                millis(load.get.0),
                millis(load.get.1),
            );
        }
        text += "\n## Versions\n\n";
        for version in versions() {
            let _ = writeln!(text, "- {version}");
        }
        for missing in &self.missing {
            let _ = writeln!(text, "- left out: {missing}");
        }
        let _ = write!(text, "\n{}{notes}{}\n", NOTES.0, NOTES.1);
        text
    }

    fn table(&self, text: &mut String, title: &str, shapes: &[Shape], cell: impl Fn(Run, Run) -> String) {
        let _ = write!(text, "\n## {title}\n\n| |");
        for shape in shapes {
            let _ = write!(text, " {} |", shape.name);
        }
        let _ = write!(text, "\n|---|{}\n", "---:|".repeat(shapes.len()));
        for contestant in Contestant::ALL {
            let row: Vec<_> = shapes
                .iter()
                .map(|shape| self.middle(shape.name, contestant))
                .collect();
            if row.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(text, "| {} |", contestant.name());
            for (shape, run) in shapes.iter().zip(row) {
                let own = self.middle(shape.name, Contestant::Puller).unwrap_or_default();
                let _ = write!(
                    text,
                    " {} |",
                    run.map_or_else(|| "-".into(), |run| cell(run, own))
                );
            }
            text.push('\n');
        }
    }

    /// What only the puller does.
    fn syncs(&self, text: &mut String, shapes: &[Shape]) {
        *text += "\n## Making it durable: the puller's one syncfs, seconds; the others sync nothing\n\n|";
        for shape in shapes {
            let _ = write!(text, " {} |", shape.name);
        }
        let _ = write!(text, "\n|{}\n|", "---:|".repeat(shapes.len()));
        for shape in shapes {
            let sync = self
                .middle(shape.name, Contestant::Puller)
                .and_then(|run| run.sync);
            let _ = write!(text, " {} |", sync.map_or_else(|| "-".into(), seconds));
        }
        text.push('\n');
    }

    fn middle(&self, shape: &'static str, contestant: Contestant) -> Option<Run> {
        median(self.runs.get(&(shape, contestant.name()))?, |run| run.wall)
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        line.split_once(':')
            .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores of {}, memory {}, Linux {}",
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

fn versions() -> Vec<String> {
    let programs = Contestant::ALL.into_iter().flat_map(Contestant::programs);
    programs
        .filter_map(|(program, argument)| {
            let output = Command::new(program).arg(argument).output().ok()?;
            let first = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
            Some(if first.contains(program) {
                first
            } else {
                format!("{program} {first}")
            })
        })
        .collect()
}
