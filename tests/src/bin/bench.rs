//! `make bench`: measures the puller beside its peers and writes BENCHMARKS.md.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use clap::Parser;
use puller_tests::{
    bench::{
        contestant::Contestant,
        disk::Disk,
        load,
        report::Report,
        shape::{SHAPES, Shape},
    },
    registry::DockerRegistry,
};

/// The images of the measurement under load: the four that take longest.
const LOAD: [&str; 4] = ["base", "big", "base-zstd", "catalog"];

/// Measures the puller beside its peers and writes BENCHMARKS.md.
#[derive(Debug, Parser)]
struct Arguments {
    /// Pulls of each image by each contestant; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only these contestants, by the first word of their names
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these shapes
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
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
        command: command_line(),
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

    let registry = DockerRegistry::start().await;
    let mut names = BTreeMap::new();
    for shape in &shapes {
        let image = shape.build(arguments.divisor);
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
    let directory = root.join("target/bench");
    let disk = Disk::make(&directory)?;
    report.disk = disk.description().to_owned();
    for round in 1..=arguments.runs {
        for shape in &shapes {
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
    let four: Vec<_> = LOAD
        .iter()
        .filter_map(|name| names.get(name))
        .map(|name| registry.reference(name))
        .collect();
    if four.len() == LOAD.len() {
        let load = load::measure(&four, &disk.cold()?).await?;
        println!("{load:.2?}");
        report.load = Some(load);
    }
    if arguments.divisor == 1 {
        report.write(&root.join("BENCHMARKS.md"), &shapes)?;
        println!("BENCHMARKS.md is written");
    }
    Ok(())
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
