//! A catalog's content: made once of an image's tree, kept in files, read in parts.

mod read;
mod write;

pub use self::{
    read::{Coding, Content},
    write::{WriteError, Written, write},
};
