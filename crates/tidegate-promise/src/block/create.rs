//! Functions that create a block and its two ends.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_core::executor::Work;

use super::notify;
use super::reader::Reader;
use super::state::{SUBMITTED, TASK};
use super::storage::BlockPtr;
use super::writer::Writer;

/// Creates a block and returns its two ends. Listeners run on `home`. `abandoned` returns the
/// failure of a block whose write end is dropped undecided.
#[inline]
pub fn block<T: Send + 'static, E: Send + 'static>(
    home: Option<Arc<dyn Executor>>,
    abandoned: fn() -> E,
) -> (Writer<T, E>, Reader<T, E>) {
    let block = BlockPtr::allocate(notify::deliver::<T, E>, home, abandoned, 0);
    (Writer::new(block), Reader::new(block))
}

/// Creates a [`block`] for the outcome of a task that `home` has accepted. If `home` ends without
/// starting the task ([`Executor::has_abandoned_tasks`]), readers see `unstarted` instead of
/// waiting for ever. `work` tells how the task comes to `home`.
#[inline]
pub(crate) fn task_block<T: Send + 'static, E: Send + 'static>(
    home: Arc<dyn Executor>,
    work: Work,
    unstarted: fn() -> E,
) -> (Writer<T, E>, Reader<T, E>) {
    let kind = match work {
        Work::Own => TASK,
        Work::Submitted | Work::Given => TASK | SUBMITTED,
    };
    let block = BlockPtr::allocate(notify::deliver::<T, E>, Some(home), unstarted, kind);
    (Writer::new(block), Reader::new(block))
}
