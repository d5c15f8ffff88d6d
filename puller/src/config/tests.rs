use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use clap::{Args as _, Command, FromArgMatches as _};

use super::{
    value::{Origin, Typed, variable},
    *,
};
use crate::{error::Error, store::Marks};

type Variables<'a> = &'a [(&'a str, &'a str)];

fn flags(arguments: &[&str]) -> ServeArgs {
    let command = ServeArgs::augment_args(Command::new("serve").no_binary_name(true));
    ServeArgs::from_arg_matches(&command.get_matches_from(arguments)).unwrap()
}

fn load(arguments: &[&str], variables: Variables<'_>) -> Result<Settings, String> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let environment = |name: &str| variables.get(name).map(OsString::from);
    Settings::load(flags(arguments), &environment).map_err(|error| match error {
        Error::Config(problems) => problems,
        other => panic!("{other}"),
    })
}

/// A settings file that lives as long as the test.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("puller.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let (_directory, path) =
        file("max-pulls = 7\nlog = \"debug\"\nplain-http = [\"a.b\", \"c.d:5000\"]\nquota = \"1GB\"\n");
    let config = [("PULLER_CONFIG", path.as_str())];
    assert_eq!(load(&[], &[]).unwrap().max_pulls, 4);
    assert_eq!(load(&[], &config).unwrap().max_pulls, 7);
    assert_eq!(
        load(&["--config", &path], &[("PULLER_MAX_PULLS", "8")])
            .unwrap()
            .max_pulls,
        8
    );
    let all = [
        config[0],
        ("PULLER_MAX_PULLS", "8"),
        ("PULLER_PLAIN_HTTP", "e.f, g.h"),
        ("PULLER_QUOTA", "off"),
    ];
    let settings = load(&["--max-pulls", "9", "--plain-http", "i.j"], &all).unwrap();
    assert_eq!(
        (settings.max_pulls, settings.plain_http),
        (9, vec!["i.j".to_owned()])
    );
    assert_eq!((settings.log.as_str(), settings.quota), ("debug", None));
    assert_eq!(load(&[], &all).unwrap().plain_http, ["e.f", "g.h"]);
    assert_eq!(load(&[], &config).unwrap().plain_http, ["a.b", "c.d:5000"]);
    assert_eq!(
        load(&["--plain-http", "none"], &config).unwrap().plain_http,
        [""; 0]
    );
    assert_eq!(load(&[], &config).unwrap().quota, Some(1_000_000_000));
}

#[test]
fn an_empty_variable_is_not_set() {
    assert_eq!(
        load(&[], &[("PULLER_MAX_PULLS", ""), ("PULLER_CONFIG", "")]),
        load(&[], &[])
    );
}

#[test]
fn flags_variables_and_keys_have_one_name() {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let flags: Vec<_> = command
        .get_arguments()
        .map(|flag| flag.get_long().unwrap().to_owned())
        .collect();
    assert_eq!(flags, ServeArgs::names().collect::<Vec<_>>());
    for name in flags {
        // Kubernetes sets PULLER_SERVICE_HOST, PULLER_PORT and their like where a Service is called
        // "puller".
        assert!(
            !name.starts_with("service") && !name.starts_with("port"),
            "{name}"
        );
        if name == "config" {
            continue;
        }
        // A wrong value is found under each of the three names, and the error says which.
        let (_directory, path) = file(&format!("\n{name} = [\"\", \"\"]\n"));
        let wrong = format!("--{name}=");
        let at_flag = load(&[&wrong, &wrong], &[]).unwrap_err();
        assert!(at_flag.starts_with(&format!("--{name}: ")), "{at_flag}");
        let in_file = load(&["--config", &path], &[]).unwrap_err();
        assert!(in_file.starts_with(&format!("{path}:2: {name}: ")), "{in_file}");
        let lookup = |asked: &str| (asked == variable(&name)).then(|| OsString::from("\u{1}"));
        if let Err(error) = Settings::load(ServeArgs::default(), &lookup) {
            let expected = format!("configuration: {}: ", variable(&name));
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
    assert_eq!(variable("max-pulls"), "PULLER_MAX_PULLS");
}

#[test]
fn the_help_of_each_flag_is_complete_and_names_the_true_default() {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let defaults = load(&[], &[]).unwrap();
    for flag in command.get_arguments() {
        let name = flag.get_long().unwrap();
        let help = flag
            .get_long_help()
            .unwrap_or_else(|| panic!("--{name} has no long help"))
            .to_string();
        let (_, rest) = help
            .split_once("[default: ")
            .unwrap_or_else(|| panic!("--{name}: no default: {help}"));
        let default = rest.split(']').next().unwrap();
        if name != "docker-config" {
            // Giving the default changes nothing, so it is the default.
            let given = load(&[&format!("--{name}={default}")], &[]).unwrap();
            assert_eq!(given, defaults, "--{name}: {default} is not its default");
        }
        let value = flag.get_value_names().unwrap()[0].as_str();
        let unit = match value {
            "SIZE" => Some("ize"),
            "TIME" => Some("A duration"),
            "N" => Some("A number."),
            "PERCENT" => Some(" to "),
            _ => None,
        };
        assert!(
            unit.is_none_or(|unit| help.contains(unit)),
            "--{name} does not say its unit: {help}"
        );
    }
}

#[test]
fn everything_wrong_is_told_at_once_with_what_would_be_right() {
    let variables = [("PULLER_IDLE_TIMEOUT", "60"), ("PULLER_LOG", "loud=?")];
    let problems = load(
        &[
            "--max-pulls=0",
            "--listen=localhost:1",
            "--max-image-size=big",
            "--max-depth=257",
        ],
        &variables,
    )
    .unwrap_err();
    let mut lines: Vec<_> = problems.lines().collect();
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    --listen: "localhost:1" is not an IP address with a port, such as 127.0.0.1:50051 or [::]:50051
    --max-depth: "257" is not a whole number from 1 to 256
    --max-image-size: "big" is not a size such as 500MB or 10GiB (units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)
    --max-pulls: "0" is not a whole number from 1 to 1000
    PULLER_IDLE_TIMEOUT: "60" is not a duration such as 90s, 10m or 1h30m
    PULLER_LOG: "loud=?" is neither a level (error, warn, info, debug, trace) nor a filter such as info,puller::registry=debug
    "#);
}

#[test]
fn tcp_beyond_loopback_needs_mutual_tls_or_consent() {
    let refused = load(&["--listen=0.0.0.0:1"], &[]).unwrap_err();
    assert!(refused.contains("insecure-listen"), "{refused}");
    assert!(
        load(&["--listen=127.0.0.1:1"], &[])
            .unwrap()
            .listen
            .unwrap()
            .tls
            .is_none()
    );
    assert!(load(&["--listen=[::1]:1"], &[]).is_ok());
    assert!(load(&["--listen=0.0.0.0:1", "--insecure-listen"], &[]).is_ok());
    assert!(load(&["--listen=0.0.0.0:1", "--insecure-listen=false"], &[]).is_err());
    let tls = [
        "--listen=0.0.0.0:1",
        "--tls-cert=c",
        "--tls-key=k",
        "--tls-client-ca=a",
    ];
    let settings = load(&tls, &[]).unwrap();
    assert_eq!(
        settings.listen.unwrap().tls.unwrap().client_ca.to_str(),
        Some("a")
    );
    let partial = load(&tls[..3], &[]).unwrap_err();
    assert!(
        partial.contains("--tls-cert: tls-cert, tls-key and tls-client-ca are set together"),
        "{partial}"
    );
    let without = load(&tls[1..], &[]).unwrap_err();
    assert!(without.contains("set listen too"), "{without}");
}

#[test]
fn docker_configs_are_those_of_other_tools_that_exist() {
    let home = tempfile::tempdir().unwrap();
    let docker = home.path().join(".docker");
    std::fs::create_dir(&docker).unwrap();
    std::fs::write(docker.join("config.json"), "{}").unwrap();
    let home = home.path().to_str().unwrap();
    let variables = [
        ("HOME", home),
        ("REGISTRY_AUTH_FILE", "/nowhere/auth.json"),
        ("DOCKER_CONFIG", "/nowhere"),
    ];
    assert_eq!(
        load(&[], &variables).unwrap().docker_configs,
        [docker.join("config.json")]
    );
    assert!(
        load(&["--docker-config=none"], &variables)
            .unwrap()
            .docker_configs
            .is_empty()
    );
    let named = load(&["--docker-config=/a,/b", "--docker-config=/c"], &variables).unwrap();
    assert_eq!(named.docker_configs.len(), 3);
}

#[test]
fn credential_providers_are_given_whole() {
    let both = [
        "--credential-provider-config=/c.yaml",
        "--credential-provider-bin-dir=/bin",
    ];
    let files = load(&both, &[]).unwrap().credential_providers.unwrap();
    assert_eq!((files.config, files.bin_dir), ("/c.yaml".into(), "/bin".into()));
    for one in both {
        let error = load(&[one], &[]).unwrap_err();
        assert!(error.contains("set together"), "{error}");
    }
    let off = [both[0], "--credential-provider-bin-dir=off"];
    assert!(load(&off, &[]).is_err());
    assert_eq!(load(&[], &[]).unwrap().credential_providers, None);
}

#[test]
fn private_addresses_are_for_those_named() {
    let some = load(&["--allow-private=a.b,c.d:5000"], &[])
        .unwrap()
        .allow_private;
    assert!(some.allows("c.d:5000") && !some.allows("c.d"));
    assert!(
        load(&["--allow-private=*"], &[])
            .unwrap()
            .allow_private
            .allows("c.d")
    );
    assert!(!load(&[], &[]).unwrap().allow_private.allows("c.d"));
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let missing = load(&["--config=/nowhere/puller.toml"], &[]).unwrap_err();
    assert!(
        missing.starts_with("--config: cannot read /nowhere/puller.toml: "),
        "{missing}"
    );
    let typed = Typed {
        text: "/nowhere".into(),
        origin: Origin::Flag,
    };
    assert_eq!(flags(&["--config", "/nowhere"]).config, [typed]);
    assert_eq!(
        load(&["--grace-period=1h30m"], &[]).unwrap().grace_period,
        Duration::from_secs(5400)
    );
}

#[test]
fn water_marks_are_in_order() {
    let marks = |flags: &[&str]| load(flags, &[]).map(|settings| settings.marks);
    assert_eq!(marks(&[]).unwrap(), None);
    let both = marks(&["--high-water=80", "--low-water=50"]).unwrap();
    assert_eq!(both, Some(Marks { high: 80, low: 50 }));
    let one = marks(&["--high-water=5"]).unwrap();
    assert_eq!(one, Some(Marks { high: 5, low: 0 }));
    let refused = marks(&["--high-water=80", "--low-water=80"]).unwrap_err();
    assert!(refused.contains("below the high water mark, 80"), "{refused}");
    let refused = marks(&["--low-water=80"]).unwrap_err();
    assert!(refused.contains("high-water"), "{refused}");
}
