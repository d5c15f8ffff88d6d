//! A catalog's content: made once of an image's tree, kept in files, read in parts.

mod read;
mod write;

#[cfg(test)]
pub(crate) use self::read::fixture;
pub use self::{
    read::{Coding, Content, Query, Section},
    write::{WriteError, Written, write},
};
