//! Tasks that are set to a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Task;

use super::aside::Aside;

#[derive(Default)]
pub(super) struct Tasks {
    pub(super) next: u64,
    /// By time, then by number.
    pub(super) due: BTreeMap<(u64, u64), Due>,
}

/// What happens at a time.
pub(super) enum Due {
    /// Something short of this crate.
    Here(Task),
    /// User code of a command.
    Aside(Arc<Aside>, Task),
}

/// A task that was set to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlarmId {
    pub(super) at: u64,
    pub(super) number: u64,
}
