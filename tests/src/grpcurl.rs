//! The real grpcurl, as an on-call engineer would use it.

use std::{net::SocketAddr, path::Path, process::Stdio};

use serde_json::Value;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdout, Command},
};

use crate::{
    process::{run_to_end, tool, without_hostile_environment},
    wait::within_patience,
};

/// grpcurl, pointed at a server that it learns about by reflection.
#[derive(Debug, Clone)]
pub struct Grpcurl {
    /// The arguments that say where the server is.
    server: Vec<String>,
    address: String,
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcurlError {
    /// The status code's name, such as `InvalidArgument`.
    pub code: String,
    /// The status's message.
    pub message: String,
}

/// A streaming call that is open; grpcurl is killed when this is dropped.
#[derive(Debug)]
pub struct GrpcurlStream {
    /// Kept so that it is killed on drop.
    _child: Child,
    stdout: ChildStdout,
    buffer: Vec<u8>,
}

impl Grpcurl {
    /// Over a Unix socket.
    pub fn unix(socket: &Path) -> Self {
        Self {
            // Not with -unix: version 1.9.3 dials the path as TCP then.
            server: vec!["-plaintext".to_owned()],
            address: format!("unix://{}", socket.display()),
        }
    }

    /// Over plaintext TCP.
    pub fn tcp(address: SocketAddr) -> Self {
        Self {
            server: vec!["-plaintext".to_owned()],
            address: address.to_string(),
        }
    }

    /// Over TCP with mutual TLS, at `host:port`: the authority of the server's certificate, and the
    /// certificate and key to show.
    pub fn tls(address: &str, authority: &Path, (certificate, key): (&Path, &Path)) -> Self {
        let flags = [("-cacert", authority), ("-cert", certificate), ("-key", key)];
        let flags = flags.map(|(flag, file)| [flag.to_owned(), file.display().to_string()]);
        Self {
            server: flags.into_iter().flatten().collect(),
            address: address.to_owned(),
        }
    }

    /// The services of the server.
    pub async fn list(&self) -> Vec<String> {
        self.ask(&["list"]).await.lines().map(str::to_owned).collect()
    }

    /// What a service, method or message looks like, in proto syntax.
    pub async fn describe(&self, symbol: &str) -> String {
        self.ask(&["describe", symbol]).await
    }

    /// A unary call: `call("puller.v1.Puller/Get", json!({"id": id}))`.
    ///
    /// # Errors
    /// The server's status, when it is not OK.
    ///
    /// # Panics
    /// grpcurl can't be started, or does not end within a minute.
    #[allow(clippy::needless_pass_by_value, reason = "a scenario passes json!(…)")]
    pub async fn call(&self, method: &str, request: Value) -> Result<Value, GrpcurlError> {
        let mut command = self.command(&["-d".to_owned(), request.to_string()], &[method]);
        let output = run_to_end(&mut command, &format!("grpcurl {method}")).await;
        if output.status == 0 {
            return Ok(serde_json::from_str(&output.stdout).expect("grpcurl prints JSON"));
        }
        Err(GrpcurlError::parse(&output.stderr))
    }

    /// A streaming call.
    ///
    /// # Panics
    /// grpcurl can't be started.
    #[allow(clippy::needless_pass_by_value, reason = "a scenario passes json!(…)")]
    pub fn stream(&self, method: &str, request: Value) -> GrpcurlStream {
        let mut command = self.command(&["-d".to_owned(), request.to_string()], &[method]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("grpcurl starts");
        let stdout = child.stdout.take().expect("a pipe was asked for");
        GrpcurlStream {
            _child: child,
            stdout,
            buffer: Vec::new(),
        }
    }

    async fn ask(&self, verb: &[&str]) -> String {
        let output = run_to_end(
            &mut self.command(&[], verb),
            &format!("grpcurl {}", verb.join(" ")),
        )
        .await;
        assert_eq!(output.status, 0, "grpcurl {}: {}", verb.join(" "), output.stderr);
        output.stdout
    }

    fn command(&self, flags: &[String], verb: &[&str]) -> Command {
        let mut command = Command::new(tool("grpcurl"));
        command
            .args(&self.server)
            .args(flags)
            .arg(&self.address)
            .args(verb)
            .kill_on_drop(true);
        without_hostile_environment(&mut command);
        command
    }
}

impl GrpcurlStream {
    /// The next message.
    ///
    /// # Panics
    /// None comes within a minute, or the stream ends.
    pub async fn next(&mut self) -> Value {
        within_patience("a message of the stream", async {
            loop {
                if let Some(message) = self.take_message() {
                    return message;
                }
                let read = self
                    .stdout
                    .read_buf(&mut self.buffer)
                    .await
                    .expect("grpcurl's output");
                assert!(
                    read > 0,
                    "the stream ended: {}",
                    String::from_utf8_lossy(&self.buffer)
                );
            }
        })
        .await
    }

    /// All messages up to the first one that is as wanted.
    pub async fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await;
            let done = is_so(&message);
            messages.push(message);
            if done {
                return messages;
            }
        }
    }

    /// Takes a whole message off the buffer: grpcurl prints one JSON document after the other.
    fn take_message(&mut self) -> Option<Value> {
        let mut documents = serde_json::Deserializer::from_slice(&self.buffer).into_iter::<Value>();
        let message = documents.next()?.ok()?;
        let end = documents.byte_offset();
        self.buffer.drain(..end);
        Some(message)
    }
}

impl GrpcurlError {
    /// `ERROR:\n  Code: NotFound\n  Message: …`
    fn parse(stderr: &str) -> Self {
        let field = |name: &str| {
            let line = stderr
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(name));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let (code, message) = (field("Code:"), field("Message:"));
        assert!(!code.is_empty(), "grpcurl failed before the call: {stderr}");
        Self { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_status_of_a_failed_call() {
        let error = GrpcurlError::parse("ERROR:\n  Code: NotFound\n  Message: no such Image: ask Fetch\n");
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("NotFound", "no such Image: ask Fetch")
        );
    }
}
