//! Tickers: the periodic ticks on which watchdogs and monitors wait between two checks.
//!
//! A watchdog must not sleep through the clock that it watches, because a test with a manual clock
//! would then have to drive the watchdog too. It waits for ticks instead: a real interval, or the
//! steps of a test.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::handle::Clock;
use super::moment::as_nanos;
use crate::Parker;
use crate::sys::prim::{Condvar, Mutex, MutexGuard, lock, unpoisoned};

/// A source of ticks.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Ticker;
///
/// let (mut ticker, steps) = Ticker::manual();
/// let watcher = std::thread::spawn(move || {
///     let mut seen = Duration::ZERO;
///     while let Some(passed) = ticker.wait() {
///         seen += passed;
///     }
///     seen
/// });
/// steps.tick(Duration::from_millis(100)); // returns when the watcher has taken its look
/// drop(steps);
/// assert_eq!(watcher.join().unwrap(), Duration::from_millis(100));
/// ```
#[derive(Debug)]
pub struct Ticker {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Every {
        interval: Duration,
        last: u64,
        stop: StopSignal,
    },
    Manual {
        steps: Arc<Steps>,
    },
}

/// The queue between a manual ticker and its [`ManualTicker`] handles.
#[derive(Default)]
struct Steps {
    state: Mutex<StepState>,
    changed: Condvar,
}

#[derive(Default)]
struct StepState {
    /// The time of each tick that the watcher has not taken.
    waiting: VecDeque<Duration>,
    /// Number of ticks that the watcher has taken. The ticks are counted from one, in their order.
    taken: u64,
    /// Number of ticks whose check the watcher has finished.
    handled: u64,
    /// Number of [`ManualTicker`] handles that may still tick.
    handles: usize,
    /// The ticker was stopped or dropped.
    stopped: bool,
}

impl Steps {
    /// Returns the time of the next tick; `None` when there will be no more. The check of the last
    /// one is finished.
    fn next(&self) -> Option<Duration> {
        let mut state = self.lock();
        state.handled = state.taken;
        self.changed.notify_all();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(passed) = state.waiting.pop_front() {
                state.taken += 1;
                return Some(passed);
            }
            if state.handles == 0 {
                return None;
            }
            state = unpoisoned(self.changed.wait(state));
        }
    }

    /// Ends the ticks. Callers of `tick` whose ticks were not taken return.
    fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Returns when the tick with this number was handled, or will never be taken.
    fn await_handled(&self, number: u64) {
        let mut state = self.lock();
        while state.handled < number && (state.taken >= number || !state.stopped) {
            state = unpoisoned(self.changed.wait(state));
        }
    }

    fn lock(&self) -> MutexGuard<'_, StepState> {
        lock(&self.state)
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl Ticker {
    /// Creates a ticker that ticks every `interval` of the system's clock.
    pub fn every(interval: Duration) -> Self {
        Self {
            source: Source::Every {
                interval,
                last: Clock::system().nanos(),
                stop: StopSignal::default(),
            },
        }
    }

    /// Creates a ticker that a test steps.
    pub fn manual() -> (Self, ManualTicker) {
        let steps = Arc::<Steps>::default();
        steps.lock().handles = 1;
        let source = Source::Manual {
            steps: Arc::clone(&steps),
        };
        (Self { source }, ManualTicker { steps })
    }

    /// Waits for the next tick. Returns how much time has passed since the last one, or `None` when
    /// there will be no more.
    pub fn wait(&mut self) -> Option<Duration> {
        match &mut self.source {
            Source::Every {
                interval,
                last,
                stop,
            } => {
                let clock = Clock::system();
                let due = last.saturating_add(as_nanos(*interval));
                while !stop.is_stopped() && clock.nanos() < due {
                    clock.park_until(&stop.parker, Some(due));
                }
                let now = clock.nanos();
                let passed = now.saturating_sub(*last);
                *last = now;
                (!stop.is_stopped()).then_some(Duration::from_nanos(passed))
            }
            Source::Manual { steps } => steps.next(),
        }
    }

    /// Waits without ticking until [`TickerStop::wake`] or [`TickerStop::stop`] is called; a call
    /// that came before counts too. May return early. A manual ticker does not wait here: its next
    /// tick comes when the test calls it.
    #[doc(hidden)]
    pub fn rest(&mut self) {
        self.rest_at_most(None);
    }

    /// Does the same as [`Ticker::rest`], for at most `limit`. Returns how long it has rested: zero
    /// for a manual ticker.
    #[doc(hidden)]
    pub fn rest_at_most(&mut self, limit: Option<Duration>) -> Duration {
        let Source::Every { last, stop, .. } = &mut self.source else {
            return Duration::ZERO;
        };
        let began = Clock::system().nanos();
        if !stop.is_stopped() {
            stop.parker.park(limit);
        }
        *last = Clock::system().nanos();
        Duration::from_nanos(last.saturating_sub(began))
    }

    /// Returns a handle that stops this ticker from another thread. A manual ticker also stops when
    /// the last [`ManualTicker`] is dropped.
    #[doc(hidden)]
    pub fn stop_handle(&self) -> TickerStop {
        TickerStop {
            stops: match &self.source {
                Source::Every { stop, .. } => Stops::Every(stop.clone()),
                Source::Manual { steps } => Stops::Manual(Arc::clone(steps)),
            },
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // There is no watcher any more, and no check.
        if let Source::Manual { steps } = &self.source {
            let mut state = steps.lock();
            state.handled = state.taken;
            drop(state);
            steps.stop();
        }
    }
}

/// Stops a [`Ticker`] from another thread.
#[derive(Clone, Debug)]
pub struct TickerStop {
    stops: Stops,
}

#[derive(Clone, Debug)]
enum Stops {
    Every(StopSignal),
    Manual(Arc<Steps>),
}

impl TickerStop {
    /// Makes [`Ticker::wait`] return `None` from now on.
    pub fn stop(&self) {
        match &self.stops {
            Stops::Every(signal) => {
                signal.stopped.store(true, Ordering::Relaxed);
                signal.parker.unpark();
            }
            Stops::Manual(steps) => steps.stop(),
        }
    }

    /// Ends the current or the next [`Ticker::rest`]. A manual ticker does not rest.
    pub fn wake(&self) {
        if let Stops::Every(signal) = &self.stops {
            signal.parker.unpark();
        }
    }
}

/// Where a ticker on the system's clock sleeps.
#[derive(Clone, Debug, Default)]
struct StopSignal {
    parker: Parker,
    stopped: Arc<AtomicBool>,
}

impl StopSignal {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The handle with which a test steps a manual [`Ticker`].
#[derive(Debug)]
pub struct ManualTicker {
    steps: Arc<Steps>,
}

impl ManualTicker {
    /// Ticks once, as if `passed` had gone by. Returns when the watcher has handled the tick (it
    /// waits for the next tick, was stopped, or is gone).
    pub fn tick(&self, passed: Duration) {
        let mut state = self.steps.lock();
        if state.stopped {
            return;
        }
        state.waiting.push_back(passed);
        let number = state.taken + state.waiting.len() as u64;
        drop(state);
        self.steps.changed.notify_all();
        self.steps.await_handled(number);
    }
}

impl Clone for ManualTicker {
    fn clone(&self) -> Self {
        self.steps.lock().handles += 1;
        Self {
            steps: Arc::clone(&self.steps),
        }
    }
}

impl Drop for ManualTicker {
    fn drop(&mut self) {
        self.steps.lock().handles -= 1;
        self.steps.changed.notify_all();
    }
}
