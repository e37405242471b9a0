//! An executor without a thread: tasks run where they are submitted.
//!
//! What a running task submits waits in a queue of the thread until that task has returned, so
//! the stack does not grow with the length of a chain. The queue is the thread's, shared by all
//! immediate executors, so two of them that feed each other do not grow it either.
//!
//! The thread is not marked as running an executor's work: it stays what it was, and a wait is
//! refused or allowed as it would be without the executor in between.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{
    Clock, Executor, ExecutorId, OnUnhandled, Rejected, Signal, Task, Unhandled, contain,
};
use tidegate_promise::{Completion, Promise, promise_on};

tidegate_core::prim::thread_local! {
    /// What waits until the running task has returned; `None` while none runs.
    static WAITING: RefCell<Option<VecDeque<Work>>> = const { RefCell::new(None) };
}

/// Runs tasks on the calling thread, at once.
///
/// For code that asks for an executor where no other thread is wanted: tests, defaults, and
/// listeners that may run wherever their promise completes. A task that is submitted from inside
/// another one runs after it, in order. Clones are the same executor.
///
/// It cannot schedule and has no end: those are an event loop's.
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
    /// An executor whose promises are waited for by the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::system())
    }

    /// An executor whose promises are waited for by `clock`.
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                id: ExecutorId::next(),
                clock: clock.into(),
                panics: AtomicU64::new(0),
                on_unhandled: OnUnhandled::stderr(),
            }),
        }
    }

    /// Another executor, by the same clock, whose panics `hook` hears of;
    /// [`OnUnhandled::stderr`] unless given.
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

    /// Runs `run` on the calling thread: now, or after the immediate task from inside which
    /// this is called. Nothing is ever refused.
    ///
    /// # Threads
    ///
    /// From any thread. A panic of `run` goes no further; it is counted and reported.
    pub fn execute<F>(&self, run: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.start(What::Task(Task::new(run)));
    }

    /// A promise whose listeners run on the thread that completes it.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::new(self.clone()))
    }

    /// Panics of tasks and listeners so far.
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

    /// Always true: whichever thread asks would run the task.
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

    /// Every thread can run one of its tasks.
    fn width(&self) -> usize {
        usize::MAX
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        if matches!(what, Unhandled::ListenerPanic { .. }) {
            self.shared.panics.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.on_unhandled.tell(self.name(), what);
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

/// Something to run, and who counts its panic.
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
            self.shared.on_unhandled.tell("immediate", &what);
        }
    }
}

/// Queues `work` behind what this thread runs; gives it back if the thread runs nothing, which
/// from now on counts as running.
fn queue(work: Work) -> Option<Work> {
    let mut work = Some(work);
    // A thread that is ending has no queue any more, and runs everything at once.
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

/// Says that the thread runs nothing, however the outermost task was left.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let left = WAITING.try_with(|waiting| waiting.borrow_mut().take());
        drop(left);
    }
}
