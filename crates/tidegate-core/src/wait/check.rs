//! Checks of blocking waits: may the calling thread block, and would the wait deadlock?

use std::any::Any;

use super::record::{Edge, record};
use super::refused::{WaitRefused, Why, thread_name};
use crate::executor::{Executor, ExecutorId, Stance, current, stance};
use crate::thread::{self, Life};

/// Checks a blocking wait of the calling thread for a result whose home is `home`. The caller must
/// hold the returned guard while it waits.
///
/// # Errors
///
/// A [`WaitRefused`] if the thread must not block, or if the wait would close a cycle.
pub fn check_wait(home: Option<&dyn Executor>) -> Result<WaitGuard, WaitRefused> {
    check_stance(home)?;
    let Some(home) = home else {
        return Ok(WaitGuard::NOTHING);
    };
    let _also = home.begin_wait()?;
    let guard = record_from_here(home.id())?;
    Ok(WaitGuard { _also, ..guard })
}

/// Checks a wait for the end of `thread`, or for something that `thread` does before it ends.
pub(crate) fn check_end(thread: &Life) -> Result<WaitGuard, WaitRefused> {
    check_stance_for(Some(thread.name()), true)?;
    record_from_here(thread.party())
}

/// Records that the calling thread waits for `home`. The waiting node is the thread's executor, or
/// the thread itself if it runs for no executor.
fn record_from_here(home: ExecutorId) -> Result<WaitGuard, WaitRefused> {
    if let Some(waiting) = current() {
        let width = || waiting.width();
        return record(waiting.id(), waiting.name(), width, home).map(WaitGuard::of);
    }
    match thread::current() {
        Some(thread) => record(thread.party(), thread.name(), || 1, home).map(WaitGuard::of),
        None => Ok(WaitGuard::NOTHING),
    }
}

/// Checks only that the calling thread may block at all, for a wait that is known not to be part of
/// a cycle.
///
/// # Errors
///
/// A [`WaitRefused`] if the thread must not block.
pub fn check_stance(home: Option<&dyn Executor>) -> Result<(), WaitRefused> {
    if stance() == Stance::Free {
        return Ok(());
    }
    check_stance_for(home.map(|home| home.name()), false)
}

fn check_stance_for(home: Option<&str>, end: bool) -> Result<(), WaitRefused> {
    let tagged = match stance() {
        Stance::Free => return Ok(()),
        Stance::Loop => false,
        Stance::Tagged => true,
    };
    let waiting = current();
    Err(WaitRefused {
        why: Why::Stance {
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
    _edge: Option<Edge>,
    /// The guard that [`Executor::begin_wait`] of the home returned.
    _also: Option<Box<dyn Any + Send>>,
}

impl WaitGuard {
    /// A wait that is not recorded.
    const NOTHING: Self = Self {
        _edge: None,
        _also: None,
    };

    fn of(edge: Edge) -> Self {
        Self {
            _edge: Some(edge),
            _also: None,
        }
    }
}
