//! The wait record: which executor's threads wait for which other executor.
//!
//! A blocking wait is checked before it sleeps. On a thread that must not block it is refused
//! at once. Elsewhere it leaves an edge from the executor it runs for to the home of what it
//! waits for, and is refused if all threads of every executor on some path back to itself
//! would then wait: a circle that nobody could leave. A thread that runs for no executor stands
//! in the record itself, if a `ThreadBuilder` started it, and so does one whose end is awaited.
//!
//! Edges go by home, not by who really completes the promise, so a wait whose promise a third
//! party completes may be refused for nothing; such a wait says so and skips the check.
//!
//! The record is one short lock, taken only by a thread that is about to sleep anyway.

use std::any::Any;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::executor::{Executor, ExecutorId};
use crate::mark::{self, Stance};
use crate::thread::{self, Life};

/// Why a blocking wait was refused, naming who would have waited for whom.
///
/// ```
/// use tidegate_core::{check_wait, non_blocking};
///
/// let refused = non_blocking(|| check_wait(None)).unwrap_err();
/// assert!(refused.to_string().contains("must not block"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WaitRefused {
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// The thread must not block at all.
    Stance {
        waiting: String,
        home: Option<String>,
        /// It would wait for the end of a thread, not for a promise.
        end: bool,
        tagged: bool,
    },
    /// Names of the executors around the circle, the first one being the waiting one.
    Circle { names: Vec<String> },
    /// A listener would wait until it has been told.
    OwnListener { name: String },
}

impl WaitRefused {
    /// The refusal of a wait, inside a listener, for what that listener is being told.
    pub fn own_listener() -> Self {
        Self {
            why: Why::OwnListener {
                name: thread_name(),
            },
        }
    }

    /// The refusal of a wait that would close a circle through these, of which the first waits.
    pub fn circle(names: Vec<String>) -> Self {
        Self {
            why: Why::Circle { names },
        }
    }

    /// Whether the wait would have closed a circle of waiting executors.
    pub fn is_circle(&self) -> bool {
        matches!(self.why, Why::Circle { .. })
    }

    /// Names of the executors involved: who waits, and for whom.
    pub fn names(&self) -> Vec<&str> {
        match &self.why {
            Why::Stance { waiting, home, .. } => std::iter::once(waiting.as_str())
                .chain(home.as_deref())
                .collect(),
            Why::Circle { names } => names.iter().map(String::as_str).collect(),
            Why::OwnListener { name } => vec![name],
        }
    }
}

impl fmt::Display for WaitRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Stance {
                waiting,
                home,
                end,
                tagged,
            } => {
                let what = if *tagged {
                    "a thread tagged non-blocking"
                } else {
                    "an event loop"
                };
                write!(f, "{waiting}, {what}, must not block")?;
                match home {
                    Some(home) if *end => {
                        return write!(
                            f,
                            " to wait for the end of thread {home}; await the end instead"
                        );
                    }
                    Some(home) => write!(f, " to wait for a promise of {home}")?,
                    None => {}
                }
                write!(f, "; listen to the completion or await it instead")
            }
            Why::Circle { names } => {
                write!(f, "waiting would close a circle: ")?;
                for name in names {
                    write!(f, "{name} waits for ")?;
                }
                write!(f, "{}", names.first().map_or("itself", String::as_str))
            }
            Why::OwnListener { name } => write!(
                f,
                "{name} is in a listener of this very promise, which is not over before it \
                 returns; use the outcome that the listener was given"
            ),
        }
    }
}

crate::debug_as_display!(WaitRefused);

impl Error for WaitRefused {}

/// Checks a blocking wait of the calling thread for something whose home is `home`.
/// Hold the answer while waiting.
///
/// # Errors
///
/// A [`WaitRefused`] when the thread must not block, or when a circle would close.
pub fn check_wait(home: Option<&dyn Executor>) -> Result<WaitGuard, WaitRefused> {
    check_stance(home)?;
    let Some(home) = home else {
        return Ok(WaitGuard::NOTHING);
    };
    let _also = home.begin_wait()?;
    let guard = record_from_here(home.id())?;
    Ok(WaitGuard { _also, ..guard })
}

/// The same for the end of a thread, or for something that it has to do first.
pub(crate) fn check_end(thread: &Life) -> Result<WaitGuard, WaitRefused> {
    check_stance_for(Some(thread.name()), true)?;
    record_from_here(thread.party())
}

/// Records that the calling thread waits for `home`: as its executor, or else as itself.
fn record_from_here(home: ExecutorId) -> Result<WaitGuard, WaitRefused> {
    if let Some(waiting) = mark::current() {
        return record(waiting.id(), waiting.name(), waiting.width(), home);
    }
    match thread::current() {
        Some(thread) => record(thread.party(), thread.name(), 1, home),
        None => Ok(WaitGuard::NOTHING),
    }
}

/// Checks only that the calling thread may block at all, for a wait that is known not to be
/// part of a circle.
///
/// # Errors
///
/// A [`WaitRefused`] when the thread must not block.
pub fn check_stance(home: Option<&dyn Executor>) -> Result<(), WaitRefused> {
    if mark::stance() == Stance::Free {
        return Ok(());
    }
    check_stance_for(home.map(|home| home.name()), false)
}

fn check_stance_for(home: Option<&str>, end: bool) -> Result<(), WaitRefused> {
    let tagged = match mark::stance() {
        Stance::Free => return Ok(()),
        Stance::Loop => false,
        Stance::Tagged => true,
    };
    let waiting = mark::current();
    Err(WaitRefused {
        why: Why::Stance {
            waiting: waiting.map_or_else(thread_name, |executor| executor.name().to_owned()),
            home: home.map(str::to_owned),
            end,
            tagged,
        },
    })
}

fn thread_name() -> String {
    let thread = std::thread::current();
    thread
        .name()
        .unwrap_or("a thread without a name")
        .to_owned()
}

/// Waiting threads by executor, and for whom each of them waits.
#[derive(Default)]
struct Record {
    waiting: HashMap<ExecutorId, Node>,
}

struct Node {
    name: String,
    /// Threads it could run tasks on when it was last seen.
    width: usize,
    /// Homes that its threads wait for, one entry per waiting thread.
    homes: Vec<ExecutorId>,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(
    from: ExecutorId,
    name: &str,
    width: usize,
    to: ExecutorId,
) -> Result<WaitGuard, WaitRefused> {
    let mut record = lock();
    let node = record.waiting.entry(from).or_insert_with(|| Node {
        name: name.to_owned(),
        width: 1,
        homes: Vec::new(),
    });
    node.width = width;
    node.homes.push(to);
    let guard = WaitGuard {
        _edge: Some(Edge { from, to }),
        _also: None,
    };
    let mut path = Vec::new();
    if record.leads_back(from, to, &mut path) {
        let mut names = vec![name.to_owned()];
        names.extend(
            path.iter()
                .filter_map(|id| Some(record.waiting.get(id)?.name.clone())),
        );
        drop(record);
        drop(guard);
        return Err(WaitRefused {
            why: Why::Circle { names },
        });
    }
    drop(record);
    Ok(guard)
}

/// Changes how many threads an executor can run tasks on: calls `apply`, after which its
/// [`Executor::width`] is `width`, unless waits that go on now rely on more. No wait is checked
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
            return Err(WaitRefused {
                why: Why::Circle { names },
            });
        }
    }
    apply();
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

/// One recorded wait; dropping it takes the edge out of the record.
#[derive(Debug)]
#[must_use = "the record holds the wait only while the guard lives"]
pub struct WaitGuard {
    _edge: Option<Edge>,
    /// What the home of the wait holds for it.
    _also: Option<Box<dyn Any + Send>>,
}

impl WaitGuard {
    /// A wait that is in no record.
    const NOTHING: Self = Self {
        _edge: None,
        _also: None,
    };
}

/// An edge of the record.
#[derive(Debug)]
struct Edge {
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

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
