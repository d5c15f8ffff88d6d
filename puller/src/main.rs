//! The puller daemon and its command line.
fn main() {}
