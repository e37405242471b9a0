//! The handle of a monitor, and its builder.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JoinPolicy, ThreadBuilder, Ticker};

use super::watch::Watch;

/// Between two looks, when nothing else is said. With the system's own lateness a look comes
/// every 75 to 130 µs.
pub const DEFAULT_MONITOR_INTERVAL: Duration = Duration::from_micros(75);
/// How long after the last task that may block it stays awake, when nothing else is said: some
/// thirty looks. A task that comes later costs a wakeup; a longer time costs a program with ten
/// such tasks a second seven thousand looks a second.
pub const DEFAULT_MONITOR_QUIET: Duration = Duration::from_millis(4);
/// The most stand-ins of a monitor, when nothing else is said.
pub const DEFAULT_STAND_INS: usize = 64;

/// Watches over the producers that [`Adaptive`](crate::Adaptive) strategies have lent.
///
/// It has one thread for any number of strategies. Dropping the last handle stops it; strategies
/// that were built with it then hand over eagerly, as without one. Clones are the same monitor.
///
/// ```
/// use tidegate_pool::Monitor;
///
/// let monitor = Monitor::start("io")?;
/// assert!(monitor.is_running());
/// monitor.stop();
/// assert!(!monitor.is_running());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Monitor {
    handle: Arc<Handle>,
}

/// Describes a [`Monitor`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::Monitor;
/// use tidegate_core::Ticker;
///
/// let (ticker, steps) = Ticker::manual(); // a program leaves this out: real time
/// let monitor = Monitor::builder("io")
///     .quiet(Duration::from_millis(10))
///     .ticker(ticker)
///     .start()?;
/// steps.tick(Duration::from_millis(10));
/// assert!(monitor.is_asleep());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MonitorBuilder {
    name: String,
    interval: Duration,
    quiet: Duration,
    ticker: Option<Ticker>,
    threads: Option<ThreadBuilder>,
    stand_ins: usize,
}

impl Monitor {
    /// Starts a monitor with everything as usual. `name` shows in the name of its thread.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn start(name: &str) -> io::Result<Self> {
        Self::builder(name).start()
    }

    /// Describes a monitor.
    pub fn builder(name: &str) -> MonitorBuilder {
        MonitorBuilder {
            name: name.to_owned(),
            interval: DEFAULT_MONITOR_INTERVAL,
            quiet: DEFAULT_MONITOR_QUIET,
            ticker: None,
            threads: None,
            stand_ins: DEFAULT_STAND_INS,
        }
    }

    /// Stops it. Producers that lie in their cells at this moment are still given away.
    pub fn stop(&self) {
        self.watch().stop();
    }

    /// Whether it watches.
    pub fn is_running(&self) -> bool {
        self.watch().is_running()
    }

    /// Whether it sleeps, because no task that may block has run for a while.
    pub fn is_asleep(&self) -> bool {
        self.watch().is_asleep()
    }

    /// Threads that stand in for strategies, or wait for that.
    pub fn stand_ins(&self) -> usize {
        self.watch().on_call.threads()
    }

    /// Times that no stand-in could be had: the monitor has as many as it may, or the system refused
    /// a thread. See [`Counts::unwatched`](crate::Counts::unwatched).
    pub fn failed_stand_ins(&self) -> u64 {
        self.watch().on_call.failed()
    }

    /// Looks so far.
    pub fn looks(&self) -> u64 {
        self.watch().looks()
    }

    /// Times it went to sleep.
    pub fn sleeps(&self) -> u64 {
        self.watch().sleeps()
    }

    /// CPU time that it has used, as of one of its last looks: what late hand-over costs beside
    /// the tasks.
    pub fn cpu_time(&self) -> Duration {
        self.watch().cpu_time()
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.handle.watch
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("running", &self.is_running())
            .field("asleep", &self.is_asleep())
            .field("looks", &self.looks())
            .field("stand_ins", &self.stand_ins())
            .finish()
    }
}

impl MonitorBuilder {
    /// Between two looks; [`DEFAULT_MONITOR_INTERVAL`] if nothing is said.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How long after the last task that may block it stays awake; [`DEFAULT_MONITOR_QUIET`] if
    /// nothing is said.
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// What it waits on between two looks, instead of the interval. While it sleeps it lets
    /// ticks pass.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    /// How its stand-ins are started. They are detached, whatever the builder says.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The most stand-ins; [`DEFAULT_STAND_INS`] if nothing is said. A strategy has one in reserve
    /// while it runs tasks that may block. One that cannot have any hands over eagerly.
    pub fn stand_ins(mut self, most: usize) -> Self {
        self.stand_ins = most;
        self
    }

    /// Starts the monitor's thread.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn start(self) -> io::Result<Monitor> {
        let mut ticker = self.ticker.unwrap_or_else(|| Ticker::every(self.interval));
        let name = format!("{}-monitor", self.name);
        let threads = self.threads;
        let threads = threads.unwrap_or_else(|| {
            let name = format!("{}-stand-in", self.name);
            ThreadBuilder::new(name)
        });
        let threads = threads.join_policy(JoinPolicy::Detached);
        let watch = Watch::new(&ticker, self.quiet, threads, self.stand_ins);
        let watch = Arc::new(watch);
        let watching = Arc::clone(&watch);
        ThreadBuilder::new(name)
            .join_policy(JoinPolicy::Detached)
            .spawn(move || watching.run(&mut ticker))?;
        Ok(Monitor {
            handle: Arc::new(Handle { watch }),
        })
    }
}

/// What the monitor's user holds; the last one to go stops it.
struct Handle {
    watch: Arc<Watch>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.watch.stop();
    }
}
