use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// One of each thing that can be counted.
fn all() -> String {
    let metrics = Metrics::new(1);
    for end in [
        End::Unpacked,
        End::Unchanged,
        End::Cancelled,
        End::Failed(Reason::Network),
    ] {
        metrics.attempt_ended(end, Duration::from_secs(2));
    }
    metrics.moved(7, 9);
    metrics.synced(Duration::from_millis(20));
    metrics.called("Fetch", tonic::Code::Ok, Duration::from_millis(2));
    metrics.encode(&Snapshot {
        images: vec![
            (Phase::Unpacked, Some(Reason::Network)),
            (Phase::Retrying, Some(Reason::Network)),
            (Phase::Retrying, Some(Reason::Network)),
        ],
        running: 3,
        queued: 2,
        space: Some(Space {
            bytes_free: 1,
            bytes_total: 2,
            inodes_free: 3,
            inodes_total: 4,
        }),
        used: Some(5),
        contents: 6,
        watchers: 7,
    })
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
}

#[test]
fn what_happened_is_counted() {
    let text = all();
    for line in [
        r#"puller_images{phase="UNPACKED",reason=""} 1"#,
        r#"puller_images{phase="RETRYING",reason="NETWORK"} 2"#,
        r#"puller_images{phase="FAILED",reason="UNSAFE_LAYER"} 0"#,
        r#"puller_attempts_total{outcome="failed",reason="NETWORK"} 1"#,
        r#"puller_attempts_total{outcome="unpacked",reason=""} 1"#,
        r#"puller_attempt_duration_seconds_bucket{outcome="cancelled",le="3"} 1"#,
        "puller_attempts_running 3",
        "puller_attempts_queued 2",
        "puller_fetched_bytes_total 7",
        "puller_unpacked_bytes_total 9",
        "puller_sync_duration_seconds_count 1",
        "puller_volume_size_bytes 2",
        "puller_volume_free_bytes 1",
        "puller_volume_used_bytes 5",
        "puller_volume_inodes 4",
        "puller_volume_inodes_free 3",
        "puller_contents 6",
        "puller_records_set_aside_total 1",
        "puller_watchers 7",
        r#"puller_grpc_request_duration_seconds_count{method="Fetch",code="Ok"} 1"#,
    ] {
        has(&text, line);
    }
}

#[test]
fn what_is_over_is_no_longer_shown() {
    let metrics = Metrics::new(0);
    let one = Snapshot {
        images: vec![(Phase::Pulling, None)],
        ..Snapshot::default()
    };
    has(
        &metrics.encode(&one),
        r#"puller_images{phase="PULLING",reason=""} 1"#,
    );
    let none = metrics.encode(&Snapshot::default());
    has(&none, r#"puller_images{phase="PULLING",reason=""} 0"#);
}

/// Name, type, help and label names of each metric, as the exposition has them.
fn exposed(text: &str) -> BTreeMap<String, [String; 3]> {
    let mut exposed = BTreeMap::new();
    let of = |kind: &str| {
        let start = format!("# {kind} ");
        text.lines()
            .filter_map(|line| line.strip_prefix(start.as_str())?.split_once(' '))
            .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let helps = of("HELP");
    for (name, kind) in of("TYPE") {
        let labels: BTreeSet<_> = text
            .lines()
            .filter(|line| line.starts_with(&name))
            .filter_map(|line| line.split_once('{')?.1.split_once('}'))
            .flat_map(|(labels, _)| labels.split(','))
            .filter_map(|label| label.split_once('='))
            .map(|(label, _)| label.to_owned())
            .filter(|label| label != "le")
            .collect();
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        let help = helps[&name].trim_end_matches('.').to_owned();
        exposed.insert(name, [kind, labels, help]);
    }
    exposed
}

#[test]
fn the_documentation_has_each_metric_in_its_table() {
    let page = include_str!("../../../docs/operations.md");
    let cells = |row: &str| {
        let cells: Vec<_> = row
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.replace('`', "").trim().to_owned())
            .collect();
        let [name, rest @ ..] = &cells[..] else {
            return None;
        };
        Some((name.clone(), rest.to_vec().try_into().ok()?))
    };
    let documented: BTreeMap<_, [String; 3]> = page
        .lines()
        .filter(|line| line.starts_with("| `puller_"))
        .filter_map(cells)
        .collect();
    assert_eq!(documented, exposed(&all()));
}
