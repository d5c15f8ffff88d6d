//! Runs a program that gives credentials: no shell, a time limit, bounded output.

use std::{io, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

/// Most bytes of an answer: tokens have a few KiB.
const MAX_OUTPUT: u64 = 64 * 1024;

/// How a program ended.
pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs `program` with one argument and this input. What it started is killed with it when the time is
/// over, when it says too much, or when nobody waits for it any more.
///
/// # Errors
/// Why there is no output, in words that follow the program's name.
pub(super) async fn run(
    program: &Path,
    argument: &str,
    input: &[u8],
    limit: Duration,
) -> Result<Output, String> {
    let mut child = Command::new(program)
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("could not be run: {error}"))?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let talk = async {
        let write = async move {
            if let Some(mut stdin) = stdin {
                // One that doesn't read its input may still answer.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let ((), stdout, stderr) = tokio::try_join!(write, read(stdout), read(stderr))?;
        Ok::<_, std::io::Error>((child.wait().await?.success(), stdout, stderr))
    };
    match tokio::time::timeout(limit, talk).await {
        Ok(Ok((success, stdout, stderr))) => {
            group.0 = None;
            Ok(Output {
                success,
                stdout,
                stderr,
            })
        }
        Ok(Err(error)) => Err(format!("could not be talked to: {error}")),
        Err(_) => Err(format!("did not end within {} s", limit.as_secs_f64())),
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > MAX_OUTPUT {
        return Err(io::Error::other(format!("it said more than {MAX_OUTPUT} bytes")));
    }
    Ok(bytes)
}

/// The processes of a child that has not been waited for, so that the number is still theirs.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
