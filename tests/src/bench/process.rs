//! CPU and memory of process trees, as /proc tells them (proc(5)).

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often memory is looked at: short enough for the peaks of pulls that take a second.
const LOOK: Duration = Duration::from_millis(20);

/// The CPU time that a process has used, in user and system mode.
pub fn cpu_of(pid: u32) -> Duration {
    stat(pid).map_or(Duration::ZERO, |stat| ticks(stat.own))
}

/// The CPU time of all children of this process that have ended and were waited for, and of theirs.
pub fn cpu_of_children() -> Duration {
    stat(std::process::id()).map_or(Duration::ZERO, |stat| ticks(stat.children))
}

/// The largest resident set that one process ever had, in bytes.
pub fn peak_of(pid: u32) -> u64 {
    status_kb(pid, "VmHWM:").unwrap_or_default() << 10
}

/// The resident set of one process now, in bytes.
pub fn memory_of(pid: u32) -> u64 {
    status_kb(pid, "VmRSS:").unwrap_or_default() << 10
}

/// Watches the memory of this process's descendants until it is asked for the peak.
#[derive(Debug)]
pub struct PeakWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    peak: Arc<AtomicU64>,
}

impl PeakWatch {
    /// Begins to watch; `without` and what descends from it is not counted (the registry).
    pub fn start(without: Option<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(AtomicU64::new(0));
        let thread = thread::spawn({
            let (stop, peak) = (Arc::clone(&stop), Arc::clone(&peak));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    peak.fetch_max(memory_of_descendants(without), Ordering::Relaxed);
                    thread::sleep(LOOK);
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
            peak,
        }
    }

    /// The largest sum seen, in bytes.
    pub fn peak(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It can't have anything to say but that it is done.
            let _ = thread.join();
        }
        self.peak.load(Ordering::Relaxed)
    }
}

fn memory_of_descendants(without: Option<u32>) -> u64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut sum = 0;
    let mut open = children.get(&std::process::id()).cloned().unwrap_or_default();
    while let Some(pid) = open.pop() {
        if Some(pid) != without {
            sum += memory_of(pid);
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    sum
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    own: u64,
    children: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the program's name in brackets, which may itself hold brackets and spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        children: number(13)? + number(14)?,
    })
}

/// Clock ticks are hundredths of a second on every Linux that runs this.
fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

fn status_kb(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "12 (a) b (c) S 7 12 12 0 -1 4194304 1 2 3 4 50 60 70 80 20 0 1 0 100";
        assert_eq!(
            parse_stat(text),
            Some(Stat {
                parent: 7,
                own: 110,
                children: 150
            })
        );
        assert_eq!(parse_stat("12 (a"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id();
        // The two are read one after the other while other tests run, so they can't be compared.
        assert!(memory_of(pid) > 0 && peak_of(pid) > 0);
    }
}
