//! Tickers: what watchdogs and monitors wait on between two looks.
//!
//! A watcher must not sleep through the clock that it watches, or every manual clock would have
//! to turn it too. It waits for ticks instead: a real interval, or a test's own steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Clock, as_nanos};
use crate::Parker;
use crate::prim::mpsc::{Receiver, Sender, channel};

/// A source of ticks.
///
/// ```
/// use std::time::Duration;
/// use tidegate_sync::Ticker;
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
        stop: TickerStop,
    },
    Manual {
        ticks: Receiver<Step>,
        /// Dropped when the look that the last tick caused is over.
        looking: Option<Sender<()>>,
    },
}

/// One tick: how much time it stands for, and what is dropped when it was dealt with.
type Step = (Duration, Sender<()>);

impl Ticker {
    /// Ticks every `interval` of the system's clock.
    pub fn every(interval: Duration) -> Self {
        Self {
            source: Source::Every {
                interval,
                last: Clock::system().nanos(),
                stop: TickerStop::default(),
            },
        }
    }

    /// A ticker that a test steps by hand.
    pub fn manual() -> (Self, ManualTicker) {
        let (steps, ticks) = channel();
        let source = Source::Manual {
            ticks,
            looking: None,
        };
        (Self { source }, ManualTicker { steps })
    }

    /// Waits for the next tick; answers how much time has passed since the last one, or `None`
    /// when there will be no more.
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
            Source::Manual { ticks, looking } => {
                *looking = None;
                let (passed, seen) = ticks.recv().ok()?;
                *looking = Some(seen);
                Some(passed)
            }
        }
    }

    /// Waits without ticking until [`TickerStop::wake`] or [`TickerStop::stop`], also one that
    /// came before. May return early. A manual ticker does not wait here: its next tick comes
    /// when the test says so.
    pub fn rest(&mut self) {
        if let Source::Every { last, stop, .. } = &mut self.source {
            if !stop.is_stopped() {
                stop.parker.park(None);
            }
            *last = Clock::system().nanos();
        }
    }

    /// A handle that stops this ticker from another thread. A manual ticker stops when its
    /// [`ManualTicker`] is dropped instead; its handle does nothing.
    pub fn stop_handle(&self) -> TickerStop {
        match &self.source {
            Source::Every { stop, .. } => stop.clone(),
            Source::Manual { .. } => TickerStop::default(),
        }
    }
}

/// Stops a [`Ticker`] from another thread.
#[derive(Clone, Debug, Default)]
pub struct TickerStop {
    parker: Parker,
    stopped: Arc<AtomicBool>,
}

impl TickerStop {
    /// Makes [`Ticker::wait`] answer `None` from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.parker.unpark();
    }

    /// Ends a [`Ticker::rest`], now or the next one.
    pub fn wake(&self) {
        self.parker.unpark();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The hand that steps a manual [`Ticker`].
#[derive(Clone, Debug)]
pub struct ManualTicker {
    steps: Sender<Step>,
}

impl ManualTicker {
    /// Ticks once, as if `passed` had gone by, and returns when the watcher has dealt with it
    /// (it waits for the next tick, or is gone).
    pub fn tick(&self, passed: Duration) {
        let (seen, dealt_with) = channel();
        if self.steps.send((passed, seen)).is_ok() {
            // Nothing is ever sent: the answer is that the sender was dropped.
            let _ = dealt_with.recv();
        }
    }
}
