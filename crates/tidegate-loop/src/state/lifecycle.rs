//! The life of a loop: its states, how it is asked to end, and what it leaves behind.

use std::fmt;

use tidegate_core::prim::{AtomicU8, Ordering};
use tidegate_pool::HandedBack;

/// Where a loop is in its life. Later states are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifecycle {
    /// It has no thread and never had one.
    NotStarted,
    /// It gave its thread back and gets a new one when work comes.
    Suspended,
    /// It was asked to give its thread back as soon as it has nothing to do.
    Suspending,
    /// It runs.
    Started,
    /// It was asked to end and still takes tasks.
    ShuttingDown,
    /// It takes no more tasks and deals with those it has.
    Shutdown,
    /// It is over.
    Terminated,
}

/// A [`Lifecycle`] that threads share.
#[derive(Debug)]
pub(crate) struct State {
    word: AtomicU8,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU8::new(Lifecycle::NotStarted as u8),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Lifecycle {
        // ORDERING: Acquire pairs with the AcqRel of `advance`: who sees a state sees what led
        // to it.
        from_word(self.word.load(Ordering::Acquire))
    }

    /// Whether a thread has to be started before work can run.
    #[inline(always)]
    pub(crate) fn needs_thread(&self) -> bool {
        self.word.load(Ordering::Relaxed) <= Lifecycle::Suspended as u8
    }

    /// Goes from `from` to `to`; false if the state is another.
    pub(crate) fn advance(&self, from: Lifecycle, to: Lifecycle) -> bool {
        // ORDERING: AcqRel: whoever changes the state sees, and shows, what went before.
        self.word
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Goes to [`Lifecycle::Started`] from any earlier state.
    pub(crate) fn begin(&self) {
        self.raise(Lifecycle::Started);
    }

    /// Goes to `to` if that is later than now; answers the state before.
    pub(crate) fn raise(&self, to: Lifecycle) -> Lifecycle {
        // ORDERING: AcqRel, as in `advance`.
        from_word(self.word.fetch_max(to as u8, Ordering::AcqRel))
    }
}

fn from_word(word: u8) -> Lifecycle {
    const ALL: [Lifecycle; 7] = [
        Lifecycle::NotStarted,
        Lifecycle::Suspended,
        Lifecycle::Suspending,
        Lifecycle::Started,
        Lifecycle::ShuttingDown,
        Lifecycle::Shutdown,
        Lifecycle::Terminated,
    ];
    ALL[usize::from(word)]
}

/// What a loop did on its way out. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Tasks that ran after the loop was asked to end.
    pub ran: u64,
    /// Scheduled tasks that were cancelled.
    pub cancelled: u64,
    /// Futures that were dropped before they were ready.
    pub dropped: u64,
    /// Shutdown hooks that ran.
    pub hooks: u64,
    /// Tasks that were accepted and had not started at the deadline.
    pub handed_back: HandedBack,
}

impl ShutdownReport {
    /// Adds another loop's report to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ran += other.ran;
        self.cancelled += other.cancelled;
        self.dropped += other.dropped;
        self.hooks += other.hooks;
        self.handed_back.gather(&other.handed_back);
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tasks and {} hooks run, {} timers cancelled, {} futures dropped, {} tasks handed back",
            self.ran,
            self.hooks,
            self.cancelled,
            self.dropped,
            self.handed_back.len()
        )
    }
}

/// What a loop was asked to do on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nanoseconds without a submission after which the loop closes.
    pub(crate) quiet: u64,
    /// The moment at which it closes at the latest.
    pub(crate) deadline: u64,
    /// Tasks that had been started when it was asked.
    pub(crate) started: u64,
}

impl Plan {
    /// The stricter of two plans.
    pub(crate) fn stricter(self, other: Self) -> Self {
        Self {
            quiet: self.quiet.min(other.quiet),
            deadline: self.deadline.min(other.deadline),
            started: self.started.min(other.started),
        }
    }
}
