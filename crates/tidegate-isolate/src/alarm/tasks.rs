//! Tasks that are set to a time.

use std::sync::Arc;

use tidegate_core::Task;
use tidegate_timer::Heap;

use super::aside::Aside;

/// By time, then by the order in which they were set.
pub(super) type Tasks = Heap<Due>;

/// What happens at a time.
pub(super) enum Due {
    /// Something short of this crate.
    Here(Task),
    /// User code of a command.
    Aside(Arc<Aside>, Task),
}

/// A task that was set to a time; without a key if the timer was closed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlarmId(pub(super) Option<tidegate_timer::Key>);
