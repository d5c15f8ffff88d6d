//! `puller pull`: the same engine as the daemon's, for one image, in one process.
//!
//! The daemon runs on a volume of its own beside the target, so that the tree gets there by a rename:
//! the target has all of it or is as it was.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{
    cli::pull::{PullArgs, follow},
    config::{ServeArgs, Settings},
    daemon::Daemon,
    domain::{Platform, Scope, UnpackOptions, Wish},
    error::{Error, Fault},
    grpc::respond,
    hub::{Event, Filter},
    machine::ClaimRequest,
    serve,
};

/// The owner's permission to change a directory, which published trees lack and whoever gets one into a
/// directory of his own wants, if only to remove it.
const OWNER_WRITES: u32 = 0o200;

/// Pulls one image into a directory.
///
/// # Errors
/// The last fault of the pull, or what is wrong with the target; the target is as it was.
pub async fn pull(arguments: &PullArgs) -> Result<(), Error> {
    let target = Target::check(&arguments.to, arguments.replace)?;
    let scratch = Scratch::beside(&target.path)?;
    let settings = settings(arguments, &scratch.path)?;
    let daemon = serve::open(&settings)?;
    let wish = Wish {
        asked: arguments.image.clone(),
        reference: arguments.reference(daemon.routes())?,
        platform: arguments
            .platform
            .clone()
            .unwrap_or_else(Platform::of_this_machine),
        selection: arguments.selection()?,
        unpack: UnpackOptions {
            refuse_escaping_links: arguments.refuse_escaping_links,
        },
        scope: Scope::default(),
    };
    let working = tokio::spawn({
        let daemon = Arc::clone(&daemon);
        async move { daemon.run().await }
    });
    let ended = tokio::select! {
        ended = one(&daemon, wish, arguments) => ended,
        _ = tokio::signal::ctrl_c() => Err(Error::Io(io::Error::new(io::ErrorKind::Interrupted, "interrupted"))),
    };
    daemon.stop();
    if let Err(panic) = working.await {
        tracing::error!(%panic, "the engine has died");
    }
    target.take(&settings.volume.join(ended?))
}

/// The daemon's defaults, and what was asked for. The daemon's own variables are not meant for this.
fn settings(arguments: &PullArgs, volume: &Path) -> Result<Settings, Error> {
    let mut settings = Settings::load(ServeArgs::default(), &|_| None)?;
    volume.clone_into(&mut settings.volume);
    settings.registries_conf.clone_from(&arguments.registries_conf);
    settings.plain_http.clone_from(&arguments.plain_http);
    settings.ca_files.clone_from(&arguments.ca_file);
    settings.allow_private = arguments.private();
    settings.policy.clone_from(&arguments.policy);
    settings.idle_timeout = arguments.idle_timeout;
    settings.connect_timeout = arguments.connect_timeout;
    // The disk is the user's own, who knows best how full it may be.
    settings.reserve_percent = 0;
    settings.docker_configs = arguments.docker_configs();
    Ok(settings)
}

/// Fetches and waits; the content's path on the volume.
async fn one(daemon: &Arc<Daemon>, wish: Wish, arguments: &PullArgs) -> Result<String, Error> {
    let claim = ClaimRequest {
        claimant: "pull".into(),
        ..ClaimRequest::default()
    };
    let mut watcher = daemon
        .watch(None, Filter::default())
        .map_err(|error| Error::Config(error.to_string()))?;
    daemon
        .fetch(wish, claim, None)
        .map_err(|error| Error::Config(error.to_string()))?;
    let states = futures_util::stream::unfold(&mut watcher, |watcher| async {
        loop {
            if let Event::Put(image, version) = watcher.next().await {
                return Some((respond::image(&image, version), watcher));
            }
        }
    });
    let image = follow(states, Some(arguments.attempts)).await?;
    Ok(image.content.unwrap_or_default().path)
}

/// The directory that gets the tree.
struct Target {
    path: PathBuf,
    replace: bool,
}

impl Target {
    fn check(path: &Path, replace: bool) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Config(format!("--to {}: {problem}", path.display()));
        match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(true) if !replace => Err(wrong(
                "it is not empty; choose another directory, or give --replace",
            )),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(wrong("it is no directory")),
            Err(error) => Err(wrong(&error.to_string())),
        }?;
        if path.file_name().is_none() {
            return Err(wrong(
                "the tree gets there by a rename, so it must have a name of its own",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            replace,
        })
    }

    /// Puts the tree there, in one step.
    fn take(&self, tree: &Path) -> Result<(), Error> {
        make_changeable(tree)?;
        if self.replace && self.path.exists() {
            // What was there goes with the scratch volume.
            make_changeable(&self.path)?;
            renameat_with(CWD, tree, CWD, &self.path, RenameFlags::EXCHANGE).map_err(io::Error::from)
        } else {
            fs::rename(tree, &self.path)
        }
        .map_err(|error| {
            Error::Pull(Fault::volume(
                format!("put the tree at {}", self.path.display()),
                &error,
            ))
        })
    }
}

/// Lets the owner change and remove all directories of a tree. Links are not followed.
fn make_changeable(directory: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(directory)?.permissions().mode();
    fs::set_permissions(directory, fs::Permissions::from_mode(mode | OWNER_WRITES))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_changeable(&entry.path())?;
        }
    }
    Ok(())
}

/// A volume for one pull, removed with all that is on it.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn beside(target: &Path) -> Result<Self, Error> {
        let parent = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        let path = parent.join(format!(".puller-{}", std::process::id()));
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = make_changeable(&self.path).and_then(|()| fs::remove_dir_all(&self.path));
        if let Err(error) = removed.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }) {
            tracing::warn!(path = %self.path.display(), %error, "what the pull has left behind could not be removed");
        }
    }
}
