//! The wait record: which executor's threads wait for which other executor.
//!
//! One short lock, taken only by a thread that is about to sleep anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::refused::WaitRefused;
use crate::executor::ExecutorId;

/// Waiting threads by executor, and for whom each of them waits.
#[derive(Default)]
pub(super) struct Record {
    pub(super) waiting: HashMap<ExecutorId, Node>,
}

pub(super) struct Node {
    name: String,
    /// Threads it could run tasks on when it was last seen.
    width: usize,
    /// Homes that its threads wait for, one entry per waiting thread.
    homes: Vec<ExecutorId>,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

/// Changes of any executor's width so far. Written under the lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

pub(super) fn lock() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds that a thread of `from` waits for `to`, unless that closes a circle.
///
/// `width` is asked outside the lock, since it may be user code, and asked again if any width has
/// changed before the lock was taken: a wait never counts on threads that were just given up.
pub(super) fn record(
    from: ExecutorId,
    name: &str,
    width: impl Fn() -> usize,
    to: ExecutorId,
) -> Result<Edge, WaitRefused> {
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
    let node = record.waiting.entry(from).or_insert_with(|| Node {
        name: name.to_owned(),
        width: 1,
        homes: Vec::new(),
    });
    node.width = width;
    node.homes.push(to);
    let edge = Edge { from, to };
    let mut path = Vec::new();
    if record.leads_back(from, to, &mut path) {
        let mut names = vec![name.to_owned()];
        names.extend(
            path.iter()
                .filter_map(|id| Some(record.waiting.get(id)?.name.clone())),
        );
        drop(record);
        drop(edge);
        return Err(WaitRefused::circle(names));
    }
    drop(record);
    Ok(edge)
}

/// Changes how many threads an executor can run tasks on: calls `apply`, after which its
/// [`Executor::width`](crate::Executor::width) is `width`, unless waits that go on now rely on more. No wait is checked
/// between the two.
///
/// # Errors
///
/// A [`WaitRefused`] when a circle would close, naming it; `apply` is not called then.
///
/// ```
/// use tidegate_core::{ExecutorId, change_width};
///
/// let mut width = 4;
/// change_width(ExecutorId::next(), 2, || width = 2).expect("nobody waits");
/// assert_eq!(width, 2);
/// ```
pub fn change_width(
    executor: ExecutorId,
    width: usize,
    apply: impl FnOnce(),
) -> Result<(), WaitRefused> {
    let mut record = lock();
    if let Some(node) = record.waiting.get_mut(&executor) {
        let before = std::mem::replace(&mut node.width, width);
        let homes = node.homes.clone();
        let mut path = Vec::new();
        let mut homes = homes.into_iter();
        if homes.any(|home| record.leads_back(executor, home, &mut path)) {
            let names = std::iter::once(&executor).chain(&path);
            let names = names.filter_map(|id| Some(record.waiting.get(id)?.name.clone()));
            let names = names.collect();
            if let Some(node) = record.waiting.get_mut(&executor) {
                node.width = before;
            }
            return Err(WaitRefused::circle(names));
        }
    }
    apply();
    // ORDERING: Release pairs with the Acquire in `record`.
    CHANGES.fetch_add(1, Ordering::Release);
    Ok(())
}

impl Record {
    /// Whether every thread of `at`, and of whomever they wait for, is waiting, on a path that
    /// ends at `start`. `path` is that path without `start`.
    fn leads_back(&self, start: ExecutorId, at: ExecutorId, path: &mut Vec<ExecutorId>) -> bool {
        let Some(start_node) = self.waiting.get(&start) else {
            return false;
        };
        if start_node.homes.len() < start_node.width {
            return false;
        }
        if at == start {
            return true;
        }
        let Some(node) = self.waiting.get(&at) else {
            return false;
        };
        if node.homes.len() < node.width || path.contains(&at) {
            return false;
        }
        path.push(at);
        if node
            .homes
            .iter()
            .any(|&next| self.leads_back(start, next, path))
        {
            return true;
        }
        path.pop();
        false
    }
}

/// An edge of the record; dropping it takes it out.
#[derive(Debug)]
pub(super) struct Edge {
    from: ExecutorId,
    to: ExecutorId,
}

impl Drop for Edge {
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
