mod daemon;

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration, time::SystemTime};

use puller_client::api::{self, Phase};

use super::{
    output::{json, json_line, yaml},
    pull::{outcome, reason},
    *,
};
use crate::{domain::Reason, registry::Routes};

/// A moment on which all rows are looked at.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn ago(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: 1_800_000_000 - seconds,
        nanos: 0,
    })
}

fn image(id: &str, phase: Phase) -> api::Image {
    api::Image {
        id: id.into(),
        version: "1.7".into(),
        normalized_reference: format!("quay.io/a/{id}:v1"),
        phase: phase.into(),
        message: "the layers are coming".into(),
        attempt: 1,
        created: ago(125),
        ..Default::default()
    }
}

fn pulling() -> api::Image {
    let progress = api::Progress {
        layers_done: 2,
        layers_total: Some(5),
        bytes_done: 120_000_000,
        bytes_total: Some(300_000_000),
        waiting_for: "an answer from quay.io".into(),
        ..Default::default()
    };
    api::Image {
        progress: Some(progress),
        ..image("pulling", Phase::Pulling)
    }
}

fn unpacked() -> api::Image {
    let content = api::Content {
        path: "content/sha256-abc".into(),
        size: 603_000_000,
        files: 32_700,
        published: ago(5),
        sync: Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
        ..Default::default()
    };
    api::Image {
        content: Some(content),
        message: "published".into(),
        ..image("unpacked", Phase::Unpacked)
    }
}

fn failing(phase: Phase, reason: api::Reason) -> api::Image {
    let error = api::AttemptError {
        reason: reason.into(),
        message: "GET https://quay.io/v2/: answered 401\u{1b}[2J".into(),
        time: ago(3),
        attempt: 3,
    };
    let next_retry = (phase == Phase::Retrying).then(|| ago(-7).unwrap());
    api::Image {
        attempt: 3,
        last_error: Some(error),
        next_retry,
        ..image("failing", phase)
    }
}

#[test]
fn clap_finds_no_fault_in_the_command_line() {
    command().debug_assert();
}

#[test]
fn the_help_has_the_exit_codes_and_serve_does_not_offer_a_connection() {
    let help = command().render_long_help().to_string();
    assert!(help.contains(&Exit::table()), "{help}");
    for name in ["serve", "pull"] {
        let mut command = command();
        command.build();
        let help = command
            .find_subcommand_mut(name)
            .unwrap()
            .render_long_help()
            .to_string();
        assert!(!help.contains("--endpoint"), "{name}: {help}");
    }
    let mut command = command();
    command.build();
    let list = command
        .find_subcommand_mut("list")
        .unwrap()
        .render_long_help()
        .to_string();
    assert!(
        list.contains("--endpoint <URI>") && list.contains("unix:///run/puller/puller.sock"),
        "{list}"
    );
}

#[test]
fn the_endpoint_is_understood_before_and_after_the_command() {
    for line in [
        ["puller", "--endpoint", "/a", "list"],
        ["puller", "list", "--endpoint", "/a"],
    ] {
        let matches = command().try_get_matches_from(line).unwrap();
        assert_eq!(Cli::from_arg_matches(&matches).unwrap().connection.endpoint, "/a");
    }
    let serve = command()
        .try_get_matches_from(["puller", "serve", "--max-pulls", "7", "--tls-cert", "x"])
        .unwrap();
    let Command::Serve(arguments) = Cli::from_arg_matches(&serve).unwrap().command else {
        panic!("serve is another command")
    };
    assert_eq!(arguments.max_pulls[0].text, "7");
}

#[test]
fn images_as_a_table() {
    let images = [
        pulling(),
        unpacked(),
        failing(Phase::Retrying, api::Reason::Unauthorized),
        image("new", Phase::Initiated),
    ];
    insta::assert_snapshot!(table::table(&images, now()), @r#"
    ID         REFERENCE               PHASE       PROGRESS         ATTEMPT   AGE   MESSAGE
    pulling    quay.io/a/pulling:v1    Pulling     120/300 MB 40%   1         2m    the layers are coming
    unpacked   quay.io/a/unpacked:v1   Unpacked    603 MB           1         2m    published
    failing    quay.io/a/failing:v1    Retrying    -                3         2m    next attempt in 7s; unauthorized: GET https://quay.io/v2/: answered 401\u{1b}[2J
    new        quay.io/a/new:v1        Initiated   -                1         2m    the layers are coming
    "#);
}

#[test]
fn rows_that_come_one_by_one_stand_below_their_head() {
    let lines = [
        table::head(),
        table::line(&unpacked(), now()),
        table::gone("0123456789abcdef0123"),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ID                     REFERENCE                                  PHASE       PROGRESS             ATTEMPT   AGE    MESSAGE
    unpacked               quay.io/a/unpacked:v1                      Unpacked    603 MB               1         2m     published
    0123456789abcdef0123   -                                          Deleted     -                    -         -
    "#);
}

#[test]
fn json_is_the_proto3_mapping_as_grpcurl_prints_it() {
    insta::assert_snapshot!(json(&unpacked()).unwrap(), @r#"
    {
      "id": "unpacked",
      "version": "1.7",
      "normalizedReference": "quay.io/a/unpacked:v1",
      "phase": "UNPACKED",
      "message": "published",
      "content": {
        "path": "content/sha256-abc",
        "size": "603000000",
        "files": "32700",
        "published": "2027-01-15T07:59:55Z",
        "sync": "1.500s"
      },
      "attempt": 1,
      "created": "2027-01-15T07:57:55Z"
    }
    "#);
    let event = api::WatchEvent {
        event: Some(api::watch_event::Event::Put(image("a", Phase::Initiated))),
    };
    insta::assert_snapshot!(json_line(&event).unwrap(), @r#"{"put":{"id":"a","version":"1.7","normalizedReference":"quay.io/a/a:v1","phase":"INITIATED","message":"the layers are coming","attempt":1,"created":"2027-01-15T07:57:55Z"}}"#);
    let list = api::ListResponse {
        images: vec![image("a", Phase::Initiated)],
        version: "1.8".into(),
    };
    insta::assert_snapshot!(yaml(&list).unwrap(), @r#"
    images:
    - id: a
      version: "1.7"
      normalizedReference: quay.io/a/a:v1
      phase: INITIATED
      message: the layers are coming
      attempt: 1
      created: "2027-01-15T07:57:55Z"
    version: "1.8"
    "#);
}

#[test]
fn hostile_text_reaches_no_terminal() {
    for message in [
        "\u{1b}[2J",
        "\u{9b}31m",
        "a\u{202e}b",
        "zero\u{200b}width",
        "two\nlines",
        "\u{7f}",
    ] {
        let mut hostile = failing(Phase::Failed, api::Reason::NotFound);
        hostile.normalized_reference = message.into();
        hostile.id = message.into();
        hostile.message = message.into();
        hostile.last_error.as_mut().unwrap().message = message.into();
        for text in [
            table::table([&hostile], now()),
            table::line(&hostile, now()),
            table::gone(message),
            json(&hostile).unwrap(),
            json_line(&hostile).unwrap(),
            yaml(&hostile).unwrap(),
        ] {
            assert!(escape::is_safe_layout(&text), "{message:?} in {text:?}");
        }
        assert_eq!(table::table([&hostile], now()).lines().count(), 2);
        let read: serde_json::Value = serde_json::from_str(&json(&hostile).unwrap()).unwrap();
        assert_eq!(read["message"], message);
    }
}

#[test]
fn whoever_waits_ends_when_the_pull_is_over() {
    let attempts = NonZeroU32::new(3);
    assert_eq!(outcome(&unpacked(), attempts), Some(Ok(())));
    assert_eq!(outcome(&pulling(), attempts), None);
    let over = |image: &api::Image, attempts| outcome(image, attempts).map(|end| end.unwrap_err().reason);
    let failed = failing(Phase::Failed, api::Reason::UnsafeLayer);
    assert_eq!(over(&failed, None), Some(Reason::UnsafeLayer));

    let retrying = failing(Phase::Retrying, api::Reason::Unauthorized);
    assert_eq!(over(&retrying, None), None);
    assert_eq!(over(&retrying, NonZeroU32::new(4)), None);
    assert_eq!(over(&retrying, attempts), Some(Reason::Unauthorized));
    // The third attempt still runs.
    let running = api::Image {
        next_retry: None,
        ..retrying
    };
    assert_eq!(over(&running, attempts), None);
}

#[tokio::test]
async fn a_pull_is_followed_to_its_end() {
    let states = futures_util::stream::iter([pulling(), unpacked(), pulling()]);
    assert_eq!(pull::follow(states, None).await.unwrap(), unpacked());
    let failed = futures_util::stream::iter([failing(Phase::Failed, api::Reason::MalformedLayer)]);
    let error = pull::follow(failed, None).await.unwrap_err();
    assert_eq!(error.exit_code(), Exit::Unsupported);
    assert!(error.to_string().contains("answered 401"), "{error}");
    let cut = pull::follow(futures_util::stream::iter([pulling()]), None)
        .await
        .unwrap_err();
    assert_eq!(cut.exit_code(), Exit::Internal);
}

#[test]
fn every_reason_of_the_api_has_its_domain_reason() {
    let codes = 0..=api::Reason::BlockedByPolicy as i32;
    let known: Vec<_> = codes
        .filter_map(|code| reason(api::Reason::try_from(code).ok()?))
        .collect();
    assert_eq!(known, Reason::ALL);
    let words: BTreeSet<_> = known.into_iter().map(Reason::words).collect();
    assert_eq!(words.len(), Reason::ALL.len());
}

#[test]
fn the_program_ends_with_the_class_of_its_error_and_quietly_on_a_broken_pipe() {
    // `ExitCode` can't be compared, but printed.
    let ends = |result, exit: Exit| {
        assert_eq!(
            format!("{:?}", end(result)),
            format!("{:?}", ExitCode::from(exit.code()))
        );
    };
    ends(Ok(()), Exit::Success);
    ends(
        Err(Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        Exit::Success,
    );
    ends(Err(Error::Io(std::io::ErrorKind::Other.into())), Exit::Internal);
    ends(
        Err(Error::Config("--max-pulls: no\n--volume: no".into())),
        Exit::Config,
    );
}

#[test]
fn each_setting_names_its_variable_in_the_help() {
    let mut command = command();
    command.build();
    let serve = command.find_subcommand("serve").unwrap();
    for name in ServeArgs::names() {
        let flag = serve
            .get_arguments()
            .find(|flag| flag.get_long() == Some(&name))
            .unwrap();
        let help = flag.get_long_help().unwrap().to_string();
        assert!(
            help.ends_with(&format!("[env: {}]", value::variable(&name))),
            "{help}"
        );
    }
}

#[test]
fn what_pull_is_given_is_checked() {
    let parse = |more: &[&str]| -> Result<PullArgs, String> {
        let line = ["puller", "pull", "quay.io/a/b:v1", "--to", "d"]
            .into_iter()
            .chain(more.iter().copied());
        let matches = command()
            .try_get_matches_from(line)
            .map_err(|error| error.to_string())?;
        match Cli::from_arg_matches(&matches).unwrap().command {
            Command::Pull(arguments) => Ok(*arguments),
            other => panic!("{other:?} is another command"),
        }
    };
    let plain = parse(&[]).unwrap();
    assert_eq!(
        (plain.attempts.get(), plain.idle_timeout),
        (5, Duration::from_secs(60))
    );
    assert_eq!(plain.reference(&Routes::default()).unwrap().repository, "a/b");
    assert!(
        plain
            .selection()
            .is_ok_and(|selection| selection == crate::domain::Selection::All)
    );
    let some = parse(&[
        "--allow-private=*",
        "--docker-config=none",
        "--path=a/../b",
        "--plain-http=a.b",
    ])
    .unwrap();
    assert!(some.private().allows("any.example.com") && some.docker_configs().is_empty());
    assert!(some.selection().unwrap_err().to_string().contains("--path"));
    assert!(parse(&["--attempts=0"]).is_err());
    assert!(parse(&["--idle-timeout=60"]).unwrap_err().contains("1h30m"));
    let wrong = PullArgs {
        image: "nginx".into(),
        ..plain
    };
    assert_eq!(
        wrong.reference(&Routes::default()).unwrap_err().exit_code(),
        Exit::Invalid
    );
}
