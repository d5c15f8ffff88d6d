//! What was asked of the daemon alone, beside the project's aims.

use std::{fmt::Write as _, time::Duration};

use super::{Made, millis};
use crate::bench::{
    load::{Load, percentiles},
    median,
    restart::Start,
    thousand::IMAGES,
    watchers::FanOut,
};

/// What a section is called: what stood under the same name before is replaced.
pub(super) const LOAD: &str = "Four pulls at a time";
pub(super) const WATCHERS: &str = "From a change to those who watch";
pub(super) const RESTART: &str = "Restart with 1,000 images";

pub(super) fn load(loads: &[Load], made: &Made) -> Option<String> {
    let by = |key: fn(&Load) -> f64| median(loads, key).map(|load| key(&load));
    let calls: usize = loads.iter().map(|load| load.calls).sum();
    let mut text = format!(
        "{}\n\nThe four images that take longest, pulled at the same time into an empty directory; meanwhile one caller \
         over the\nsocket: one Fetch and four Gets, every 2 ms. The median of {} such runs, {calls} Fetches in all.\n\n\
         | | aim | measured |\n|---|---:|---:|\n",
        made.line(),
        loads.len()
    );
    let rows: [(&str, &str, f64, &str); 6] = [
        (
            "Fetch, 99th percentile",
            "under 5 ms",
            by(|load| millis(load.fetch.1))?,
            "ms",
        ),
        (
            "Get, 99th percentile",
            "under 5 ms",
            by(|load| millis(load.get.1))?,
            "ms",
        ),
        ("Fetch, median", "", by(|load| millis(load.fetch.0))?, "ms"),
        ("Get, median", "", by(|load| millis(load.get.0))?, "ms"),
        (
            "resident, idle",
            "15 MiB",
            by(|load| mebibytes(load.idle))?,
            "MiB",
        ),
        (
            "resident, peak of four pulls",
            "64 MiB",
            by(|load| mebibytes(load.peak))?,
            "MiB",
        ),
    ];
    for (what, aim, value, unit) in rows {
        let _ = writeln!(text, "| {what} | {aim} | {value:.1} {unit} |");
    }
    Some(text)
}

pub(super) fn watchers(fan_outs: &[FanOut], made: &Made) -> Option<String> {
    let mut text = format!(
        "{}\n\nWith {IMAGES} Images. A Fetch makes one more; measured from the call until its first event has come to the \
         first\nwatcher and to the last one. Each watches all, over a connection of its own; they share the cores with \
         the puller,\nand decode what they get.\n\n\
         | watchers | changes | first, median | last, median | last, 99th percentile | aim | resident |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
        made.line()
    );
    let most = fan_outs.iter().map(|fan_out| fan_out.watchers).max()?;
    for FanOut {
        watchers,
        changes,
        memory,
    } in fan_outs
    {
        let (first, last): (Vec<Duration>, Vec<Duration>) = changes.iter().copied().unzip();
        let (first, last) = (percentiles(first), percentiles(last));
        let aim = if *watchers == most { "100 ms" } else { "" };
        let _ = writeln!(
            text,
            "| {watchers} | {} | {:.1} ms | {:.1} ms | {:.1} ms | {aim} | {:.0} MiB |",
            changes.len(),
            millis(first.0),
            millis(last.0),
            millis(last.1),
            mebibytes(*memory)
        );
    }
    Some(text)
}

pub(super) fn restart(starts: &[Start], made: &Made) -> Option<String> {
    let ready = median(starts, |start| start.ready)?.ready;
    let whole = median(starts, |start| start.whole)?.whole;
    let slowest = starts.iter().map(|start| start.whole).max()?;
    let memory = median(starts, |start| start.memory)?.memory;
    Some(format!(
        "{}\n\nKilled by SIGKILL and started again on a volume with {IMAGES} trees, page cache warm; from the start of the \
         process.\nThe median of {} starts.\n\n\
         | ready, by gRPC health | List is whole, all unpacked | slowest | resident then |\n|---:|---:|---:|---:|\n\
         | {:.0} ms | {:.0} ms | {:.0} ms | {:.0} MiB |\n",
        made.line(),
        starts.len(),
        millis(ready),
        millis(whole),
        millis(slowest),
        mebibytes(memory)
    ))
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
