//! File systems of a few MiB, mounted for one scenario.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A file system with nothing on it, unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// A tmpfs of so many MiB and inodes; `None`, with a line that says so, where nothing may be mounted.
    ///
    /// # Panics
    /// There is no temporary directory.
    pub fn tmpfs(mebibytes: u32, inodes: u32) -> Option<Self> {
        let options = format!("size={mebibytes}m,nr_inodes={inodes}");
        Self::mounted(|root| {
            let mut command = Command::new("mount");
            command
                .args(["-t", "tmpfs", "-o", &options, "puller-test"])
                .arg(root);
            command
        })
    }

    /// An ext4 of so many MiB and inodes in a file; `None`, with a line that says so, where nothing may be
    /// mounted.
    ///
    /// # Panics
    /// The file can't be made, or `mkfs.ext4` (Debian package `e2fsprogs`) fails.
    pub fn ext4(mebibytes: u32, inodes: u32) -> Option<Self> {
        Self::mounted(|root| {
            let image = root.with_file_name("disk.ext4");
            let file = fs::File::create(&image).expect("a file for the disk");
            file.set_len(u64::from(mebibytes) << 20).expect("its length");
            // Nothing is kept for root, so that a daemon that runs as root has no more than others.
            let made = Command::new("mkfs.ext4")
                .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
                .args(["-q", "-F", "-m", "0", "-N", &inodes.to_string()])
                .arg(&image)
                .output()
                .expect("mkfs.ext4 runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let mut command = Command::new("mount");
            command.args(["-o", "loop"]).arg(image).arg(root);
            command
        })
    }

    fn mounted(mount: impl FnOnce(&Path) -> Command) -> Option<Self> {
        let disk = Self {
            directory: TempDir::new().expect("a temporary directory"),
        };
        let root = disk.root();
        fs::create_dir(&root).expect("a mount point");
        let mut command = mount(&root);
        let result = command.output().expect("mount runs");
        if !result.status.success() {
            let words = String::from_utf8_lossy(&result.stderr);
            eprintln!(
                "skipped: nothing can be mounted here ({command:?}: {})",
                words.trim()
            );
            return None;
        }
        Some(disk)
    }

    /// Where it is mounted.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Writes a file that takes so many bytes, for somebody else's use of the disk.
    ///
    /// # Panics
    /// There is no room for it.
    pub fn take(&self, bytes: usize) -> PathBuf {
        let path = self.root().join("taken");
        fs::write(&path, vec![1; bytes]).expect("room for it");
        path
    }

    /// Bytes that are free.
    ///
    /// # Panics
    /// It can't be asked.
    pub fn bytes_free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.root()).expect("it can be asked");
        stat.f_bavail * stat.f_frsize
    }

    /// Inodes that are free.
    ///
    /// # Panics
    /// It can't be asked.
    pub fn inodes_free(&self) -> u64 {
        rustix::fs::statvfs(self.root())
            .expect("it can be asked")
            .f_favail
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once for everybody who looks, and in truth when its last user has gone. It fails where nothing
        // was mounted.
        let _result = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}
