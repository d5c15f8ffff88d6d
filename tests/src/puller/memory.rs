//! What the kernel says of the puller's memory.

use std::fs;

use super::Puller;

impl Puller {
    /// Bytes of memory that the process has now (its resident set).
    ///
    /// # Panics
    /// It does not run.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most bytes of memory that the process has had since it was started.
    ///
    /// # Panics
    /// It does not run.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the puller runs");
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = value
            .expect("Linux tells it")
            .trim()
            .trim_end_matches("kB")
            .trim();
        kibibytes.parse::<u64>().expect("a number of kB") << 10
    }
}
