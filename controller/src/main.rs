//! `catalog-controller`: orders the start and the end.

fn main() {}
