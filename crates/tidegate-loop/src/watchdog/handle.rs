//! The public part of the watchdog: the builder and the handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::TickerStop;
use tidegate_core::{ThreadBuilder, Ticker};

use super::report::{Recovered, Stall, WatchdogError};
use super::watching::{Callbacks, OnRecover, OnStall, Watched, Watching};
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;

/// Ticks per threshold if no ticker is given.
const CHECKS_PER_THRESHOLD: u32 = 4;
/// The shortest interval of the default ticker.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Reports event loops that are stuck in a task for longer than a threshold.
///
/// It has one thread for all the event loops that it watches. Dropping it stops it and never
/// blocks; [`Watchdog::shutdown`] also waits until its last callback has returned. With the feature
/// `tracing`, a stall and its end are also events; the subscriber runs like a callback.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Watchdog};
/// use tidegate_core::{Task, Ticker};
///
/// let home = EventLoop::builder("home").build()?;
/// let (ticker, steps) = Ticker::manual(); // a program leaves this out: real time
/// let (sender, receiver) = mpsc::channel();
/// let watchdog = Watchdog::builder()
///     .threshold(Duration::from_secs(2))
///     .ticker(ticker)
///     .on_stall(move |stall| sender.send(stall.to_string()).unwrap())
///     .watch(&home)
///     .build()?;
///
/// let (begun, has_begun) = mpsc::channel();
/// let (go_on, gone_on) = mpsc::channel::<()>();
/// home.execute_task(Task::named("compact", move || {
///     begun.send(()).unwrap();
///     let _ = gone_on.recv();
/// }))?;
/// has_begun.recv()?;
/// steps.tick(Duration::from_secs(1)); // seen
/// steps.tick(Duration::from_secs(2)); // still there
/// assert_eq!(receiver.try_recv()?, "loop home has been in task `compact` (number 1) for 2s");
/// assert!(home.is_stalled() && watchdog.stalls() == 1);
/// drop(go_on);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watchdog {
    shared: Arc<Watching>,
    ticker: TickerStop,
}

/// A builder for a [`Watchdog`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Watchdog};
///
/// let home = EventLoop::builder("home").build()?;
/// let watchdog = Watchdog::builder()
///     .threshold(Duration::from_millis(200))
///     .on_stall(|stall| eprintln!("{stall}"))
///     .on_recover(|recovered| eprintln!("{recovered}"))
///     .watch(&home)
///     .build()?;
/// watchdog.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WatchdogBuilder {
    threshold: Duration,
    ticker: Option<Ticker>,
    backtrace: bool,
    on_stall: Option<OnStall>,
    on_recover: Option<OnRecover>,
    loops: Vec<Watched>,
}

impl Watchdog {
    /// How long an event loop may be in one task before it counts as stuck, by default.
    pub const DEFAULT_THRESHOLD: Duration = Duration::from_secs(1);

    /// Creates a builder for a watchdog.
    pub fn builder() -> WatchdogBuilder {
        WatchdogBuilder {
            threshold: Self::DEFAULT_THRESHOLD,
            ticker: None,
            backtrace: false,
            on_stall: None,
            on_recover: None,
            loops: Vec::new(),
        }
    }

    /// Watches another event loop too, from the next tick on. An event loop that has terminated, or
    /// that no handle and no thread uses any more, is removed automatically.
    pub fn watch<P: Placement>(&self, event_loop: &EventLoop<P>) {
        self.shared.add(Watched::new(&event_loop.shared));
    }

    /// Returns the number of stalls so far. A stall counts once, however often it is reported.
    pub fn stalls(&self) -> u64 {
        self.shared.stalls()
    }

    /// Returns the names of the event loops that were stuck at the last check.
    pub fn stalled(&self) -> Vec<String> {
        self.shared.stalled()
    }

    /// Stops watching, and waits until no callback runs any more. Inside a callback it does not
    /// wait.
    pub fn shutdown(self) {
        self.request_stop();
        self.shared.await_check();
    }

    fn request_stop(&self) {
        self.shared.set_stopped();
        self.ticker.stop();
        self.shared.forget_if_stopped();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.request_stop();
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("threshold", &self.shared.threshold)
            .field("stalls", &self.stalls())
            .finish_non_exhaustive()
    }
}

impl WatchdogBuilder {
    /// Sets how long an event loop may be in one task. The default is
    /// [`Watchdog::DEFAULT_THRESHOLD`].
    pub fn threshold(mut self, threshold: Duration) -> Self {
        self.threshold = threshold;
        self
    }

    /// Sets the ticker that triggers each check. The default ticks in real time, every quarter of
    /// the threshold but at most once per millisecond. The age of a stall counts from the first
    /// tick that sees it. It is reported at the first tick at which this age has reached the
    /// threshold.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    /// Adds a backtrace of the stuck thread to the report, on Linux and with the feature `backtrace`.
    pub fn backtrace(mut self, yes: bool) -> Self {
        self.backtrace = yes;
        self
    }

    /// Sets a callback for an event loop that is stuck. It is called when the age has reached the
    /// threshold, and again at 2, 4, 8, … times the threshold, at most once per tick. It runs on
    /// the watchdog's thread, which checks no event loop meanwhile. A panic in it is caught and
    /// ignored.
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.on_stall = Some(Box::new(hook));
        self
    }

    /// Sets a callback that is called once when an event loop that was reported is no longer stuck.
    /// It runs like [`WatchdogBuilder::on_stall`].
    pub fn on_recover(mut self, hook: impl Fn(&Recovered) + Send + Sync + 'static) -> Self {
        self.on_recover = Some(Box::new(hook));
        self
    }

    /// Watches an event loop, without keeping it alive.
    pub fn watch<P: Placement>(mut self, event_loop: &EventLoop<P>) -> Self {
        self.loops.push(Watched::new(&event_loop.shared));
        self
    }

    /// Starts the watchdog's thread.
    ///
    /// # Errors
    ///
    /// [`WatchdogError`] if the threshold is zero, or no thread can be started.
    pub fn build(self) -> Result<Watchdog, WatchdogError> {
        if self.threshold.is_zero() {
            return Err(WatchdogError::ZeroThreshold);
        }
        let every = (self.threshold / CHECKS_PER_THRESHOLD).max(MIN_INTERVAL);
        let mut ticker = self.ticker.unwrap_or_else(|| Ticker::every(every));
        let stop = ticker.stop_handle();
        let callbacks = Callbacks {
            on_stall: self.on_stall,
            on_recover: self.on_recover,
        };
        let shared = Watching::new(self.threshold, self.backtrace, callbacks, self.loops);
        let shared = Arc::new(shared);
        let watching = Arc::clone(&shared);
        ThreadBuilder::new("tidegate-watchdog")
            .detached()
            .spawn(move || watching.run(&mut ticker))
            .map_err(WatchdogError::NoThread)?;
        Ok(Watchdog {
            shared,
            ticker: stop,
        })
    }
}

impl fmt::Debug for WatchdogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchdogBuilder")
            .field("threshold", &self.threshold)
            .field("backtrace", &self.backtrace)
            .field("loops", &self.loops.len())
            .finish_non_exhaustive()
    }
}
