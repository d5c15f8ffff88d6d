//! BENCHMARKS.md.

mod daemon;
mod sections;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command, time::Duration};

use self::sections::Sections;
use super::{
    Run, contestant::Contestant, load::Load, median, restart::Start, shape::Shape, watchers::FanOut,
};

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// Of each shape: layers' compressed bytes.
    pub sizes: BTreeMap<&'static str, u64>,
    /// All pulls; none: those of an earlier report are kept, since only ratios of one run mean anything.
    pub runs: BTreeMap<(&'static str, &'static str), Vec<Run>>,
    /// The daemon under load, each time.
    pub loads: Vec<Load>,
    /// How changes came to watchers.
    pub fan_outs: Vec<FanOut>,
    /// Starts with many Images.
    pub starts: Vec<Start>,
    /// What was left out, and why.
    pub missing: Vec<String>,
    /// Where it was unpacked.
    pub disk: String,
    /// Runs of each.
    pub repeated: usize,
    /// How it was made.
    pub made: Made,
}

/// How a report was made.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// How the bench was called.
    pub command: String,
    /// The machine's load when it began: other work disturbs what is measured.
    pub load_before: String,
}

impl Made {
    fn line(&self) -> String {
        format!(
            "Made by `{}` on {}: {}; load average before it {}.",
            self.command,
            jiff::Zoned::now().date(),
            machine(),
            self.load_before
        )
    }
}

impl Report {
    /// Writes the file; what was not measured stays, and the hand-written part.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &Path, shapes: &[Shape]) -> std::io::Result<()> {
        let old = fs::read_to_string(path).unwrap_or_default();
        fs::write(path, self.text(shapes, &old))
    }

    fn text(&self, shapes: &[Shape], old: &str) -> String {
        let mut sections = Sections::of(old);
        if !self.runs.is_empty() {
            self.pulls(&mut sections, shapes);
        }
        let alone = [
            (daemon::LOAD, daemon::load(&self.loads, &self.made)),
            (daemon::WATCHERS, daemon::watchers(&self.fan_outs, &self.made)),
            (daemon::RESTART, daemon::restart(&self.starts, &self.made)),
        ];
        for (heading, text) in alone {
            if let Some(text) = text {
                sections.put(heading, text);
            }
        }
        sections.text()
    }

    /// The pulls of all contestants.
    pub fn tables(&self, shapes: &[Shape]) -> String {
        let mut sections = Sections::of("");
        self.pulls(&mut sections, shapes);
        sections.text()
    }

    fn pulls(&self, sections: &mut Sections, shapes: &[Shape]) {
        let mut text = String::from("# Benchmarks\n\n");
        let _ = writeln!(
            text,
            "{}\n\n\
             One run measures all, interleaved; each pull is cold, after a sync and a rest. The registry (docker-registry, plain\n\
             HTTP on loopback) shares the cores. A cell is the median of {} pulls by wall time. Only ratios of one run mean\n\
             anything: the machine is shared and noisy. Sections with a date of their own were made by another run.\n",
            self.made.line(),
            self.repeated,
        );
        let _ = writeln!(text, "Unpacked on {}.\n", self.disk);
        text += "| shape | like | compressed MB |\n|---|---|---:|\n";
        for shape in shapes {
            let size = self.sizes.get(shape.name).copied().unwrap_or_default();
            let _ = writeln!(text, "| {} | {} | {} |", shape.name, shape.like, size / 1_000_000);
        }
        sections.put("", text);
        let wall = |run: Run, _| seconds(run.wall);
        let multiple = |run: Run, own: Run| {
            let own = own.wall.as_secs_f64().max(f64::MIN_POSITIVE);
            format!("{:.2}", run.wall.as_secs_f64() / own)
        };
        let title = "Wall, seconds (the puller's without its sync)";
        sections.put(title, self.table(shapes, wall));
        let title = "Wall, as a multiple of the puller's";
        sections.put(title, self.table(shapes, multiple));
        let title = "CPU, seconds, without the registry's";
        sections.put(title, self.table(shapes, |run, _| seconds(run.cpu)));
        let title = "Peak memory of the process tree, MiB";
        sections.put(title, self.table(shapes, |run, _| (run.peak >> 20).to_string()));
        let title = "Making it durable: the puller's one syncfs, seconds; the others sync nothing";
        sections.put(title, self.syncs(shapes));
        let left_out = self.missing.iter().map(|missing| format!("left out: {missing}"));
        let lines: String = versions()
            .into_iter()
            .chain(left_out)
            .map(|line| format!("- {line}\n"))
            .collect();
        sections.put("Versions", lines);
    }

    fn table(&self, shapes: &[Shape], cell: impl Fn(Run, Run) -> String) -> String {
        let mut text = String::from("| |");
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
        text
    }

    /// What only the puller does.
    fn syncs(&self, shapes: &[Shape]) -> String {
        let mut text = String::from("|");
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
        text
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
