//! The wait record: a graph of which places have threads that wait for which other places. A place
//! is an executor, or what the crate of commands adds: a gate with permits, a run that callers
//! share.
//!
//! It is behind one short lock, taken only by a thread that is about to sleep anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

use super::refused::WaitRefusedError;
use crate::executor::ExecutorId;
use crate::permits::Permits;
use crate::sys::prim::unpoisoned;

/// The waiting threads of each place, and the places that they wait for.
#[derive(Default)]
pub(super) struct Record {
    pub(super) waiting: HashMap<ExecutorId, Node>,
}

pub(super) struct Node {
    name: String,
    capacity: Capacity,
    /// Places that its threads wait for, one entry per waiting thread.
    homes: Vec<ExecutorId>,
}

/// How many threads can work for a place at the same time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// This many threads, when last read.
    Threads(usize),
    /// The threads that hold these permits now.
    Permits(Permits),
    /// The place ends only when all its work has ended: each wait of its work blocks it.
    Whole,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

/// Number of width changes of any executor so far. Written under the lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

pub(super) fn lock() -> MutexGuard<'static, Record> {
    unpoisoned(RECORD.lock())
}

/// Records that a thread of `from` waits for `to`, unless that closes a cycle.
///
/// `width` is called outside the lock because it may be user code. It is called again if any width
/// changed before the lock was taken, so that a wait never counts on threads that were just given
/// up.
pub(super) fn record(
    from: ExecutorId,
    name: &str,
    width: impl Fn() -> usize,
    to: ExecutorId,
) -> Result<WaitEdge, WaitRefusedError> {
    let (mut record, width) = loop {
        // ORDERING: Acquire pairs with the Release in `change_width`: a reader that sees the change
        // also sees the width that it applied.
        let before = CHANGES.load(Ordering::Acquire);
        let width = width();
        let record = lock();
        if CHANGES.load(Ordering::Relaxed) == before {
            break (record, width);
        }
    };
    let edge = record.add(from, name, Capacity::Threads(width), to);
    let checked = record.check(from, to);
    // Before a refused edge is dropped, which takes the lock.
    drop(record);
    checked.map(|()| edge)
}

/// Records that the calling thread, which works for all of `places`, waits for `to`.
///
/// # Errors
///
/// A [`WaitRefusedError`] if the wait would close a cycle. Nothing is recorded then.
pub fn record_wait(
    places: impl IntoIterator<Item = (ExecutorId, Capacity)>,
    to: ExecutorId,
) -> Result<Vec<WaitEdge>, WaitRefusedError> {
    let mut places = places.into_iter().peekable();
    let Some((first, _)) = places.peek() else {
        return Ok(Vec::new());
    };
    let first = *first;
    let mut record = lock();
    let add = |(from, capacity)| record.add(from, "", capacity, to);
    let edges = places.map(add).collect();
    let checked = record.check(first, to);
    drop(record);
    checked.map(|()| edges)
}

/// Changes the number of threads that can run an executor's tasks, unless current waits rely on
/// more threads than `width`. Calls `apply`, after which
/// [`Executor::width`](crate::Executor::width) must return `width`. No wait is checked between the
/// check of the current waits and `apply`.
///
/// # Errors
///
/// A [`WaitRefusedError`] that names the cycle, if a cycle would close; `apply` is not called then.
///
/// ```
/// use tidegate_core::executor::ExecutorId;
/// use tidegate_core::internal::change_width;
///
/// let mut width = 4;
/// change_width(ExecutorId::next(), 2, || width = 2).expect("no thread waits");
/// assert_eq!(width, 2);
/// ```
pub fn change_width(
    executor: ExecutorId,
    width: usize,
    apply: impl FnOnce(),
) -> Result<(), WaitRefusedError> {
    let mut record = lock();
    if let Some(node) = record.waiting.get_mut(&executor) {
        let before = std::mem::replace(&mut node.capacity, Capacity::Threads(width));
        if let Err(refused) = record.check(executor, executor) {
            if let Some(node) = record.waiting.get_mut(&executor) {
                node.capacity = before;
            }
            return Err(refused);
        }
    }
    apply();
    // ORDERING: Release pairs with the Acquire in `record`.
    CHANGES.fetch_add(1, Ordering::Release);
    Ok(())
}

impl Record {
    fn add(&mut self, from: ExecutorId, name: &str, now: Capacity, to: ExecutorId) -> WaitEdge {
        let node = self.waiting.entry(from).or_insert_with(|| Node {
            name: name.to_owned(),
            capacity: Capacity::Whole,
            homes: Vec::new(),
        });
        node.capacity = now;
        node.homes.push(to);
        WaitEdge { from, to }
    }

    /// Refuses a wait of `start` for `to` that cannot end, because `to` waits for `start` in turn.
    fn check(&self, start: ExecutorId, to: ExecutorId) -> Result<(), WaitRefusedError> {
        let mut stuck = self.stuck(to);
        if !stuck.contains(&to) {
            return Ok(());
        }
        let mut names = vec![self.name(start)];
        if start != to {
            self.find(start, to, &mut stuck, &mut names);
        } else if let Some(node) = self.waiting.get(&start) {
            let mut homes = node.homes.iter();
            let _ = homes.any(|home| self.find(start, *home, &mut stuck, &mut names));
        }
        Err(WaitRefusedError::deadlock(names))
    }

    /// Returns the places that `to` depends on, and on which no wait can end.
    fn stuck(&self, to: ExecutorId) -> Vec<ExecutorId> {
        let mut stuck = Vec::new();
        let mut unseen = vec![to];
        while let Some(home) = unseen.pop() {
            if let Some(node) = self.node(home)
                && !stuck.contains(&home)
                && (is_whole(home, node) || node.is_full())
            {
                stuck.push(home);
                unseen.extend(&node.homes);
            }
        }
        // A place is free again when a wait of one of its threads ends, but a whole place only when
        // all end.
        loop {
            let before = stuck.clone();
            stuck.retain(|home| {
                self.node(*home).is_some_and(|node| {
                    let mut homes = node.homes.iter();
                    match is_whole(*home, node) {
                        true => homes.any(|home| before.contains(home)),
                        false => homes.all(|home| before.contains(home)),
                    }
                })
            });
            if stuck.len() == before.len() {
                return stuck;
            }
        }
    }

    /// Adds the names of the places on a path from `at` to `start`. Returns `true` if there is a
    /// path. Takes the places that it has seen out of `stuck`.
    fn find(
        &self,
        start: ExecutorId,
        at: ExecutorId,
        stuck: &mut Vec<ExecutorId>,
        names: &mut Vec<String>,
    ) -> bool {
        let place = at.of_end().0;
        if place == start {
            return true;
        }
        let Some(node) = self.node(at).filter(|_| stuck.contains(&at)) else {
            return false;
        };
        stuck.retain(|seen| *seen != at);
        names.push(self.name(place));
        let mut homes = node.homes.iter();
        let found = homes.any(|home| self.find(start, *home, stuck, names));
        if !found {
            names.pop();
        }
        found
    }

    /// Returns the waiting threads of a place, or of the executor that ends.
    fn node(&self, home: ExecutorId) -> Option<&Node> {
        self.waiting.get(&home.of_end().0)
    }

    fn name(&self, of: ExecutorId) -> String {
        self.node(of)
            .map(|node| node.name.clone())
            .unwrap_or_default()
    }
}

/// Returns `true` if a wait for `home` needs all work of `node` to end. A wait for a task needs one
/// thread that is free.
fn is_whole(home: ExecutorId, node: &Node) -> bool {
    home.of_end().1 || matches!(node.capacity, Capacity::Whole)
}

impl Node {
    /// Returns `true` if all threads of this place wait.
    fn is_full(&self) -> bool {
        match &self.capacity {
            Capacity::Threads(width) => self.homes.len() >= *width,
            Capacity::Permits(permits) => self.homes.len() >= permits.held(),
            Capacity::Whole => true,
        }
    }
}

/// An edge of the record. Dropping it removes it from the record.
#[derive(Debug)]
#[must_use = "the record holds the wait only while the edge lives"]
pub struct WaitEdge {
    from: ExecutorId,
    to: ExecutorId,
}

impl Drop for WaitEdge {
    fn drop(&mut self) {
        let Self { from, to } = *self;
        let mut record = lock();
        if let Some(node) = record.waiting.get_mut(&from) {
            if let Some(at) = node.homes.iter().position(|&home| home == to) {
                node.homes.swap_remove(at);
            }
            if node.homes.is_empty() {
                record.waiting.remove(&from);
            }
        }
    }
}
