//! Runs a program that gives credentials: no shell, a time limit, bounded output, nothing left behind.

use std::{io, path::Path, process::Stdio, time::Duration};

use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

/// Most bytes of an answer: tokens have a few KiB.
const MAX_OUTPUT: u64 = 64 * 1024;

/// How long output is read on after the program has ended: only what left its process group can still
/// hold the pipes open, and what the program itself said is in them already.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program and what it gets. It has the daemon's own environment beside `environment`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) path: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a [(String, String)],
}

/// How a program ended.
#[derive(Default)]
pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Program<'_> {
    /// Runs it with this input. What it started is killed when it ends, when the time is over, when it
    /// says too much, or when nobody waits for it any more.
    ///
    /// # Errors
    /// Why there is no output, in words that follow the program's name.
    pub(super) async fn run(self, input: &[u8], limit: Duration) -> Result<Output, String> {
        let child = Command::new(self.path)
            .args(self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("could not be run: {error}"))?;
        match tokio::time::timeout(limit, talk(child, input)).await {
            Ok(talked) => talked.map_err(|error| format!("could not be talked to: {error}")),
            Err(_) => Err(format!("did not end within {} s", limit.as_secs_f64())),
        }
    }
}

async fn talk(mut child: Child, input: &[u8]) -> io::Result<Output> {
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)));
    let leader = group.0.ok_or_else(|| io::Error::other("it has no number"))?;
    let mut ended = tokio::task::spawn_blocking(move || wait_unreaped(leader));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut output = Output::default();
    let mut talking = Box::pin(async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that doesn't read its input may still answer.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let (out, err) = (&mut output.stdout, &mut output.stderr);
        tokio::try_join!(write, read(stdout, out), read(stderr, err)).map(drop)
    });
    tokio::select! {
        talked = &mut talking => {
            talked?;
            ended.await??;
            group.kill();
        }
        ended = &mut ended => {
            ended??;
            // Also what still holds the pipes open.
            group.kill();
            if let Ok(talked) = tokio::time::timeout(LAST_WORDS, &mut talking).await {
                talked?;
            }
        }
    }
    drop(talking);
    output.success = child.wait().await?.success();
    Ok(output)
}

/// Waits until a child has ended, and leaves it unreaped: its number stays its own, and its group's, which
/// can then be killed without hitting anybody else. It blocks.
fn wait_unreaped(child: Pid) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(child), options))?;
    Ok(())
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> io::Result<()> {
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT + 1).read_to_end(bytes).await?;
    }
    if bytes.len() as u64 > MAX_OUTPUT {
        return Err(io::Error::other(format!("it said more than {MAX_OUTPUT} bytes")));
    }
    Ok(())
}

/// The processes of a child that has not been waited for, so that the number is still theirs.
struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
