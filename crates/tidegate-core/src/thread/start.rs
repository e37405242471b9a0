//! The start and the end of a thread: its name, its record as the current thread, its exit hooks.
//!
//! This module is below [`ThreadBuilder`](crate::ThreadBuilder), which adds the user's hooks and
//! settings, and below the hook for unhandled errors, whose own thread starts here
//! ([`spawn_bare`]). Panics are therefore reported to a closure.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::info::{NORMAL_PRIORITY, ThreadRecord};
use crate::contain::contain;
use crate::sys::prim;
use crate::unhandled::Unhandled;

/// Names the threads of one pool: `io-1-1`, `io-1-2` if `io` is the first pool of the process.
#[derive(Clone, Debug)]
pub(crate) struct ThreadNames {
    pool: String,
    pool_number: u64,
    threads: Arc<AtomicU64>,
}

impl ThreadNames {
    /// Takes the next pool number. A NUL, which the system allows in no name, is replaced.
    pub(crate) fn new(pool: impl Into<String>) -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(1);
        let mut name = String::new();
        for letter in pool.into().chars() {
            name.push(if letter == '\0' { '\u{fffd}' } else { letter });
        }
        Self {
            pool: name,
            pool_number: POOLS.fetch_add(1, Ordering::Relaxed),
            threads: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Returns the pool's name.
    pub(super) fn pool(&self) -> &str {
        &self.pool
    }

    /// Returns the name of the next thread.
    pub(super) fn next(&self) -> String {
        let number = self.threads.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{}", self.pool, self.pool_number, number)
    }
}

/// Starts a named thread with a record that can be waited for, without hooks or settings. Panics of
/// `job` and of its exit hooks are reported to `report_to`, with the name of the thread or hook.
pub(crate) fn spawn_bare(
    names: &ThreadNames,
    job: impl FnOnce() + Send + 'static,
    report_to: fn(&str, &Unhandled<'_>),
) -> io::Result<()> {
    let record = Arc::new(ThreadRecord::new(names.next(), NORMAL_PRIORITY, false));
    let end = EndGuard::new(&record);
    let run = move || {
        let begun = end.record().begin(false);
        debug_assert!(begun, "it is not revoked");
        let current = CurrentThreadGuard::enter(end.record());
        run_contained(job, |what| report_to(end.record().name(), what));
        run_exit_hooks_to(report_to);
        drop(current);
        drop(end);
    };
    spawn_named(record.name().to_owned(), None, run).map(drop)
}

/// Starts a thread of the system.
pub(super) fn spawn_named(
    name: String,
    stack_size: Option<usize>,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<prim::JoinHandle<()>> {
    let mut thread = prim::Builder::new().name(name);
    if let Some(bytes) = stack_size {
        thread = thread.stack_size(bytes);
    }
    thread.spawn(run)
}

/// Runs the job of a thread and reports its panic to `report_to`.
pub(super) fn run_contained(job: impl FnOnce(), report_to: impl FnOnce(&Unhandled<'_>)) {
    if let Err(panic) = contain(job) {
        report_to(&Unhandled::TaskPanic {
            task: "the thread's job",
            message: panic.message(),
        });
    }
}

/// Creates the report of a hook's panic.
pub(super) fn hook_panic(message: &str) -> Unhandled<'_> {
    Unhandled::HookPanic { message }
}

/// Guard that marks a thread as ended: its job is over, or was dropped without having run.
pub(super) struct EndGuard(Arc<ThreadRecord>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl EndGuard {
    pub(super) fn new(record: &Arc<ThreadRecord>) -> Self {
        Self(Arc::clone(record))
    }

    pub(super) fn record(&self) -> &Arc<ThreadRecord> {
        &self.0
    }
}

/// Guard that makes a [`ThreadRecord`] the record of the calling thread until it is dropped.
pub(super) struct CurrentThreadGuard(Option<Arc<ThreadRecord>>);

impl CurrentThreadGuard {
    pub(super) fn enter(record: &Arc<ThreadRecord>) -> Self {
        Self(CURRENT.with(|current| current.replace(Some(Arc::clone(record)))))
    }
}

impl Drop for CurrentThreadGuard {
    fn drop(&mut self) {
        let outer = self.0.take();
        let _ = CURRENT.try_with(|current| current.replace(outer));
    }
}

/// Returns the record of the calling thread, if a [`ThreadBuilder`] started it.
pub(crate) fn current() -> Option<Arc<ThreadRecord>> {
    CURRENT
        .try_with(|current| current.borrow().clone())
        .ok()
        .flatten()
}

prim::thread_local! {
    static CURRENT: RefCell<Option<Arc<ThreadRecord>>> = const { RefCell::new(None) };
    static AT_EXIT: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `clean_up` when the calling thread's job ends, also by a panic, before the thread is
/// reported as ended. Only for threads of a [`ThreadBuilder`](crate::ThreadBuilder); on other
/// threads `clean_up` is never called.
///
/// ```
/// use tidegate_core::ThreadBuilder;
/// use tidegate_core::internal::at_thread_exit;
///
/// let (tx, rx) = std::sync::mpsc::channel();
/// ThreadBuilder::new("job").spawn(move || at_thread_exit(move || tx.send("clean").unwrap()))?;
/// assert_eq!(rx.recv(), Ok("clean"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn at_thread_exit(clean_up: impl FnOnce() + 'static) {
    AT_EXIT.with_borrow_mut(|hooks| hooks.push(Box::new(clean_up)));
}

/// Runs the hooks that [`at_thread_exit`] registered on this thread, newest first, until none is
/// left. Panics are reported to `report_to`.
pub(super) fn run_exit_hooks_to(report_to: impl Fn(&str, &Unhandled<'_>)) {
    while let Some(clean_up) = AT_EXIT.with_borrow_mut(Vec::pop) {
        if let Err(panic) = contain(clean_up) {
            report_to("the end of a thread", &hook_panic(panic.message()));
        }
    }
}
