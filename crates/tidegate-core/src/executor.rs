//! The one small trait through which every lower crate knows a place where tasks run.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Clock, OnUnhandled, Signal, Task, WaitRefused};

/// A place where tasks run: an event loop, a pool, a view over one.
///
/// `execute` takes what users submit and may refuse it. `signal` takes what was accepted
/// earlier and only has to be told (a completed promise, a woken future); it refuses only when
/// the place is gone for good.
///
/// ```
/// use tidegate_core::{Executor, Task, ThreadPerTask, ThreadBuilder};
///
/// let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
/// let (tx, rx) = std::sync::mpsc::channel();
/// threads.execute(Task::new(move || tx.send(1).unwrap())).unwrap();
/// assert_eq!(rx.recv(), Ok(1));
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Accepts `task`, which will then run exactly once or be handed back at shutdown.
    ///
    /// # Errors
    ///
    /// The task itself, when the place is full or closed.
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Accepts a task of the runtime's own, such as a helper that is to produce, or the start of a
    /// loop. An executor with a lane for those refuses none for want of room; any other takes it
    /// like the rest.
    ///
    /// # Errors
    ///
    /// The task itself, when the executor has ended, or is full and has no such lane.
    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.execute(task)
    }

    /// Accepts `signal`, which will be delivered on this executor.
    ///
    /// # Errors
    ///
    /// The signal itself, when this executor has terminated.
    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>>;

    /// Whether the calling thread is running this executor's work right now.
    fn is_current(&self) -> bool;

    /// This executor's identity.
    fn id(&self) -> ExecutorId;

    /// What this executor is called in errors and reports.
    fn name(&self) -> &str;

    /// The clock by which this executor waits.
    fn clock(&self) -> &Clock;

    /// How many of its tasks can run at the same time; a loop runs one.
    fn width(&self) -> usize {
        1
    }

    /// Whether tasks that it accepted and has not begun will not begin here: it has ended, or its
    /// end was given up, and nobody has taken them. Whoever waits for such a task hears so. Never,
    /// by default.
    fn has_left_tasks(&self) -> bool {
        false
    }

    /// Called before the calling thread waits for something of this executor; what it returns is held
    /// for as long as the wait lasts. For an executor that knows more of who waits for whom than the
    /// record of waits does.
    ///
    /// # Errors
    ///
    /// A [`WaitRefused`] when the wait would never end.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused> {
        Ok(None)
    }

    /// Hears of what nobody else handles: a panicking listener, a listener that had to run
    /// elsewhere. Called on the thread where it happened, with no lock held. By default it goes to
    /// [`OnUnhandled::stderr`].
    fn unhandled(&self, what: &Unhandled<'_>) {
        OnUnhandled::stderr().tell(self.name(), what);
    }
}

/// Something that went wrong with nobody waiting to be told.
///
/// ```
/// use tidegate_core::Unhandled;
///
/// let what = Unhandled::TaskPanic { task: "compact", message: "out of ink" };
/// assert_eq!(what.to_string(), "task `compact` panicked: out of ink");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhandled<'a> {
    /// A task given to `execute` panicked.
    TaskPanic {
        /// The task's name.
        task: &'a str,
        /// The panic's message.
        message: &'a str,
    },
    /// A listener of a promise panicked.
    ListenerPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// A shutdown hook or a start or stop hook of a thread panicked.
    HookPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// A producer of a strategy panicked.
    ProducerPanic {
        /// The panic's message.
        message: &'a str,
    },
    /// Something went wrong with a channel, and none of its handlers took it.
    ChannelError {
        /// What went wrong.
        message: &'a str,
    },
    /// A setting that was accepted has no effect, or not the one that its name suggests.
    Setting {
        /// Which setting, why, and what to do.
        message: &'a str,
    },
    /// Listeners ran on the completing thread because their executor has terminated.
    ListenerFellBack,
    /// Reports that a hook was not told, because there were too many; see [`OnUnhandled`].
    LeftOut {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Unhandled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TaskPanic { task, message } => write!(f, "task `{task}` panicked: {message}"),
            Self::ListenerPanic { message } => write!(f, "a listener panicked: {message}"),
            Self::HookPanic { message } => write!(f, "a hook panicked: {message}"),
            Self::ProducerPanic { message } => write!(f, "a producer panicked: {message}"),
            Self::ChannelError { message } => write!(f, "an error on a channel: {message}"),
            Self::Setting { message } => write!(f, "a setting has no effect: {message}"),
            Self::ListenerFellBack => {
                write!(f, "listeners ran elsewhere: their executor has terminated")
            }
            Self::LeftOut { count: 1 } => write!(f, "1 more error was left out"),
            Self::LeftOut { count } => write!(f, "{count} more errors were left out"),
        }
    }
}

/// The message of a caught panic, for reports.
///
/// ```
/// let caught = std::panic::catch_unwind(|| panic!("out of ink")).unwrap_err();
/// assert_eq!(tidegate_core::panic_message(&*caught), "out of ink");
/// ```
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    if let Some(message) = payload.downcast_ref::<&'static str>() {
        message
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message
    } else {
        "a panic without a message"
    }
}

/// Identity of an executor: unique in the process, never reused.
///
/// ```
/// use tidegate_core::ExecutorId;
///
/// assert_ne!(ExecutorId::next(), ExecutorId::next());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutorId(NonZeroU64);

impl ExecutorId {
    /// Takes the next free identity.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(NonZeroU64::new(id).expect("2^64 executors are more than one process can make"))
    }

    /// The identity as a number, never zero.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A refusal that gives the refused value back.
///
/// ```
/// use tidegate_core::{Rejected, Refusal};
///
/// let refused = Rejected::new(7, Refusal::Full);
/// assert_eq!(refused.to_string(), "rejected: the queue is full; try again later or shed load");
/// assert_eq!(refused.into_inner(), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "the refused value is inside"]
pub struct Rejected<T> {
    value: T,
    why: Refusal,
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue holds as many tasks as it may.
    Full,
    /// The executor no longer accepts work.
    Closed,
    /// No thread could be started to run it.
    NoThread,
    /// No thread waits for work at this moment, and the caller asked not to queue.
    Busy,
    /// The executor does not offer this operation.
    Unsupported,
    /// The caller's token was tripped while it waited for room.
    Interrupted,
}

impl<T> Rejected<T> {
    /// A refusal of `value`.
    pub fn new(value: T, why: Refusal) -> Self {
        Self { value, why }
    }

    /// Why it was refused.
    pub fn why(&self) -> Refusal {
        self.why
    }

    /// The refused value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The same refusal of another value, made from the refused one.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Rejected<U> {
        Rejected {
            value: f(self.value),
            why: self.why,
        }
    }
}

impl<T> fmt::Debug for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rejected: {}", self.why)
    }
}

impl<T> Error for Rejected<T> {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full; try again later or shed load",
            Self::Closed => "the executor is shut down; submit to another one",
            Self::NoThread => "no thread could be started; try again when the system has room",
            Self::Busy => "no thread is free at this moment; queue it or run it yourself",
            Self::Unsupported => "this executor does not offer the operation",
            Self::Interrupted => "the wait for room was interrupted by its cancel token",
        })
    }
}

/// The closure of a policy that decides what becomes of a task for which there is no room.
pub type RejectWith =
    std::sync::Arc<dyn Fn(Rejected<Task>) -> Result<(), Rejected<Task>> + Send + Sync>;
