//! The scenarios.
