//! Checks of blocking waits: may the calling thread block, and would the wait deadlock?

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::record::{Capacity, Place, Target, WaitEdge, record};
use super::refused::{WaitRefusedError, Why, thread_name};
use crate::executor::{
    Executor, ExecutorId, Need, WaitPolicy, Work, current_executor, current_executors, wait_policy,
};
use crate::raw::working::running_promises;
use crate::thread::{self, ThreadRecord};

/// What is known of an outcome for which a thread waits.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// The address of its promise, if the wait ends with a promise.
    pub promise: Option<usize>,
    /// How the work that decides the outcome comes to its home.
    pub work: Work,
    /// `false` if the wait has a time limit.
    pub endless: bool,
}

/// Checks a blocking wait of the calling thread for a result whose home is `home`. The caller must
/// hold the returned guard while it waits.
///
/// # Errors
///
/// A [`WaitRefusedError`] if the thread must not block, or if the wait would close a cycle.
pub fn check_wait(home: Option<&dyn Executor>) -> Result<WaitGuard, WaitRefusedError> {
    let awaited = Awaited {
        promise: None,
        work: Work::Own,
        endless: true,
    };
    check_wait_for(home, awaited, || false)
}

/// Checks a blocking wait like [`check_wait`], with what is known of the outcome. `is_begun` makes
/// the promise call [`needs_nothing`](super::needs_nothing) when its task has started or it is
/// decided, and returns `true` if that is so already; it must not block.
///
/// # Errors
///
/// As for [`check_wait`].
pub fn check_wait_for(
    home: Option<&dyn Executor>,
    awaited: Awaited,
    is_begun: impl FnOnce() -> bool,
) -> Result<WaitGuard, WaitRefusedError> {
    check_may_block(home)?;
    let Some(home) = home else {
        return Ok(WaitGuard::default());
    };
    let also = home.begin_wait()?;
    let edges = match works_for_something() {
        false => Vec::new(),
        true => {
            let target = Target {
                promise: awaited.promise.map(ExecutorId::of_promise),
                begun: AtomicBool::new(false),
                needs: home.needs(awaited.work),
            };
            record(places, target, is_begun, awaited.endless)?
        }
    };
    Ok(WaitGuard {
        _edges: edges,
        _also: also,
    })
}

/// Checks a wait for the end of `thread`, or for something that `thread` does before it ends.
pub(crate) fn check_end(thread: &ThreadRecord) -> Result<WaitGuard, WaitRefusedError> {
    check_stance_for(Some(thread.name()), true)?;
    let target = Target::needing(Need::thread_of(thread.wait_node()));
    Ok(WaitGuard {
        _edges: record(places, target, || false, true)?,
        _also: None,
    })
}

/// Returns `true` if the calling thread works for a place of the record.
fn works_for_something() -> bool {
    current_executor().is_some() || thread::current().is_some() || !running_promises().is_empty()
}

/// Returns the places for which the calling thread works, innermost first: its executors, or the
/// thread itself if it runs for no executor, and the tasks with a promise that it runs.
fn places() -> Vec<Place> {
    let executors = current_executors();
    let of_executor = |executor: &Arc<dyn Executor>| Place {
        id: executor.id(),
        name: executor.name().to_owned(),
        capacity: Capacity::Threads {
            width: executor.width(),
            most: executor.most_threads(),
        },
    };
    let mut places: Vec<_> = executors.iter().rev().map(of_executor).collect();
    if executors.is_empty()
        && let Some(thread) = thread::current()
    {
        places.push(Place {
            id: thread.wait_node(),
            name: thread.name().to_owned(),
            capacity: Capacity::Threads { width: 1, most: 1 },
        });
    }
    let name = places.first().map(|place| place.name.clone());
    let name = name.unwrap_or_else(thread_name);
    places.extend(running_promises().into_iter().map(|promise| Place {
        id: ExecutorId::of_promise(promise),
        name: name.clone(),
        capacity: Capacity::Whole,
    }));
    places
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

/// A recorded wait. Dropping the guard removes it from the record.
#[derive(Debug, Default)]
#[must_use = "the record holds the wait only while the guard lives"]
pub struct WaitGuard {
    _edges: Vec<WaitEdge>,
    /// The guard that [`Executor::begin_wait`] of the home returned.
    _also: Option<Box<dyn Any + Send>>,
}
