//! The command line: what can be typed, and the commands that call a running daemon.
//!
//! `serve` and `pull` are handed out to `main`, which has the daemon and the engine; everything else is
//! [`call`].

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    config::{ServeArgs, value},
    error::{Error, Exit},
};

mod calls;
pub mod connection;
mod escape;
mod fetch;
mod human;
mod output;
pub mod progress;
pub mod pull;
mod table;
mod watch;
mod wish;

pub use self::{
    calls::*, connection::Connection, fetch::FetchArgs, pull::PullArgs, watch::WatchArgs, wish::WishArgs,
};

/// Pulls OCI images in the background and unpacks them on a shared volume.
#[derive(Debug, Parser)]
#[command(name = "puller", version, disable_help_subcommand = true)]
pub struct Cli {
    /// Where the daemon is, for the commands that call it.
    #[command(flatten)]
    pub connection: Connection,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    ///
    /// Each setting has one name: --max-pulls as a flag, PULLER_MAX_PULLS in the environment, max-pulls in the TOML
    /// file that --config names. A flag wins over the environment, that over the file, and that over the default; a
    /// list is taken whole from one place. Optional settings are turned off by `off`, lists are emptied by `none`, and
    /// an empty variable is one that is not set. The program ends with code 64 when a setting is wrong.
    Serve(Box<ServeArgs>),
    /// Pull one image into a directory, without a daemon
    Pull(Box<PullArgs>),
    /// A command that calls the daemon.
    #[command(flatten)]
    Call(Call),
}

/// The commands that call a running daemon.
#[derive(Debug, Subcommand)]
pub enum Call {
    /// Ask the daemon to pull an image in the background
    Fetch(Box<FetchArgs>),
    /// Show the state of one image
    Get(GetArgs),
    /// Show the states of all images
    List(ListArgs),
    /// Show the states, then every change, for ever
    Watch(WatchArgs),
    /// End a claim, so that the image may be removed
    Release(ReleaseArgs),
}

/// The whole command line as clap knows it.
pub fn command() -> clap::Command {
    let command = Cli::command().after_help(Exit::table());
    // `serve` and `pull` call no daemon, so their help does not show how to reach one.
    let hidden: Vec<_> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.clone().hide(true))
        .collect();
    command
        .mut_subcommand("serve", |serve| {
            serve.args(hidden.clone()).mut_args(with_variable)
        })
        .mut_subcommand("pull", |pull| pull.args(hidden.clone()))
}

/// Adds the name of its variable to the help of a setting. clap does not read the variables itself: it
/// could not tell a wrong one from a wrong flag.
fn with_variable(argument: clap::Arg) -> clap::Arg {
    match (argument.get_long(), argument.get_long_help()) {
        (Some(name), Some(help)) if !argument.is_hide_set() => {
            let help = format!("{help} [env: {}]", value::variable(name));
            argument.long_help(help)
        }
        _ => argument,
    }
}

/// Reads the command line of this process. On a wrong one it prints what is wrong and ends the
/// process with [`Exit::Usage`]; `--help` and `--version` end it with success.
pub fn parse() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Runs a command that calls the daemon.
///
/// # Errors
/// The call failed, or with `--wait` the pull did.
pub async fn call(connection: &Connection, call: Call) -> Result<(), Error> {
    let client = connection.client()?;
    match call {
        Call::Fetch(arguments) => fetch::run(&client, *arguments).await,
        Call::Get(arguments) => calls::get(&client, arguments).await,
        Call::List(arguments) => calls::list(&client, arguments).await,
        Call::Watch(arguments) => watch::run(&client, arguments).await,
        Call::Release(arguments) => calls::release(&client, arguments).await,
    }
}

/// The end of `main`: tells the error on stderr and gives the exit code of its class.
#[must_use]
pub fn end(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => Exit::Success.code().into(),
        // Whoever read our output has seen enough, such as `puller list | head -1`.
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Exit::Success.code().into()
        }
        Err(error) => {
            let text = error.to_string();
            for (n, line) in text.lines().enumerate() {
                let start = if n == 0 { "puller: " } else { "  " };
                progress::say(&format!("{start}{}", escape::line(line)));
            }
            error.exit_code().code().into()
        }
    }
}

#[cfg(test)]
mod tests;
