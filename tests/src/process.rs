//! Child processes: none outlives its scenario, and what they say is there when it is needed.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::Instant,
};

use crate::{
    puller::CliOutput,
    wait::{PATIENCE, within_patience},
};

/// Environment that would change what a child does; scenarios set what they need by flags.
const HOSTILE_ENVIRONMENT: [&str; 9] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "DOCKER_CONFIG",
    "REGISTRY_AUTH_FILE",
    "SSL_CERT_FILE",
];

/// A running program that is killed when this is dropped, and whose last words are shown when the
/// scenario panics.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

/// How much of a log is shown when a scenario fails.
const LAST_LINES: usize = 60;
/// How often a server that starts is asked whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(20);

impl Process {
    /// Starts a program; both its outputs are appended to the log file.
    pub(crate) fn start(command: &mut Command, name: &str, log: &Path) -> anyhow::Result<Self> {
        let output = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log: log.to_owned(),
        })
    }

    /// Starts a server that listens on a port which was free a moment ago, and waits until it is ready; `None`:
    /// somebody has taken the port.
    pub(crate) async fn start_server<F: Future<Output = bool>>(
        command: &mut Command,
        name: &str,
        log: &Path,
        is_ready: impl Fn() -> F,
    ) -> anyhow::Result<Option<Self>> {
        let mut process = Self::start(command, name, log)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // An answer alone is not enough: it may come from whoever has the port.
            let ready = is_ready().await;
            if let Some(status) = process.ended() {
                let words = process.last_words();
                anyhow::ensure!(
                    words.contains("address already in use"),
                    "{name}: {status}: {words}"
                );
                return Ok(None);
            }
            if ready {
                return Ok(Some(process));
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{name} does not get ready: {}",
                process.last_words()
            );
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// The process's id; none after it was waited for.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// SIGKILL, and waits for the end.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// SIGTERM.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal; nothing happens if it ended and was waited for.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            kill_process(pid, signal).expect("a child can be signalled");
        }
    }

    /// Waits until it ends, by itself or because it was asked to.
    ///
    /// # Panics
    /// It does not within the patience of the tests.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        within_patience(&what, self.child.wait())
            .await
            .expect("a child can be waited for")
    }

    /// All it wrote so far.
    pub(crate) fn output(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines it wrote.
    pub(crate) fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the last words of {}:\n{}\n---", self.name, self.last_words());
        }
    }
}

pub(crate) fn without_hostile_environment(command: &mut Command) -> &mut Command {
    for variable in HOSTILE_ENVIRONMENT {
        command.env_remove(variable);
    }
    command
}

/// An address on loopback whose port was free a moment ago. Another process may take it meanwhile, so
/// whoever starts a server on it tries again with another one.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The command line of a program that the kernel kills when the thread that starts it ends, so that not even a
/// killed test binary leaves one behind.
pub(crate) fn dies_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    without_hostile_environment(&mut command);
    command
}

/// The binary of this name that cargo built beside the running one.
pub(crate) fn built_binary(name: &str) -> anyhow::Result<PathBuf> {
    // A program of ours is target/PROFILE/name, a test is target/PROFILE/deps/name-hash.
    let own = env::current_exe().context("the running program's path")?;
    let mut candidates = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file()).with_context(|| {
        format!(
            "no binary {name} beside {}; run `cargo build -p {name}` first",
            own.display()
        )
    })
}

/// A program in `target/tools/bin`, where `make tools` puts what it builds, else whatever the PATH has.
pub(crate) fn tool(name: &str) -> OsString {
    let own = env::current_exe().expect("Linux tells the running program's path");
    own.ancestors()
        .map(|directory| directory.join("tools/bin").join(name))
        .find(|path| path.is_file())
        .map_or_else(|| name.into(), Into::into)
}

/// Runs a program to its end, whatever that is.
///
/// # Panics
/// It can't be started, does not end within a minute, or is killed by a signal.
pub(crate) async fn run_to_end(command: &mut Command, what: &str) -> CliOutput {
    run_reading(command, std::process::Stdio::null(), what).await
}

/// Runs a program that reads its input to its end, whatever that is.
///
/// # Panics
/// As [`run_to_end`].
pub(crate) async fn run_reading(
    command: &mut Command,
    input: impl Into<std::process::Stdio>,
    what: &str,
) -> CliOutput {
    let running = command.stdin(input).kill_on_drop(true).output();
    let output = within_patience(&format!("the end of {what}"), running)
        .await
        .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
    CliOutput {
        status: output
            .status
            .code()
            .unwrap_or_else(|| panic!("{what} ended by a signal: {}", output.status)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Longest that a tool of others may work: umoci needs 15 s for 10,000 files on an idle machine.
const TOOL_PATIENCE: Duration = Duration::from_secs(300);

/// Runs a program that is to succeed.
///
/// # Errors
/// It can't be started (the message says how to get it), fails (the message has its words), or takes too
/// long.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let running = without_hostile_environment(Command::new(program).args(arguments))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TOOL_PATIENCE, running)
        .await
        .with_context(|| format!("{program} {} ran for {TOOL_PATIENCE:?}", arguments.join(" ")))?
        .with_context(|| format!("cannot start {program}; `make tools` installs what the scenarios need"))?;
    anyhow::ensure!(
        output.status.success(),
        "{program} {}: {}: {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
