//! Where errors go that nobody handles: one hook, on a thread of its own.
//!
//! The hook is code of the user's. Whatever it does, it does on a thread that runs only while there
//! are reports: the loop, pool or timer that tells goes on. It waits for the hook, but only for
//! [`PATIENCE`], so that a quick hook has heard before the next thing happens, and not at all while
//! the hook is known to be slow.
//!
//! What finds the queue full, or comes more often than the hook wants, is counted, and the count
//! is told: as soon as the hook has heard the rest, or when the span of its limit ends.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::mem;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::report::Unhandled;
use crate::thread::{ThreadNames, spawn_bare};
use crate::{Clock, Parker, as_nanos, contain};

/// How long a teller waits until the hook has heard.
const PATIENCE: Duration = Duration::from_millis(50);
/// The most reports that wait for one hook.
const BOUND: usize = 256;
/// Lines that a hook of lines writes in each [`SPAN`].
const LINES: u32 = 10;
const SPAN: Duration = Duration::from_secs(1);
/// The most bytes of one line, its end included: less than a pipe takes in one piece.
const LONGEST: usize = 2048;

/// Hears of errors that nobody handles: a panicking task or listener, an error on a channel, a
/// setting without effect.
///
/// Clones are the same hook. The default writes one line for each to standard error, at most ten in
/// a second, and then how many it left out.
///
/// A hook may block, panic, or cause further errors. It runs on a thread of its own, one report at
/// a time; who tells waits for it a moment and no longer. While it is busy, 256 reports wait; more
/// are counted ([`Unhandled::LeftOut`]). A report on which it panics goes to standard error.
///
/// ```
/// use tidegate_core::{OnUnhandled, Unhandled};
///
/// let (tx, rx) = std::sync::mpsc::channel();
/// let hook = OnUnhandled::new(move |who, what| tx.send(format!("{who}: {what}")).unwrap());
/// hook.tell("io-0", &Unhandled::TaskPanic { task: "compact", message: "out of ink" });
/// assert_eq!(rx.recv().unwrap(), "io-0: task `compact` panicked: out of ink");
/// ```
#[derive(Clone)]
pub struct OnUnhandled {
    shared: Arc<Shared>,
}

type Hear = dyn Fn(&str, &Unhandled<'_>) + Send + Sync;

struct Shared {
    hear: Box<Hear>,
    /// By which the lines in each [`SPAN`] are counted; `None`: all are wanted.
    limit: Option<Clock>,
    desk: Mutex<Desk>,
    /// Somebody waits until a report was heard.
    heard: Condvar,
    /// Where the hook's thread waits for the end of a span.
    parker: Parker,
}

#[derive(Default)]
struct Desk {
    reports: VecDeque<Report>,
    /// Reports taken so far, and how many of them were heard.
    taken: u64,
    heard: u64,
    /// A thread hears, or is on its way.
    attended: bool,
    /// A teller has waited in vain; nobody else does until all is heard.
    slow: bool,
    /// When the present span ends, and what was written in it.
    span_end: u64,
    lines: u32,
    left_out: u64,
    /// Who told what was left out; `None` when there are several.
    left_out_of: Option<String>,
    /// The count is told after so many reports, and not before this moment: when the first of
    /// those left out came, these were ahead of it, and this was the end of its span.
    count_after: u64,
    count_at: u64,
}

thread_local! {
    /// This thread is a hook's.
    static HEARS: Cell<bool> = const { Cell::new(false) };
}

impl OnUnhandled {
    /// A hook that hears everything, with the name of the executor, timer or isolation that tells.
    pub fn new(hear: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        Self::with(Box::new(hear), None)
    }

    /// A hook that writes a line for each report to `out`, at most ten in a second of `clock`; at
    /// the end of such a second it writes how many it left out.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::sync::mpsc;
    /// use tidegate_core::{Clock, OnUnhandled, Unhandled};
    ///
    /// struct Lines(mpsc::Sender<String>);
    /// impl Write for Lines {
    ///     fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
    ///         let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
    ///         Ok(line.len())
    ///     }
    ///     fn flush(&mut self) -> std::io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let hook = OnUnhandled::lines(Lines(tx), &Clock::system());
    /// hook.tell("io-0", &Unhandled::ListenerPanic { message: "two\nlines" });
    /// assert_eq!(rx.recv().unwrap(), "tidegate: io-0: a listener panicked: two\\nlines\n");
    /// ```
    pub fn lines(out: impl Write + Send + 'static, clock: impl Into<Clock>) -> Self {
        let out = Mutex::new(out);
        let write = move |who: &str, what: &Unhandled<'_>| {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            // An output that fails has nowhere to say so.
            let _ = out.write_all(&line(who, what)).and_then(|()| out.flush());
        };
        Self::with(Box::new(write), Some(clock.into()))
    }

    /// The hook that is there when nothing is said: lines to standard error, limited for the whole
    /// process.
    pub fn stderr() -> Self {
        static STDERR: OnceLock<OnUnhandled> = OnceLock::new();
        STDERR
            .get_or_init(|| Self::lines(std::io::stderr(), Clock::system()))
            .clone()
    }

    fn with(hear: Box<Hear>, limit: Option<Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                hear,
                limit,
                desk: Mutex::default(),
                heard: Condvar::new(),
                parker: Parker::new(),
            }),
        }
    }

    /// Tells the hook. `who` is the executor, timer or isolation where it happened.
    ///
    /// # Threads
    ///
    /// From any thread, also from the hook itself; never call it with a lock held. Returns when the
    /// hook has heard, or after a moment.
    #[cold]
    pub fn tell(&self, who: &str, what: &Unhandled<'_>) {
        let shared = &self.shared;
        if cfg!(any(tidegate_loom, tidegate_shuttle)) {
            // A model has no threads but its own.
            return (shared.hear)(who, what);
        }
        let mut desk = shared.desk();
        let number = desk.take(who, what, shared.limit.as_ref());
        let attended = mem::replace(&mut desk.attended, true);
        drop(desk);
        if attended {
            shared.parker.unpark();
        } else if !shared.attend() {
            return;
        }
        if let Some(number) = number
            && !HEARS.try_with(Cell::get).unwrap_or(true)
        {
            shared.wait_for(number);
        }
    }

    /// Waits until the hook has heard what was told so far; returns at once on the hook's thread.
    pub(super) fn wait_until_heard(&self) {
        if HEARS.try_with(Cell::get).unwrap_or(true) {
            return;
        }
        let mut desk = self.shared.desk();
        let taken = desk.taken;
        if taken > desk.heard && !mem::replace(&mut desk.attended, true) {
            drop(desk);
            if !self.shared.attend() {
                return;
            }
            desk = self.shared.desk();
        }
        let heard = &self.shared.heard;
        let waited = heard.wait_while(desk, |desk| desk.heard < taken);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Default for OnUnhandled {
    fn default() -> Self {
        Self::stderr()
    }
}

impl fmt::Debug for OnUnhandled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnUnhandled").finish_non_exhaustive()
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that hears; false if none can be had. Then lines are written here, and
    /// what is for a user's hook waits until the next teller finds a thread.
    fn attend(self: &Arc<Self>) -> bool {
        static NAMES: LazyLock<ThreadNames> = LazyLock::new(|| ThreadNames::new("unhandled"));
        let shared = Arc::clone(self);
        let job = move || {
            HEARS.set(true);
            while let Some(report) = shared.next() {
                shared.hear_counted(&report);
            }
        };
        let started = spawn_bare(&NAMES, job, |who, what| {
            OnUnhandled::stderr().tell(who, what)
        });
        if started.is_err() {
            self.desk().attended = false;
            while self.limit.is_some()
                && let Some(report) = self.pop()
            {
                self.hear_counted(&report);
            }
        }
        started.is_ok()
    }

    fn pop(&self) -> Option<Report> {
        self.desk().reports.pop_front()
    }

    fn hear_counted(&self, report: &Report) {
        self.hear(report);
        let mut desk = self.desk();
        desk.heard += u64::from(!matches!(report.what, Kept::LeftOut(_)));
        desk.slow &= desk.heard < desk.taken;
        drop(desk);
        self.heard.notify_all();
    }

    /// The next report, or the count of what was left out when it is time for that; `None` when
    /// there is neither, and the thread leaves.
    fn next(&self) -> Option<Report> {
        loop {
            let mut desk = self.desk();
            if let Some(count) = desk.take_count(self.limit.as_ref()) {
                return Some(count);
            }
            if let Some(report) = desk.reports.pop_front() {
                return Some(report);
            }
            match &self.limit {
                Some(clock) if desk.left_out > 0 => {
                    let end = desk.count_at;
                    drop(desk);
                    clock.park_until(&self.parker, Some(end));
                }
                _ => {
                    desk.attended = false;
                    return None;
                }
            }
        }
    }

    /// Lets the hook hear. What it panics on is told to the other hook, which does not panic.
    fn hear(&self, report: &Report) {
        let what = report.what.borrow();
        let heard = contain(|| (self.hear)(&report.who, &what));
        if heard.is_err() && self.limit.is_none() {
            let message = "the hook for unhandled errors panicked on what follows";
            let stderr = OnUnhandled::stderr();
            stderr.tell(&report.who, &Unhandled::HookPanic { message });
            stderr.tell(&report.who, &what);
        }
    }

    fn wait_for(&self, number: u64) {
        let waits = |desk: &mut Desk| desk.heard < number && !desk.slow;
        let waited = self.heard.wait_timeout_while(self.desk(), PATIENCE, waits);
        let (mut desk, over) = waited.unwrap_or_else(PoisonError::into_inner);
        desk.slow |= over.timed_out();
    }
}

impl Desk {
    /// Takes a report, or counts it as left out; the number by which it was taken.
    fn take(&mut self, who: &str, what: &Unhandled<'_>, limit: Option<&Clock>) -> Option<u64> {
        if self.reports.len() >= BOUND || !limit.is_none_or(|clock| self.may_write(clock)) {
            let first = self.left_out == 0;
            self.left_out += 1;
            if first {
                self.left_out_of = Some(who.to_owned());
                self.count_after = self.taken;
                self.count_at = self.span_end;
            } else if self.left_out_of.as_deref() != Some(who) {
                self.left_out_of = None;
            }
            return None;
        }
        self.reports.push_back(Report {
            who: who.to_owned(),
            what: Kept::of(what),
        });
        self.taken += 1;
        Some(self.taken)
    }

    /// The count of what was left out, if it is time to tell it.
    fn take_count(&mut self, limit: Option<&Clock>) -> Option<Report> {
        let begun = self.taken - self.reports.len() as u64;
        let early = limit.is_some_and(|clock| clock.nanos() < self.count_at);
        if self.left_out == 0 || begun < self.count_after || early {
            return None;
        }
        let who = self.left_out_of.take();
        Some(Report {
            who: who.unwrap_or_else(|| "several".to_owned()),
            what: Kept::LeftOut(mem::take(&mut self.left_out)),
        })
    }

    /// Whether the present span has a line left, which is then taken.
    fn may_write(&mut self, clock: &Clock) -> bool {
        let now = clock.nanos();
        if now >= self.span_end {
            self.span_end = now.saturating_add(as_nanos(SPAN));
            self.lines = 0;
        }
        let may = self.lines < LINES;
        self.lines += u32::from(may);
        may
    }
}

/// A report on its way to the hook.
struct Report {
    who: String,
    what: Kept,
}

/// An [`Unhandled`] that owns its texts.
enum Kept {
    TaskPanic(String, String),
    ListenerPanic(String),
    HookPanic(String),
    ProducerPanic(String),
    ChannelError(String),
    Setting(String),
    ListenerFellBack,
    LeftOut(u64),
}

impl Kept {
    fn of(what: &Unhandled<'_>) -> Self {
        match *what {
            Unhandled::TaskPanic { task, message } => Self::TaskPanic(task.into(), message.into()),
            Unhandled::ListenerPanic { message } => Self::ListenerPanic(message.into()),
            Unhandled::HookPanic { message } => Self::HookPanic(message.into()),
            Unhandled::ProducerPanic { message } => Self::ProducerPanic(message.into()),
            Unhandled::ChannelError { message } => Self::ChannelError(message.into()),
            Unhandled::Setting { message } => Self::Setting(message.into()),
            Unhandled::ListenerFellBack => Self::ListenerFellBack,
            Unhandled::LeftOut { count } => Self::LeftOut(count),
        }
    }

    fn borrow(&self) -> Unhandled<'_> {
        match self {
            Self::TaskPanic(task, message) => Unhandled::TaskPanic { task, message },
            Self::ListenerPanic(message) => Unhandled::ListenerPanic { message },
            Self::HookPanic(message) => Unhandled::HookPanic { message },
            Self::ProducerPanic(message) => Unhandled::ProducerPanic { message },
            Self::ChannelError(message) => Unhandled::ChannelError { message },
            Self::Setting(message) => Unhandled::Setting { message },
            Self::ListenerFellBack => Unhandled::ListenerFellBack,
            Self::LeftOut(count) => Unhandled::LeftOut { count: *count },
        }
    }
}

/// One line: no control characters inside, not longer than [`LONGEST`].
fn line(who: &str, what: &Unhandled<'_>) -> Vec<u8> {
    let mut line = String::from("tidegate: ");
    let text = format!("{who}: {what}");
    for letter in text.chars() {
        if line.len() > LONGEST - 16 {
            line.push_str(" …");
            break;
        }
        match letter.is_control() {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }
    line.push('\n');
    line.into_bytes()
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests;
