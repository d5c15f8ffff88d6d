//! `make bench`: measures the puller beside its peers and writes BENCHMARKS.md.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use clap::Parser;
use puller_tests::{
    bench::{
        contestant::{Contestant, beside},
        disk::Disk,
        load,
        report::{Made, Report},
        restart,
        shape::{SHAPES, Shape},
        thousand, watchers,
    },
    puller::Puller,
    registry::DockerRegistry,
    scripted::ScriptedRegistry,
};

/// The images of the measurement under load: the four that take longest.
const LOAD: [&str; 4] = ["base", "big", "base-zstd", "catalog"];

/// What is chosen like a contestant, and is none: questions to the daemon alone.
const DAEMON: &str = "daemon";

/// Measures the puller beside its peers and writes BENCHMARKS.md.
#[derive(Debug, Parser)]
struct Arguments {
    /// Pulls of each image by each contestant; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only these contestants, by the first word of their names; `daemon`: what is asked of the daemon alone. The
    /// tables of pulls are written only where all contestants pull all shapes, since only ratios of one run count
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these shapes
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
    /// Only these questions to the daemon alone: load, watchers, restart
    #[arg(long, value_delimiter = ',')]
    daemon: Vec<String>,
    /// Images this many times smaller, to try the bench itself; writes nothing
    #[arg(long, default_value_t = 1)]
    divisor: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tokio::select! {
        result = bench(&arguments) => result,
        // So that the disk is unmounted and the processes end.
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
    }
}

async fn bench(arguments: &Arguments) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    add_tools_to_path(&root.join("target/tools/bin"))?;
    let chosen = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|chosen| name.split(' ').next() == Some(chosen))
    };
    let shapes: Vec<Shape> = SHAPES
        .into_iter()
        .filter(|shape| chosen(&arguments.shapes, shape.name))
        .collect();
    let mut report = Report {
        repeated: arguments.runs,
        made: Made {
            command: command_line(),
            load_before: load_average(),
        },
        ..Report::default()
    };
    let mut contestants = Vec::new();
    for contestant in Contestant::ALL
        .into_iter()
        .filter(|it| chosen(&arguments.only, it.name()))
    {
        match missing(contestant) {
            None => contestants.push(contestant),
            Some(program) => {
                let why = format!(
                    "{}, since {program} is not installed (make bench-setup)",
                    contestant.name()
                );
                println!("left out: {why}");
                report.missing.push(why);
            }
        }
    }

    for shape in &shapes {
        let cannot = |it: &Contestant| {
            it.cannot(shape)
                .map(|why| format!("{} of {}: {why}", it.name(), shape.name))
        };
        report.missing.extend(contestants.iter().filter_map(cannot));
    }

    let disk = Disk::make(&root.join("target/bench"))?;
    report.disk = disk.description().to_owned();
    let asked = |question: &str| {
        chosen(&arguments.only, DAEMON)
            && (arguments.daemon.is_empty() || arguments.daemon.iter().any(|asked| asked == question))
    };
    if !contestants.is_empty() {
        pulls(arguments, &disk, &contestants, &shapes, &mut report).await?;
    }
    if asked("load") {
        loads(arguments, &disk, &mut report).await?;
    }
    if asked("watchers") || asked("restart") {
        many_images(&disk, asked("watchers"), asked("restart"), &mut report).await?;
    }
    let is_whole = arguments.only.is_empty() && arguments.shapes.is_empty();
    if !report.runs.is_empty() && !is_whole {
        println!("{}", report.tables(&shapes));
        report.runs.clear();
    }
    if arguments.divisor == 1 {
        report.write(&root.join("BENCHMARKS.md"), &shapes)?;
        println!("BENCHMARKS.md is written");
    }
    Ok(())
}

/// All contestants pull all shapes, in turn.
async fn pulls(
    arguments: &Arguments,
    disk: &Disk,
    contestants: &[Contestant],
    shapes: &[Shape],
    report: &mut Report,
) -> anyhow::Result<()> {
    let registry = DockerRegistry::start().await;
    let names = push(&registry, shapes, arguments.divisor, report).await;
    for round in 1..=arguments.runs {
        for shape in shapes {
            for contestant in contestants.iter().filter(|it| it.cannot(shape).is_none()) {
                let cold = disk.cold()?;
                let pulled = contestant
                    .pull(&registry.host(), &names[shape.name], &cold, registry.pid())
                    .await;
                match pulled {
                    Ok(run) => {
                        println!("{round} {:10} {:16} {run:.2?}", shape.name, contestant.name());
                        report
                            .runs
                            .entry((shape.name, contestant.name()))
                            .or_default()
                            .push(run);
                    }
                    Err(error) => {
                        println!(
                            "{round} {:10} {:16} failed: {error:#}",
                            shape.name,
                            contestant.name()
                        );
                        let why = format!(
                            "{} of {} in round {round}: it failed",
                            contestant.name(),
                            shape.name
                        );
                        report.missing.push(why);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Puts the shapes into the registry; their names there.
async fn push(
    registry: &DockerRegistry,
    shapes: &[Shape],
    divisor: usize,
    report: &mut Report,
) -> BTreeMap<&'static str, String> {
    let mut names = BTreeMap::new();
    for shape in shapes {
        let image = shape.build(divisor);
        println!(
            "{}: {} MB in {} layers",
            shape.name,
            image.layer_bytes() / 1_000_000,
            image.layers().len()
        );
        report.sizes.insert(shape.name, image.layer_bytes());
        let name = format!("bench/{}:v1", shape.name);
        registry.push(&name, &image).await;
        names.insert(shape.name, name);
    }
    names
}

/// Calls while four images are pulled.
async fn loads(arguments: &Arguments, disk: &Disk, report: &mut Report) -> anyhow::Result<()> {
    let shapes: Vec<Shape> = SHAPES
        .into_iter()
        .filter(|shape| LOAD.contains(&shape.name))
        .collect();
    let registry = DockerRegistry::start().await;
    let names = push(&registry, &shapes, arguments.divisor, report).await;
    let four: Vec<_> = names.values().map(|name| registry.reference(name)).collect();
    for round in 1..=arguments.runs {
        let load = load::measure(&four, &disk.cold()?).await?;
        println!("{round} {load:.2?}");
        report.loads.push(load);
    }
    Ok(())
}

/// What is asked of a puller that has many Images.
async fn many_images(
    disk: &Disk,
    ask_watchers: bool,
    ask_restart: bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    let registry = ScriptedRegistry::start().await;
    let references = thousand::hold(&registry);
    let mut puller = Puller::start()
        .volume(disk.cold()?.join("volume"))
        .binary(beside("puller")?)
        .try_start()
        .await?;
    thousand::pull(&puller, &references).await?;
    println!("{} Images are pulled", references.len());
    if ask_restart {
        report.starts = restart::measure(&mut puller).await?;
        println!("{:.2?}", report.starts);
    }
    if ask_watchers {
        // Not what its pulls have left in memory.
        puller.kill().await;
        puller.try_start_again().await?;
        for number in watchers::NUMBERS {
            let fan_out = watchers::measure(&puller, &registry.host(), number).await?;
            println!("{fan_out:.2?}");
            report.fan_outs.push(fan_out);
        }
    }
    Ok(())
}

/// How busy the machine is, by the mean of the last minute.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// A program that the contestant needs and that is not there.
fn missing(contestant: Contestant) -> Option<&'static str> {
    let there = |program: &str| {
        env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .any(|directory| directory.join(program).is_file())
    };
    contestant
        .programs()
        .iter()
        .map(|(program, _)| *program)
        .find(|program| !there(program))
}

/// Tools that the Makefile builds go first. Done by starting anew, since a process must not change its
/// own environment while threads may read it.
fn add_tools_to_path(tools: &Path) -> anyhow::Result<()> {
    let old = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&old).any(|directory| directory == tools) {
        return Ok(());
    }
    let paths = std::iter::once(PathBuf::from(tools)).chain(env::split_paths(&old));
    let error = std::os::unix::process::CommandExt::exec(
        Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .env("PATH", env::join_paths(paths)?),
    );
    Err(error).context("start anew with the tools in the PATH")
}

fn command_line() -> String {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.is_empty() {
        true => "make bench".to_owned(),
        false => format!("make bench ARGS=\"{}\"", arguments.join(" ")),
    }
}
