//! Checks of blocking waits: may the calling thread block, and would the wait deadlock?

use std::any::Any;

use super::record::{WaitEdge, record};
use super::refused::{WaitRefusedError, Why, thread_name};
use crate::executor::{Executor, ExecutorId, WaitPolicy, current_executor, wait_policy};
use crate::thread::{self, ThreadRecord};

/// Checks a blocking wait of the calling thread for a result whose home is `home`. The caller must
/// hold the returned guard while it waits.
///
/// # Errors
///
/// A [`WaitRefusedError`] if the thread must not block, or if the wait would close a cycle.
pub fn check_wait(home: Option<&dyn Executor>) -> Result<WaitGuard, WaitRefusedError> {
    check_may_block(home)?;
    let Some(home) = home else {
        return Ok(WaitGuard::NOTHING);
    };
    let _also = home.begin_wait()?;
    let guard = record_from_here(home.id())?;
    Ok(WaitGuard { _also, ..guard })
}

/// Checks a wait for the end of `thread`, or for something that `thread` does before it ends.
pub(crate) fn check_end(thread: &ThreadRecord) -> Result<WaitGuard, WaitRefusedError> {
    check_stance_for(Some(thread.name()), true)?;
    record_from_here(thread.wait_node())
}

/// Records that the calling thread waits for `home`. The waiting node is the thread's executor, or
/// the thread itself if it runs for no executor.
fn record_from_here(home: ExecutorId) -> Result<WaitGuard, WaitRefusedError> {
    if let Some(waiting) = current_executor() {
        let width = || waiting.width();
        return record(waiting.id(), waiting.name(), width, home).map(WaitGuard::of);
    }
    match thread::current() {
        Some(thread) => record(thread.wait_node(), thread.name(), || 1, home).map(WaitGuard::of),
        None => Ok(WaitGuard::NOTHING),
    }
}

/// Checks only that the calling thread may block at all, for a wait that is known not to be part of
/// a cycle.
///
/// # Errors
///
/// A [`WaitRefusedError`] if the thread must not block.
pub fn check_may_block(home: Option<&dyn Executor>) -> Result<(), WaitRefusedError> {
    if wait_policy() == WaitPolicy::Free {
        return Ok(());
    }
    check_stance_for(home.map(|home| home.name()), false)
}

fn check_stance_for(home: Option<&str>, end: bool) -> Result<(), WaitRefusedError> {
    let tagged = match wait_policy() {
        WaitPolicy::Free => return Ok(()),
        WaitPolicy::Loop => false,
        WaitPolicy::Tagged => true,
    };
    let waiting = current_executor();
    Err(WaitRefusedError {
        why: Why::WaitPolicy {
            waiting: waiting.map_or_else(thread_name, |executor| executor.name().to_owned()),
            home: home.map(str::to_owned),
            end,
            tagged,
        },
    })
}

/// A recorded wait. Dropping the guard removes the edge from the record.
#[derive(Debug)]
#[must_use = "the record holds the wait only while the guard lives"]
pub struct WaitGuard {
    _edge: Option<WaitEdge>,
    /// The guard that [`Executor::begin_wait`] of the home returned.
    _also: Option<Box<dyn Any + Send>>,
}

impl WaitGuard {
    /// A wait that is not recorded.
    const NOTHING: Self = Self {
        _edge: None,
        _also: None,
    };

    fn of(edge: WaitEdge) -> Self {
        Self {
            _edge: Some(edge),
            _also: None,
        }
    }
}
