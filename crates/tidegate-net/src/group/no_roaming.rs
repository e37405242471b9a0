//! Stands in for `roaming.rs` without the feature `roaming`.

/// The settings of a builder for roaming loops: there are none.
#[derive(Debug, Default)]
pub(super) struct RoamingSettings {}
