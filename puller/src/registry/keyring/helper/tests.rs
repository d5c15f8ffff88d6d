use std::{fs, path::Path};

use super::*;
use crate::{
    domain::Scope,
    registry::{
        Keyring,
        keyring::tests::{executable, login},
    },
};

/// A helper named `test` that is this shell script.
fn helper(script: &str) -> (tempfile::TempDir, Helpers) {
    let directory = tempfile::tempdir().unwrap();
    executable(&directory.path().join("docker-credential-test"), script);
    let helpers = Helpers {
        directory: directory.path().to_owned(),
        ..Helpers::default()
    };
    (directory, helpers)
}

/// Asks; another test's fork may hold the fresh script open for writing, which ends soon.
async fn ask(helpers: &Helpers, registry: &str) -> Result<Option<Credential>, String> {
    loop {
        match helpers.credential("test", registry).await {
            Err(problem) if problem.contains("Text file busy") => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

#[tokio::test]
async fn gets_what_it_says_for_the_servers_name() {
    let (_directory, helpers) =
        helper(r#"read -r server || :; echo "{\"Username\":\"$1\",\"Secret\":\"$server\"}""#);
    assert_eq!(
        ask(&helpers, "x.io:5000").await,
        Ok(Some(login("get", "x.io:5000")))
    );
    assert_eq!(
        ask(&helpers, "docker.io").await,
        Ok(Some(login("get", "https://index.docker.io/v1/")))
    );
}

#[tokio::test]
async fn a_token_user_has_an_identity_token() {
    let (_directory, helpers) = helper(r#"echo '{"Username":"<token>","Secret":"t"}'"#);
    let identity = Credential::Identity(crate::domain::Secret::new("t".into()));
    assert_eq!(ask(&helpers, "x.io").await, Ok(Some(identity)));
}

#[tokio::test]
async fn not_found_is_no_failure() {
    let (_directory, helpers) = helper("echo credentials not found in native keychain; exit 1");
    assert_eq!(ask(&helpers, "x.io").await, Ok(None));
}

#[tokio::test]
async fn failures_are_told_without_the_secret() {
    for (script, told) in [
        ("echo '{\"Secret\":hunter2'", "no usable credential"),
        ("echo '{\"Secret\":\"hunter2\"}'; exit 1", "(not shown)"),
        ("echo expired login; exit 1", "expired login"),
        ("echo no network >&2; exit 3", "no network"),
        ("head -c 100000 /dev/zero", "more than 65536 bytes"),
    ] {
        let (_directory, helpers) = helper(script);
        let problem = ask(&helpers, "x.io").await.unwrap_err();
        assert!(problem.contains(told), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[tokio::test]
async fn one_that_hangs_is_killed() {
    let (directory, mut helpers) = helper("echo $$ > \"$(dirname \"$0\")/pid\"; sleep 600");
    helpers.time_limit = Duration::from_secs(1);
    let problem = ask(&helpers, "x.io").await.unwrap_err();
    assert!(problem.contains("did not end within 1 s"), "{problem}");
    is_gone(&directory.path().join("pid")).await;
}

#[tokio::test]
async fn a_name_that_is_a_path_is_not_run() {
    for name in ["", "../evil", "a b", "a;b", "a/b"] {
        let problem = Helpers::default().ask(name, "x.io").await.unwrap_err();
        assert!(problem.contains("is not run"), "{problem}");
    }
}

/// Gone once it is reaped, which whoever it is left to does by and by.
async fn is_gone(pid_file: &Path) {
    let pid = fs::read_to_string(pid_file).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let state = format!("/proc/{}/stat", pid.as_raw_nonzero());
    // A process that nobody reaps is dead all the same.
    while fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_a_success_leaves_running_is_killed() {
    // One that holds the pipes open, and one that does not.
    for background in ["sleep 600 &", "sleep 600 <&- >&- 2>&- &"] {
        let script = format!(
            r#"{background} echo $! > "$(dirname "$0")/pid"; echo '{{"Username":"u","Secret":"p"}}'"#
        );
        let (directory, helpers) = helper(&script);
        assert_eq!(ask(&helpers, "x.io").await, Ok(Some(login("u", "p"))));
        is_gone(&directory.path().join("pid")).await;
    }
}

#[tokio::test]
async fn what_has_left_the_group_does_not_make_a_success_fail() {
    let (directory, helpers) =
        helper(r#"setsid sleep 600 & echo $! > "$(dirname "$0")/pid"; echo '{"Username":"u","Secret":"p"}'"#);
    assert_eq!(ask(&helpers, "x.io").await, Ok(Some(login("u", "p"))));
    let pid = fs::read_to_string(directory.path().join("pid")).unwrap();
    if let Some(pid) = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Each run leaves a line in `runs`.
const COUNTING: &str = r#"echo run >> "$(dirname "$0")/runs"; echo '{"Username":"u","Secret":"p"}'"#;

#[tokio::test]
async fn only_the_daemons_own_files_name_helpers() {
    let (directory, helpers) = helper(COUNTING);
    assert!(ask(&helpers, "warm.io").await.is_ok());
    fs::remove_file(directory.path().join("runs")).unwrap();
    let file = directory.path().join("config.json");
    let config = r#"{"credHelpers":{"x.io":"test"},"credsStore":"test","auths":{"x.io":{}}}"#;
    fs::write(&file, config).unwrap();
    let mut keyring = Keyring::new([file]);
    keyring.helpers = helpers;
    let team = Scope("team".into());
    keyring.set(&team, config.as_bytes()).unwrap();

    let found = keyring.lookup(&team, "x.io", "a").await.unwrap();
    assert_eq!(found.credentials, []);
    assert!(!directory.path().join("runs").exists());

    let found = keyring.lookup(&Scope::default(), "x.io", "a").await.unwrap();
    assert_eq!(found.credentials, [login("u", "p")]);
}
