//! The task that a loop runs right now, readable from any thread.
//!
//! There is one writer (the thread that drives the loop) and any number of readers (metrics,
//! watchdogs). A task costs two relaxed stores: its sequence number and the vtable of its closure.
//! A task with a name of its own also writes that name, under a version (a seqlock), so that no
//! reader sees half of one name and half of another.

use std::cell::RefCell;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::raw::vtable::Vtable;
use crate::sys::prim;

prim::thread_local! {
    /// The record of the loop that this thread drives.
    static OF_THREAD: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) };
}

/// The record of the task that one loop runs. It has cache lines of its own because its loop writes
/// it for every task, and other data on the same lines would be slower to read.
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_core::internal::Running;
///
/// let running = Running::default();
/// let task = Task::named("compact", || {});
/// running.begin(&task);
/// assert_eq!(running.started(), 1);
/// assert!(running.now().is_some());
/// running.idle();
/// assert!(running.now().is_none());
/// assert!(running.last_type().is_some(), "it was the last one");
/// ```
#[derive(Default)]
#[repr(align(128))]
pub struct Running {
    /// Number of tasks started so far, which is the sequence number of the running task.
    started: AtomicU64,
    /// The vtable of the running task; null between tasks.
    what: AtomicPtr<Vtable>,
    /// The vtable of the last task before the loop became idle.
    last: AtomicPtr<Vtable>,
    given: Given,
    /// The sequence number and the given name of the last named task that panicked.
    panicked: Mutex<Option<(u64, &'static str)>>,
}

/// A name given by the user: pointer and length under a version, which is odd during a write.
#[derive(Default)]
struct Given {
    version: AtomicU64,
    bytes: AtomicPtr<u8>,
    len: AtomicUsize,
}

/// The task that was running when [`Running::now`] was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningTask {
    /// Its position in the order in which the loop started tasks; the first is 1.
    pub sequence: u64,
    /// Its given name, or the type of its closure.
    pub name: &'static str,
}

impl Running {
    /// Records that the loop starts a task whose closure `vtable` describes.
    #[inline(always)]
    pub(super) fn begin_closure(&self, vtable: &'static Vtable) {
        let next = self.started.load(Ordering::Relaxed) + 1;
        self.started.store(next, Ordering::Relaxed);
        self.what
            .store(ptr::from_ref(vtable).cast_mut(), Ordering::Relaxed);
    }

    /// Records that the running task begins the next of several steps. The step counts as another
    /// task, so that watchdogs see progress. Called only by the loop's thread.
    #[inline(always)]
    pub fn next_step(&self) {
        let next = self.started.load(Ordering::Relaxed) + 1;
        self.started.store(next, Ordering::Relaxed);
    }

    /// Returns the record of the loop that the current thread drives.
    pub fn of_thread() -> Option<Arc<Self>> {
        let of_thread = OF_THREAD.try_with(|slot| slot.borrow().clone());
        of_thread.unwrap_or_default()
    }

    /// Records that the loop runs no task. Called only by the loop's thread.
    #[inline]
    pub fn idle(&self) {
        let last = self.what.load(Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
        self.what.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns the type of the closure of the running task or, if the loop runs none, of the last
    /// one before it became idle.
    pub fn last_type(&self) -> Option<&'static str> {
        let running = self.what.load(Ordering::Relaxed);
        let what = match running.is_null() {
            true => self.last.load(Ordering::Relaxed),
            false => running,
        };
        // SAFETY: `begin_closure` stores only pointers made from `&'static Vtable` in `what`, and
        // `idle` only copies of them in `last`; both are null before.
        let vtable = unsafe { what.as_ref() }?;
        Some((vtable.type_name)())
    }

    /// Returns the number of tasks started so far.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the task that the loop runs at this moment, if any. It may already be over when the
    /// caller reads the result. The sequence number and the name are read one after the other: if
    /// the loop changes tasks in between, they belong to different tasks.
    pub fn now(&self) -> Option<RunningTask> {
        let what = self.what.load(Ordering::Relaxed);
        // SAFETY: `begin_closure` stores only pointers made from `&'static Vtable`, `idle` only
        // null.
        let vtable = unsafe { what.as_ref() }?;
        Some(RunningTask {
            sequence: self.started(),
            name: self.given.get().unwrap_or_else(vtable.type_name),
        })
    }

    /// Returns the given name of the task started last, if it has a given name and has panicked.
    /// Needed because the unwinding removes the name from the record before the panic is caught.
    /// Called only by the loop's thread.
    pub fn panicked(&self) -> Option<&'static str> {
        let panicked = *self.lock_panicked();
        let (sequence, name) = panicked?;
        (sequence == self.started()).then_some(name)
    }

    fn lock_panicked(&self) -> MutexGuard<'_, Option<(u64, &'static str)>> {
        prim::unpoisoned(self.panicked.lock())
    }

    /// Makes this the record of the current thread until the guard is dropped.
    pub fn enter(self: &Arc<Self>) -> RunningGuard {
        let before = OF_THREAD.with_borrow_mut(|slot| slot.replace(Arc::clone(self)));
        RunningGuard { before }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("started", &self.started())
            .field("now", &self.now())
            .finish()
    }
}

/// Guard of [`Running::enter`]. Dropping it restores the thread's previous record.
#[derive(Debug)]
#[must_use = "dropping the guard ends the entry"]
pub struct RunningGuard {
    before: Option<Arc<Running>>,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = OF_THREAD.try_with(|slot| *slot.borrow_mut() = before);
    }
}

impl Given {
    fn set(&self, name: Option<&'static str>) {
        let version = self.version.load(Ordering::Relaxed);
        // Two threads could enter the same record. A thread that finds a write in progress changes
        // nothing.
        // ORDERING: Acquire pairs with the Release store of the last writer, below: its words come
        // before this writer's.
        let alone = version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !alone {
            return;
        }
        // ORDERING: Release fence keeps the odd version before the words; pairs with the
        // Acquire fence in `get`.
        fence(Ordering::Release);
        let (bytes, len) = match name {
            Some(name) => (name.as_ptr().cast_mut(), name.len()),
            None => (ptr::null_mut(), 0),
        };
        self.bytes.store(bytes, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        // ORDERING: Release publishes the words; pairs with the first Acquire load in `get`.
        self.version.store(version + 2, Ordering::Release);
    }

    /// Returns the name, or `None` if there is none or it is being changed.
    fn get(&self) -> Option<&'static str> {
        // ORDERING: Acquire pairs with the Release store of the even version in `set`.
        let before = self.version.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        // ORDERING: Acquire fence pairs with the Release fence in `set`: a reader that read a word
        // of a newer name also reads that name's odd version here.
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        if before != after || before % 2 == 1 || bytes.is_null() {
            return None;
        }
        // SAFETY: the versions agree, so both words were stored by one `set` from one
        // `&'static str`.
        let name = unsafe { std::slice::from_raw_parts(bytes, len) };
        // SAFETY: the bytes are those of a `str`.
        Some(unsafe { std::str::from_utf8_unchecked(name) })
    }
}

/// Shows `name` as the running task of the current thread until the guard is dropped.
pub(crate) fn show_name(name: &'static str) -> impl Drop {
    struct Shown(Option<Arc<Running>>, &'static str);
    impl Drop for Shown {
        fn drop(&mut self) {
            let Some(running) = &self.0 else { return };
            running.given.set(None);
            if std::thread::panicking() {
                *running.lock_panicked() = Some((running.started(), self.1));
            }
        }
    }
    let running = Running::of_thread();
    if let Some(running) = &running {
        running.given.set(Some(name));
    }
    Shown(running, name)
}

#[cfg(test)]
mod tests {
    //! A reader sees the complete name of the running task or none, never a mixture of two.

    use super::*;
    use crate::raw::task::Task;

    #[test]
    fn shows_a_given_name_only_while_the_task_runs() {
        let running = Arc::new(Running::default());
        let _entered = running.enter();
        let seen = Arc::clone(&running);
        let task = Task::named("compact", move || {
            assert_eq!(seen.now().map(|task| task.name), Some("compact"));
        });
        running.begin(&task);
        task.run();
        assert_ne!(running.now().map(|task| task.name), Some("compact"));
        running.idle();
        assert_eq!(running.now(), None);
        assert_eq!(running.started(), 1);
    }

    #[test]
    fn readers_never_see_a_torn_name() {
        let given = Given::default();
        let names = ["a", "a much longer name than the other"];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..20_000 {
                    given.set(Some(names[turn % 2]));
                }
            });
            for _ in 0..20_000 {
                if let Some(name) = given.get() {
                    assert!(names.contains(&name));
                }
            }
        });
    }

    #[test]
    fn a_second_writer_keeps_out_of_a_half_written_name() {
        let given = Given::default();
        given.set(Some("first"));
        // The state in which another thread leaves the record in the middle of a write.
        let version = given.version.fetch_add(1, Ordering::Relaxed);
        given.set(Some("a longer second"));
        assert_eq!(given.len.load(Ordering::Relaxed), "first".len());
        assert_eq!(given.get(), None, "being changed");
        given.version.store(version + 2, Ordering::Relaxed);
        assert_eq!(given.get(), Some("first"));
    }

    #[test]
    fn a_nested_driver_restores_the_outer_record() {
        let (outer, inner) = (Arc::new(Running::default()), Arc::new(Running::default()));
        let _outer = outer.enter();
        {
            let _inner = inner.enter();
        }
        Task::named("seen", {
            let outer = Arc::clone(&outer);
            move || assert_eq!(outer.given.get(), Some("seen"))
        })
        .run();
    }
}
