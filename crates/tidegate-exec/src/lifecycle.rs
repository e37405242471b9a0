//! The life of a loop: its states, how it is asked to end, and what it leaves behind.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate_core::Task;
use tidegate_core::prim::{AtomicBool, AtomicU8, Mutex, MutexGuard, Ordering};
use tidegate_promise::Abandoned;

use crate::answer::drop_untaken;

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

/// How patiently a loop ends: it waits until nothing was submitted for `period`, but at most
/// `timeout` in all.
///
/// ```
/// use std::time::Duration;
/// use tidegate_exec::Quiet;
///
/// let patient = Quiet::default();
/// assert_eq!((patient.period.as_secs(), patient.timeout.as_secs()), (2, 15));
/// let at_once = Quiet::none(Duration::from_secs(1));
/// assert!(at_once.period.is_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// How long nothing may be submitted before the loop closes.
    pub period: Duration,
    /// When it closes at the latest.
    pub timeout: Duration,
}

impl Quiet {
    /// Closes as soon as what was accepted has run, and after `timeout` at the latest.
    pub fn none(timeout: Duration) -> Self {
        Self {
            period: Duration::ZERO,
            timeout,
        }
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(2),
            timeout: Duration::from_secs(15),
        }
    }
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

/// Tasks that a closing loop gives back, to be run elsewhere or dropped. Clones share them.
///
/// Take them: a wait for a submission that nobody has taken fails with
/// [`NeverBegun`](crate::NeverBegun), a future that is pending on it is woken to hear so, and its
/// completion fails with that when the last report goes. Of a loop that is stuck nothing can be
/// taken in time: listeners are told at once, on a thread of their own. A task
/// that holds a handle of its own loop keeps both until then.
#[derive(Clone)]
pub struct HandedBack {
    /// One for each loop; the first one is of the loop that this was made for.
    inner: Arc<Mutex<Vec<Parcel>>>,
}

/// What one loop hands back.
#[derive(Default)]
struct Parcel {
    tasks: Vec<Task>,
    /// Set when somebody takes them.
    taken: Arc<AtomicBool>,
}

impl Default for HandedBack {
    fn default() -> Self {
        Self {
            inner: Arc::new(Mutex::new(vec![Parcel::default()])),
        }
    }
}

impl HandedBack {
    /// How many tasks there are to take.
    pub fn len(&self) -> usize {
        self.lock().iter().map(|parcel| parcel.tasks.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the tasks, oldest first.
    pub fn take(&self) -> Vec<Task> {
        let mut all = Vec::new();
        for parcel in &mut *self.lock() {
            // One that is empty may be filled later, by a loop that is stuck.
            if !parcel.tasks.is_empty() {
                parcel.taken.store(true, Ordering::Relaxed);
                all.append(&mut parcel.tasks);
            }
        }
        all
    }

    /// What says whether somebody took tasks: they are then no longer left.
    pub(crate) fn taken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lock()[0].taken)
    }

    /// Moves the tasks of another here; they are not taken by that.
    pub(crate) fn gather(&self, other: &Self) {
        let moved = |parcel: &mut Parcel| Parcel {
            tasks: std::mem::take(&mut parcel.tasks),
            taken: Arc::clone(&parcel.taken),
        };
        let parcels: Vec<_> = other.lock().iter_mut().map(moved).collect();
        self.lock().extend(parcels);
    }

    pub(crate) fn add(&self, tasks: impl IntoIterator<Item = Task>) {
        self.lock()[0].tasks.extend(tasks);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Parcel>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Parcel {
    /// Tasks that nobody took are dropped one by one: a panic in one does not keep the others.
    /// Here and not with the handle: of two last handles that go at once, neither is alone.
    fn drop(&mut self) {
        drop_untaken(std::mem::take(&mut self.tasks));
    }
}

impl fmt::Debug for HandedBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedBack")
            .field("tasks", &self.len())
            .finish()
    }
}

impl PartialEq for HandedBack {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for HandedBack {}

/// Why a loop's shutdown did not end well.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The quiet period is longer than the timeout.
    BadQuiet(Quiet),
    /// This executor cannot be shut down.
    Unsupported,
    /// A task had not returned at the deadline. Its thread is left to itself.
    Stuck {
        /// The loop.
        name: String,
        /// The task that did not return.
        task: Cow<'static, str>,
        /// How long it had been running at most: counted from the loop's last look at the clock.
        age: Duration,
        /// Tasks that waited behind it.
        behind: usize,
        /// Who was cut: what the driver still had with other threads, such as connections whose
        /// handlers had not returned. They end when those return.
        cut: Vec<String>,
        /// Those tasks, if it ever returns. The ones that were waited for or listened to were
        /// given up with this report and do not run any more.
        handed_back: HandedBack,
    },
    /// The loop's own code panicked: a bug in the driver.
    Panicked {
        /// The panic's message.
        message: String,
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// No thread could be started to run what was left and the shutdown hooks.
    NoThread {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// Its [`HandLoop`](crate::HandLoop) was dropped: nobody drives it any more.
    HandDropped {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// The loop went away without reporting.
    Lost,
}

impl ShutdownError {
    /// The tasks that had not started, if that can be said.
    pub fn handed_back(&self) -> Option<&HandedBack> {
        match self {
            Self::Stuck { handed_back, .. }
            | Self::Panicked { handed_back, .. }
            | Self::NoThread { handed_back }
            | Self::HandDropped { handed_back } => Some(handed_back),
            Self::BadQuiet(_) | Self::Unsupported | Self::Lost => None,
        }
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadQuiet(Quiet { period, timeout }) => write!(
                f,
                "the quiet period of {period:?} is longer than the timeout of {timeout:?}; \
                 raise the timeout or lower the period"
            ),
            Self::Unsupported => f.write_str("this executor cannot be shut down"),
            Self::Stuck {
                name,
                task,
                age,
                behind,
                cut,
                ..
            } => {
                write!(f, "loop {name} did not end in time: ")?;
                match cut.as_slice() {
                    [] => write!(
                        f,
                        "task `{task}` has been running for {age:?}, {behind} tasks wait behind it"
                    ),
                    cut => write!(f, "{task} has not returned, of {}", cut.join(", ")),
                }
            }
            Self::Panicked { message, .. } => write!(f, "the loop's driver panicked: {message}"),
            Self::NoThread { handed_back } => write!(
                f,
                "no thread could be started to run the shutdown hooks; {} tasks are handed back",
                handed_back.len()
            ),
            Self::HandDropped { handed_back } => write!(
                f,
                "the hand that drove the loop was dropped; {} tasks are handed back",
                handed_back.len()
            ),
            Self::Lost => f.write_str("the loop went away without reporting"),
        }
    }
}

tidegate_core::debug_as_display!(ShutdownError);

impl Error for ShutdownError {}

impl From<Abandoned> for ShutdownError {
    fn from(_: Abandoned) -> Self {
        Self::Lost
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
