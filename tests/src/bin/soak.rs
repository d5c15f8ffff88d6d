//! `make soak`: kills, faults, claims and watchers at random, and every promise checked meanwhile.

use std::{
    fs,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::ensure;
use clap::Parser;
use puller_client::{Client, Filter, Informer};
use puller_tests::{
    bench::process::peak_of,
    environment::number,
    puller::Puller,
    scripted::ScriptedRegistry,
    soak::{
        GRACE, Ground, claimant::Claimant, faults::Faults, pool::Pool, reader::read, rest::Everybody,
        watcher::Follower,
    },
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::{Instant, sleep};

/// Between two lines of counts.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// Between two looks at the daemon's memory and descriptors.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// From one rest to the next.
const CHURN: Duration = Duration::from_secs(40);

/// Times between kills, in milliseconds; none: it lives through to the rest.
const LIVES: [Option<std::ops::Range<u64>>; 4] =
    [Some(100..2_500), Some(1_000..6_000), Some(3_000..12_000), None];

/// How long it is down, in milliseconds.
const DOWN: std::ops::Range<u64> = 0..1_200;

/// Between two changes at the registry, in milliseconds.
const CHANGE: std::ops::Range<u64> = 300..2_500;

/// Short, so that a hung answer does end an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Most that the daemon may have resident, in bytes; far above what it needs.
const MOST_MEMORY: u64 = 128 << 20;

/// Most descriptors that may be open at rest beyond those of the first rest.
const MOST_MORE_DESCRIPTORS: u64 = 16;

/// Most descriptors at any time: sockets of all callers, and what its four pulls have open.
const MOST_DESCRIPTORS: u64 = 300;

const CLAIMANTS: usize = 5;
const READERS: usize = 2;

/// Kills, faults, claims and watchers at random, and every promise checked meanwhile.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long it goes on
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
}

/// What the daemon is seen by from outside.
#[derive(Debug, Default)]
struct Outside {
    pid: AtomicU32,
    is_down: Arc<AtomicBool>,
    stopped: AtomicBool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = number("PULLER_TEST_SEED").unwrap_or_else(rand::random);
    println!("PULLER_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let registry = ScriptedRegistry::start().await;
    let pool = Pool::new(&registry, &mut random);
    let started = Puller::start()
        .grace_period(GRACE)
        .idle_timeout(IDLE_TIMEOUT)
        .flag("--cancel-delay", "2s")
        .try_start();
    let mut puller = match started.await {
        Ok(puller) => puller,
        Err(error) => {
            eprintln!("soak: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let (ground, mut findings) = Ground::new(puller.volume().to_owned(), pool);
    let ground = Arc::new(ground);
    let lasts = Duration::from_secs_f64(arguments.minutes * 60.0);
    let outcome = tokio::select! {
        outcome = soak(&ground, &registry, &mut puller, &mut random, lasts) => outcome,
        finding = findings.recv() => Err(anyhow::anyhow!(finding.unwrap_or_default())),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    puller.kill().await;
    println!("in all: {}", ground.counts);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(broken) => {
            println!(
                "BROKEN: {broken:#}\nPULLER_TEST_SEED={seed}\nthe log: {}\nthe volume: {}",
                puller.log_file().display(),
                puller.volume().display()
            );
            // Without unwinding: log and volume stay to be looked at.
            std::process::exit(1)
        }
    }
}

async fn soak(
    ground: &Arc<Ground>,
    registry: &ScriptedRegistry,
    puller: &mut Puller,
    random: &mut StdRng,
    lasts: Duration,
) -> anyhow::Result<()> {
    let end = Instant::now() + lasts;
    let outside = Arc::new(Outside::default());
    outside.pid.store(puller.pid(), Relaxed);
    let everybody = populate(ground, &puller.endpoint(), random)?;
    tokio::spawn(tell(Arc::clone(ground)));
    tokio::spawn(sample(Arc::clone(ground), Arc::clone(&outside)));
    for _ in 0..READERS {
        let (ground, outside, random) = (Arc::clone(ground), Arc::clone(&outside), fork(random));
        std::thread::spawn(move || read(&ground, &outside.is_down, &outside.stopped, random));
    }
    let mut first_descriptors = None;
    while Instant::now() < end {
        churn(ground, registry, puller, &outside, random).await?;
        ground.rest(true);
        everybody.rests(ground).await?;
        ensure!(!puller.log().contains("panicked at"), "the daemon panicked");
        let descriptors = descriptors(puller.pid());
        ground.counts.descriptors_at_rest.at_least(descriptors);
        let first = *first_descriptors.get_or_insert(descriptors);
        ensure!(
            descriptors <= first + MOST_MORE_DESCRIPTORS,
            "{descriptors} descriptors are open at rest, and were {first} at the first one"
        );
        ground.counts.rests.up();
        ground.rest(false);
    }
    outside.stopped.store(true, Relaxed);
    Ok(())
}

/// Claimants, informers and followers.
fn populate(ground: &Arc<Ground>, endpoint: &str, random: &mut StdRng) -> anyhow::Result<Everybody> {
    let client = Client::connect(endpoint)?;
    let mut everybody = Everybody {
        client: client.clone(),
        claimants: Vec::new(),
        informers: Vec::new(),
        followers: Vec::new(),
    };
    for number in 0..CLAIMANTS {
        let name = format!("claimant-{number}");
        let claimant = Claimant::new(name.clone(), Arc::clone(ground), client.clone(), fork(random));
        everybody.claimants.push((name, claimant.claims()));
        tokio::spawn(claimant.run());
    }
    for claimant in ["", "claimant-0"] {
        let filter = Filter {
            claimant: claimant.to_owned(),
            ids: Vec::new(),
        };
        let informer = Informer::start(Client::connect(endpoint)?, filter);
        everybody.informers.push((claimant.to_owned(), informer));
    }
    for (claimant, cuts) in [
        ("", false),
        ("", true),
        ("claimant-1", false),
        ("claimant-0", true),
    ] {
        let follower = Follower {
            claimant: claimant.to_owned(),
            cuts,
            counts: claimant.is_empty() && !cuts,
        };
        let known = follower.start(Arc::clone(ground), Client::connect(endpoint)?, fork(random));
        everybody.followers.push((claimant.to_owned(), known));
    }
    Ok(everybody)
}

/// Faults, moving tags and kills, for a while; in the end all is well again.
async fn churn(
    ground: &Ground,
    registry: &ScriptedRegistry,
    puller: &mut Puller,
    outside: &Outside,
    random: &mut StdRng,
) -> anyhow::Result<()> {
    let end = Instant::now() + CHURN;
    let lives = LIVES[random.random_range(0..LIVES.len())].clone();
    let mut faults = Faults::default();
    let mut next_change = Instant::now();
    let mut next_kill = lives.clone().map(|lives| later(lives, random));
    while Instant::now() < end {
        let next = next_kill.map_or(next_change, |kill| kill.min(next_change));
        tokio::time::sleep_until(next.min(end)).await;
        if Instant::now() >= next_change {
            faults.change(registry, &ground.counts, random);
            if random.random_bool(0.3) {
                ground.pool.move_a_tag(registry, random);
                ground.counts.moves.up();
            }
            next_change = later(CHANGE, random);
        }
        if let (Some(kill), Some(lives)) = (next_kill, &lives)
            && Instant::now() >= kill
        {
            restart(ground, puller, outside, random).await?;
            next_kill = Some(later(lives.clone(), random));
        }
    }
    faults.end(registry, &ground.counts);
    Ok(())
}

async fn restart(
    ground: &Ground,
    puller: &mut Puller,
    outside: &Outside,
    random: &mut StdRng,
) -> anyhow::Result<()> {
    outside.is_down.store(true, Relaxed);
    outside.pid.store(0, Relaxed);
    if random.random_bool(0.9) {
        puller.kill().await;
        ground.counts.kills.up();
    } else {
        let status = puller.terminate().await;
        ensure!(status == 0, "asked to end, the puller ended with {status}");
        ground.counts.ends.up();
    }
    sleep(Duration::from_millis(random.random_range(DOWN))).await;
    ground.new_life();
    outside.is_down.store(false, Relaxed);
    puller.try_start_again().await?;
    outside.pid.store(puller.pid(), Relaxed);
    ground.counts.restarts.up();
    Ok(())
}

fn later(milliseconds: std::ops::Range<u64>, random: &mut StdRng) -> Instant {
    Instant::now() + Duration::from_millis(random.random_range(milliseconds))
}

fn fork(random: &mut StdRng) -> StdRng {
    StdRng::seed_from_u64(random.random())
}

async fn tell(ground: Arc<Ground>) {
    let began = Instant::now();
    loop {
        sleep(TELL_EVERY).await;
        println!("{} s: {}", began.elapsed().as_secs(), ground.counts);
    }
}

/// Looks at the daemon from outside, all the time.
async fn sample(ground: Arc<Ground>, outside: Arc<Outside>) {
    loop {
        sleep(SAMPLE_EVERY).await;
        let pid = outside.pid.load(Relaxed);
        if pid == 0 {
            continue;
        }
        let (memory, descriptors) = (peak_of(pid), descriptors(pid));
        ground.counts.memory.at_least(memory);
        ground.counts.descriptors.at_least(descriptors);
        if memory > MOST_MEMORY || descriptors > MOST_DESCRIPTORS {
            ground.broken(format!(
                "the daemon has {memory} bytes of memory and {descriptors} open descriptors"
            ));
        }
    }
}

/// How many descriptors a process has open; 0: it has ended.
fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}
