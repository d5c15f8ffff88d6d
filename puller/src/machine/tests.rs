//! To be replaced below.
