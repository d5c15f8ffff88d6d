//! What the machine wants done.

use crate::{
    domain::{ImageId, Wish},
    machine::Image,
};

/// Numbers jobs, so that what a cancelled job still reports is not taken for its successor's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNo(u64);

impl JobNo {
    pub(super) fn advance(&mut self) -> Self {
        self.0 += 1;
        *self
    }
}

/// One attempt to bring an Image up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub no: JobNo,
    /// The Image.
    pub id: ImageId,
    /// What is wanted.
    pub wish: Wish,
    /// It looks whether what is unpacked is current still, and pulls only if that is not so.
    pub check: bool,
}

/// Something for the daemon to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Begin a job; it reports by the machine's job inputs.
    Start(Box<Job>),
    /// Stop a job and keep its bytes. What it reports from now on is ignored.
    Cancel {
        /// The job.
        job: JobNo,
    },
    /// Tell the watchers.
    Tell {
        /// The whole state.
        image: Box<Image>,
        /// It has entered another phase: no watcher that keeps up may miss it.
        phase: bool,
    },
    /// Write the Image's record.
    Save {
        /// Which.
        id: ImageId,
    },
    /// The Image is gone: tell the watchers, remove the record.
    Delete {
        /// Which.
        id: ImageId,
    },
    /// Some content or layers may be needed no longer.
    Collect,
}
