//! An executor without a thread: a task runs on the thread that submits it.
//!
//! A task that is submitted by a running task waits in a thread-local queue until the running task
//! has returned, so a chain of tasks does not grow the stack. All immediate executors of a thread
//! share that queue, so two executors that submit to each other do not grow the stack either.
//!
//! The thread is not marked as running an executor's work. A blocking wait is refused or allowed
//! exactly as it would be without this executor.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::internal::contain;
use tidegate_core::{Clock, Executor, OnUnhandled, Rejected, Task, Unhandled};
use tidegate_promise::{Completion, Promise, promise_on};

tidegate_core::internal::prim::thread_local! {
    /// Work that waits until the running task has returned; `None` while no task runs.
    static WAITING: RefCell<Option<VecDeque<Work>>> = const { RefCell::new(None) };
}

/// Runs tasks on the calling thread, immediately.
///
/// Use it where an API needs an executor and no other thread is wanted: in tests, as a default,
/// and for listeners that may run wherever their promise completes. A task that is submitted from
/// inside another task runs after it, in order. Clones are the same executor.
///
/// It cannot schedule delayed tasks and cannot be shut down; use an event loop for that.
///
/// ```
/// use tidegate_pool::ImmediateExecutor;
///
/// let here = ImmediateExecutor::new();
/// let (promise, answer) = here.promise::<u32>();
/// here.execute(move || promise.succeed(7).unwrap());
/// assert_eq!(answer.wait()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ImmediateExecutor {
    shared: Arc<Shared>,
}

struct Shared {
    id: ExecutorId,
    clock: Clock,
    panics: AtomicU64,
    on_unhandled: OnUnhandled,
}

impl ImmediateExecutor {
    /// Creates an executor whose promises measure waits with the system clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::system())
    }

    /// Creates an executor whose promises measure waits with `clock`.
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                id: ExecutorId::next(),
                clock: clock.into(),
                panics: AtomicU64::new(0),
                on_unhandled: OnUnhandled::default(),
            }),
        }
    }

    /// Returns a new executor with the same clock that reports panics to `hook`. The default is
    /// [`OnUnhandled::default`].
    #[must_use]
    pub fn report_to(self, hook: OnUnhandled) -> Self {
        Self {
            shared: Arc::new(Shared {
                id: ExecutorId::next(),
                clock: self.shared.clock.clone(),
                panics: AtomicU64::new(0),
                on_unhandled: hook,
            }),
        }
    }

    /// Runs `run` on the calling thread: now, or, if called from inside an immediate task, after
    /// that task. Never refuses a task.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. A panic of `run` is caught, counted and reported.
    pub fn execute<F>(&self, run: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.start(What::Task(Task::new(run)));
    }

    /// Creates a promise whose listeners run on the thread that completes it.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::new(self.clone()))
    }

    /// Returns how many tasks and listeners have panicked so far.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    fn start(&self, what: What) {
        let work = Work {
            what,
            shared: Arc::clone(&self.shared),
        };
        if let Some(work) = queue(work) {
            let _end = End;
            work.run();
            while let Some(next) = next() {
                next.run();
            }
        }
    }
}

impl Default for ImmediateExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor for ImmediateExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.start(What::Task(task));
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.start(What::Signal(signal));
        Ok(())
    }

    /// Always `true`: the task would run on the calling thread, whichever it is.
    fn is_current(&self) -> bool {
        true
    }

    fn id(&self) -> ExecutorId {
        self.shared.id
    }

    fn name(&self) -> &str {
        "immediate"
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns `usize::MAX`: every thread can run one of its tasks.
    fn width(&self) -> usize {
        usize::MAX
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        if matches!(what, Unhandled::ListenerPanic { .. }) {
            self.shared.panics.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.on_unhandled.report(self.name(), what);
    }
}

impl fmt::Debug for ImmediateExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImmediateExecutor")
            .field("id", &self.shared.id)
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}

/// A task or signal to run, and the executor that counts its panic.
struct Work {
    what: What,
    shared: Arc<Shared>,
}

enum What {
    Task(Task),
    Signal(Signal),
}

impl Work {
    fn run(self) {
        let (task, ran) = match self.what {
            What::Task(task) => (task.name(), contain(|| task.run())),
            What::Signal(signal) => ("a signal", contain(|| signal.deliver())),
        };
        if let Err(panic) = ran {
            self.shared.panics.fetch_add(1, Ordering::Relaxed);
            let message = panic.message();
            let what = Unhandled::TaskPanic { task, message };
            self.shared.on_unhandled.report("immediate", &what);
        }
    }
}

/// Queues `work` if this thread is running a task. Otherwise marks the thread as running and
/// returns `work` to the caller, which runs it.
fn queue(work: Work) -> Option<Work> {
    let mut work = Some(work);
    // A thread that is exiting has lost its queue and runs all work immediately.
    let _ = WAITING.try_with(|waiting| match &mut *waiting.borrow_mut() {
        Some(waiting) => waiting.extend(work.take()),
        idle => *idle = Some(VecDeque::new()),
    });
    work
}

fn next() -> Option<Work> {
    let next = WAITING.try_with(|waiting| waiting.borrow_mut().as_mut()?.pop_front());
    next.ok().flatten()
}

/// Marks the thread as not running when dropped, on every path out of the outermost task.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let left = WAITING.try_with(|waiting| waiting.borrow_mut().take());
        drop(left);
    }
}
