//! The only place that owns the volume.
