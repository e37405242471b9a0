//! The receiver of errors that no other code handles: one hook, on a thread of its own.
//!
//! The hook is user code. It runs on a thread that exists only while there are reports, so that the
//! reporting loop, pool or timer goes on. The reporting thread waits for the hook, but only for
//! [`MAX_REPORT_WAIT`], so that a quick hook has received the report before the caller continues.
//! While the hook is known to be slow, the reporting thread does not wait at all.
//!
//! Reports that find the queue full, or that exceed the hook's limit, are only counted. The count
//! is reported as soon as the hook has received the queued reports, or when the span of its limit
//! ends.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::mem;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::report::Unhandled;
use crate::clock::as_nanos;
use crate::contain::contain;
use crate::sys::prim::unpoisoned;
use crate::thread::{ThreadNames, spawn_bare};
use crate::trace::{Origin, UnhandledFields, unhandled_error};
use crate::{Clock, Parker};

/// How long a reporting thread waits until the hook has received its report.
const MAX_REPORT_WAIT: Duration = Duration::from_millis(50);
/// The maximum number of reports queued for one hook.
const BOUND: usize = 256;
/// The maximum number of lines that [`OnUnhandled::lines`] writes in each [`SPAN`].
const LINES: u32 = 10;
const SPAN: Duration = Duration::from_secs(1);
/// The maximum number of bytes of one line, with its newline: less than a pipe writes atomically.
const LONGEST: usize = 2048;

/// The hook for errors that no other code handles: a panicking task or listener, an error on a
/// channel, a setting without effect.
///
/// Clones are handles to the same hook. The default reports each error as an event of `tracing` if
/// the feature `tracing` is on and the reporting thread has a subscriber. Otherwise it writes a line
/// to standard error. It reports at most ten errors in a second, and then how many it left out.
///
/// A hook may block, panic, or cause further errors. It runs on a thread of its own, one report at
/// a time. The reporting thread waits for it only a moment. While the hook is busy, up to 256
/// reports are queued; further ones are counted ([`Unhandled::LeftOut`]). A report on which the
/// hook panics goes to the default hook. One on which a subscriber panics goes to standard error.
///
/// ```
/// use tidegate_core::{OnUnhandled, Unhandled};
///
/// let (tx, rx) = std::sync::mpsc::channel();
/// let hook = OnUnhandled::new(move |source, error| tx.send(format!("{source}: {error}")).unwrap());
/// hook.report("io-0", &Unhandled::TaskPanic { task: "compact", message: "out of ink" });
/// assert_eq!(rx.recv().unwrap(), "io-0: task `compact` panicked: out of ink");
/// ```
#[derive(Clone)]
pub struct OnUnhandled {
    shared: Arc<Shared>,
}

type UnhandledFn = dyn Fn(&str, &Unhandled<'_>) + Send + Sync;

struct Shared {
    call: Box<UnhandledFn>,
    /// The clock by which lines in each [`SPAN`] are counted; `None` means no limit.
    limit: Option<Clock>,
    /// `true` for the default hook: reports go to a subscriber if there is one, and not to `call`.
    traced: bool,
    queue: Mutex<ReportQueue>,
    /// Notified after each received report.
    delivered: Condvar,
    /// Where the hook's thread waits for the end of a span.
    parker: Parker,
}

#[derive(Default)]
struct ReportQueue {
    reports: VecDeque<Report>,
    /// Number of reports accepted so far; `delivered` is how many of them the hook received.
    accepted: u64,
    delivered: u64,
    /// The hook's thread runs or is being started.
    thread_running: bool,
    /// The wait of a reporting thread timed out; no other thread waits until the hook has received
    /// all reports.
    slow: bool,
    /// When the present span ends; `lines` is the number of lines accepted in it.
    span_end: u64,
    lines: u32,
    left_out: u64,
    /// The name in the left-out reports; `None` if they have several names.
    left_out_of: Option<String>,
    /// Where the first of the left-out reports comes from.
    left_out_origin: Origin,
    /// The count of left-out reports is reported after this many accepted reports, and not before
    /// the time `count_at`: the reports ahead of the first one left out, and the end of its span.
    count_after: u64,
    count_at: u64,
}

thread_local! {
    /// Set on the thread of a hook.
    static IS_HOOK_THREAD: Cell<bool> = const { Cell::new(false) };
}

impl OnUnhandled {
    /// Creates a hook that receives every report, with the name of the executor, timer or isolation
    /// that reports it.
    pub fn new(call: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        Self::with(Box::new(call), None, false)
    }

    /// Creates a hook that writes a line for each report to `out`, at most ten in a second of
    /// `clock`. At the end of such a second it writes how many reports it left out.
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
    /// hook.report("io-0", &Unhandled::ListenerPanic { message: "two\nlines" });
    /// assert_eq!(rx.recv().unwrap(), "tidegate: io-0: a listener panicked: two\\nlines\n");
    /// ```
    pub fn lines(out: impl Write + Send + 'static, clock: impl Into<Clock>) -> Self {
        Self::writing(out, clock.into(), false)
    }

    /// Returns a hook that writes lines to standard error, limited for the whole process. It does
    /// so even if there is a subscriber of `tracing`.
    pub fn stderr() -> Self {
        static STDERR: OnceLock<OnUnhandled> = OnceLock::new();
        STDERR
            .get_or_init(|| Self::lines(std::io::stderr(), Clock::system()))
            .clone()
    }

    fn writing(out: impl Write + Send + 'static, clock: Clock, traced: bool) -> Self {
        let out = Mutex::new(out);
        let write = move |source: &str, error: &Unhandled<'_>| {
            let mut out = unpoisoned(out.lock());
            // There is nowhere to report that the output fails.
            let _ = out
                .write_all(&line(source, error))
                .and_then(|()| out.flush());
        };
        Self::with(Box::new(write), Some(clock), traced)
    }

    fn with(call: Box<UnhandledFn>, limit: Option<Clock>, traced: bool) -> Self {
        Self {
            shared: Arc::new(Shared {
                call,
                limit,
                traced,
                queue: Mutex::default(),
                delivered: Condvar::new(),
                parker: Parker::new(),
            }),
        }
    }

    /// Reports an error to the hook. `source` is the executor, timer or isolation where it
    /// happened.
    ///
    /// # Threads
    ///
    /// May be called from any thread, also from the hook itself; never call it with a lock held.
    /// Returns when the hook has received the report, or after a moment.
    #[cold]
    pub fn report(&self, source: &str, error: &Unhandled<'_>) {
        let shared = &self.shared;
        if cfg!(any(tidegate_loom, tidegate_shuttle)) {
            // A model has no threads but its own.
            return (shared.call)(source, error);
        }
        if shared.traced && error.is_traced() {
            return;
        }
        // Taken and dropped without the lock: both may call the subscriber.
        let current = shared.traced.then(Origin::current);
        let mut origin = current.unwrap_or_default();
        let mut queue = shared.queue();
        let number = queue.take(source, error, &mut origin, shared.limit.as_ref());
        let thread_running = mem::replace(&mut queue.thread_running, true);
        drop(queue);
        if thread_running {
            shared.parker.unpark();
        } else if !shared.start_thread() {
            return;
        }
        if let Some(number) = number
            && !IS_HOOK_THREAD.try_with(Cell::get).unwrap_or(true)
        {
            shared.wait_for(number);
        }
    }

    /// Waits until the hook has received all reports made so far. Returns at once on the hook's
    /// thread.
    pub(super) fn wait_until_delivered(&self) {
        if IS_HOOK_THREAD.try_with(Cell::get).unwrap_or(true) {
            return;
        }
        let mut queue = self.shared.queue();
        let accepted = queue.accepted;
        if accepted > queue.delivered && !mem::replace(&mut queue.thread_running, true) {
            drop(queue);
            if !self.shared.start_thread() {
                return;
            }
            queue = self.shared.queue();
        }
        let delivered = &self.shared.delivered;
        let waited = delivered.wait_while(queue, |queue| queue.delivered < accepted);
        drop(unpoisoned(waited));
    }
}

impl Default for OnUnhandled {
    /// Returns the default hook: events of `tracing` if there is a subscriber, else lines to
    /// standard error. Limited for the whole process.
    fn default() -> Self {
        static DEFAULT: OnceLock<OnUnhandled> = OnceLock::new();
        DEFAULT
            .get_or_init(|| Self::writing(std::io::stderr(), Clock::system(), true))
            .clone()
    }
}

impl fmt::Debug for OnUnhandled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnUnhandled").finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, ReportQueue> {
        unpoisoned(self.queue.lock())
    }

    /// Starts the hook's thread. Returns `false` if no thread can be started: lines are then
    /// written on this thread, and reports for a user's hook stay queued until a later report
    /// starts a thread.
    fn start_thread(self: &Arc<Self>) -> bool {
        static NAMES: LazyLock<ThreadNames> = LazyLock::new(|| ThreadNames::new("unhandled"));
        let shared = Arc::clone(self);
        let job = move || {
            IS_HOOK_THREAD.set(true);
            while let Some(report) = shared.next() {
                shared.call_counted(&report);
            }
        };
        let started = spawn_bare(&NAMES, job, |source, error| {
            OnUnhandled::default().report(source, error)
        });
        if started.is_err() {
            self.queue().thread_running = false;
            while self.limit.is_some()
                && let Some(report) = self.pop()
            {
                self.call_counted(&report);
            }
        }
        started.is_ok()
    }

    fn pop(&self) -> Option<Report> {
        self.queue().reports.pop_front()
    }

    fn call_counted(&self, report: &Report) {
        self.call(report);
        let mut queue = self.queue();
        queue.delivered += u64::from(!matches!(report.error, Unhandled::LeftOut { .. }));
        queue.slow &= queue.delivered < queue.accepted;
        drop(queue);
        self.delivered.notify_all();
    }

    /// Returns the next report, or the count of left-out reports when it is due. Returns `None` if
    /// there is neither; the hook's thread then ends.
    fn next(&self) -> Option<Report> {
        loop {
            let mut queue = self.queue();
            if let Some(count) = queue.take_count(self.limit.as_ref()) {
                return Some(count);
            }
            if let Some(report) = queue.reports.pop_front() {
                return Some(report);
            }
            match &self.limit {
                Some(clock) if queue.left_out > 0 => {
                    let end = queue.count_at;
                    drop(queue);
                    clock.park_until(&self.parker, Some(end));
                }
                _ => {
                    queue.thread_running = false;
                    return None;
                }
            }
        }
    }

    /// Calls the hook. A report on which a user's hook panics goes to the default hook, which does
    /// not panic.
    fn call(&self, report: &Report) {
        let error = report.error();
        if trace(report, &error) {
            return;
        }
        let delivered = contain(|| (self.call)(&report.source, &error));
        if delivered.is_err() && self.limit.is_none() {
            let message = "the hook for unhandled errors panicked on what follows";
            let default = OnUnhandled::default();
            default.report(&report.source, &Unhandled::HookPanic { message });
            default.report(&report.source, &error);
        }
    }

    fn wait_for(&self, number: u64) {
        let waits = |queue: &mut ReportQueue| queue.delivered < number && !queue.slow;
        let waited = self
            .delivered
            .wait_timeout_while(self.queue(), MAX_REPORT_WAIT, waits);
        let (mut queue, over) = unpoisoned(waited);
        queue.slow |= over.timed_out();
    }
}

impl ReportQueue {
    /// Accepts a report and returns its number, or counts it as left out.
    fn take(
        &mut self,
        source: &str,
        error: &Unhandled<'_>,
        origin: &mut Origin,
        limit: Option<&Clock>,
    ) -> Option<u64> {
        if self.reports.len() >= BOUND || !limit.is_none_or(|clock| self.may_write(clock)) {
            let first = self.left_out == 0;
            self.left_out += 1;
            if first {
                self.left_out_of = Some(source.to_owned());
                mem::swap(&mut self.left_out_origin, origin);
                self.count_after = self.accepted;
                self.count_at = self.span_end;
            } else if self.left_out_of.as_deref() != Some(source) {
                self.left_out_of = None;
            }
            return None;
        }
        let report = Report::new(source.to_owned(), error, mem::take(origin));
        self.reports.push_back(report);
        self.accepted += 1;
        Some(self.accepted)
    }

    /// Takes the count of left-out reports if it is due.
    fn take_count(&mut self, limit: Option<&Clock>) -> Option<Report> {
        let begun = self.accepted - self.reports.len() as u64;
        let early = limit.is_some_and(|clock| clock.nanos() < self.count_at);
        if self.left_out == 0 || begun < self.count_after || early {
            return None;
        }
        let source = self.left_out_of.take();
        let count = mem::take(&mut self.left_out);
        Some(Report::new(
            source.unwrap_or_else(|| "several".to_owned()),
            &Unhandled::LeftOut { count },
            mem::take(&mut self.left_out_origin),
        ))
    }

    /// Returns `true` if the present span has a line left, and takes that line.
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

/// A report queued for the hook.
struct Report {
    source: String,
    /// The error without its texts.
    error: Unhandled<'static>,
    texts: (String, String),
    origin: Origin,
}

impl Report {
    fn new(source: String, error: &Unhandled<'_>, origin: Origin) -> Self {
        let (name, message) = error.texts();
        Self {
            source,
            error: error.with_texts("", ""),
            texts: (name.to_owned(), message.to_owned()),
            origin,
        }
    }

    fn error(&self) -> Unhandled<'_> {
        self.error.with_texts(&self.texts.0, &self.texts.1)
    }
}

/// Reports an error to the subscriber of the thread where it happened. Returns `false` if there is
/// none, or if it panics.
fn trace(report: &Report, error: &Unhandled<'_>) -> bool {
    let left_out = match error {
        Unhandled::LeftOut { count } => Some(*count),
        _ => None,
    };
    let fields = UnhandledFields {
        source: &report.source,
        kind: error.kind(),
        task: error.task(),
        left_out,
    };
    unhandled_error(&report.origin, &fields, error)
}

/// Formats one line: without control characters inside, and not longer than [`LONGEST`].
fn line(source: &str, error: &Unhandled<'_>) -> Vec<u8> {
    let mut line = String::from("tidegate: ");
    let text = format!("{source}: {error}");
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
