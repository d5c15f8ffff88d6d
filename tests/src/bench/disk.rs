//! Where the contestants unpack: a journaled ext4 of our own, so that the machine's disk does not decide.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;

/// Bytes of the file system; its file is sparse. The largest image is there twice (podman's tar split,
/// containerd's content), with its compressed bytes.
const SIZE: u64 = 12 << 30;

/// After a sync the disk still works on what it has taken; it gets this long to come to rest.
const IDLE: Duration = Duration::from_secs(2);

/// The directory for cold runs; unmounted and removed when dropped.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    image: Option<PathBuf>,
}

impl Disk {
    /// Makes and mounts an ext4 below `directory`; without the right to mount, just a directory there.
    ///
    /// # Errors
    /// The file system can't be made.
    pub fn make(directory: &Path) -> anyhow::Result<Self> {
        let root = directory.join("disk");
        let image = directory.join("disk.ext4");
        fs::create_dir_all(&root)?;
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { root, image: None });
        }
        // What a run that was killed has left mounted.
        unmount(&root);
        fs::File::create(&image)?.set_len(SIZE)?;
        run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_os_str()])?;
        run(
            "mount",
            &[
                "-o".as_ref(),
                "loop".as_ref(),
                image.as_os_str(),
                root.as_os_str(),
            ],
        )?;
        Ok(Self {
            root,
            image: Some(image),
        })
    }

    /// What it is, for the report.
    pub fn description(&self) -> &'static str {
        match self.image {
            Some(_) => "a journaled ext4 on a loop device, made for this run",
            None => "the file system that the project is on (no right to mount one of its own)",
        }
    }

    /// An empty directory on it, after all that was there is gone and the disk has come to rest.
    ///
    /// # Errors
    /// It can't be emptied.
    pub fn cold(&self) -> io::Result<PathBuf> {
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != "lost+found") {
                // Published trees are read-only, and other tools leave odd modes.
                let _ = quietly("chmod", &["-R".as_ref(), "u+rwX".as_ref(), path.as_os_str()]);
                fs::remove_dir_all(&path)?;
            }
        }
        rustix::fs::sync();
        thread::sleep(IDLE);
        let directory = self.root.join("run");
        fs::create_dir(&directory)?;
        Ok(directory)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(image) = &self.image {
            unmount(&self.root);
            let _ = fs::remove_file(image);
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// With what the contestants may have left mounted or running on it, such as podman's storage.
fn unmount(root: &Path) {
    let _ = quietly(
        "umount",
        &["--recursive".as_ref(), "--lazy".as_ref(), root.as_os_str()],
    );
}

fn quietly(program: &str, arguments: &[&std::ffi::OsStr]) -> io::Result<std::process::ExitStatus> {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("start {program}"))?;
    anyhow::ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}
