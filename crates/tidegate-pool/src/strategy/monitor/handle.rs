//! The handle of a monitor, and its builder.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ThreadBuilder, Ticker};

use super::watch::Watch;

/// Watches the producers that [`Adaptive`](crate::strategy::Adaptive) strategies have lent.
///
/// It has one thread for any number of strategies. Clones are handles to the same monitor, and each
/// strategy that was built with it keeps one. Dropping the last handle shuts it down. After
/// [`Monitor::shutdown`] its strategies hand over eagerly, as without a monitor.
///
/// ```
/// use tidegate_pool::strategy::Monitor;
///
/// let monitor = Monitor::start("io")?;
/// assert!(monitor.is_running());
/// monitor.shutdown();
/// assert!(!monitor.is_running());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Monitor {
    handle: Arc<Handle>,
}

/// A builder for a [`Monitor`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::strategy::Monitor;
/// use tidegate_core::Ticker;
///
/// let (ticker, steps) = Ticker::manual(); // a program leaves this out: real time
/// let monitor = Monitor::builder("io")
///     .quiet(Duration::from_millis(10))
///     .ticker(ticker)
///     .build()?;
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
    /// The default interval between two scans. Because the system's timers are late, a scan happens
    /// every 75 to 130 µs.
    pub const DEFAULT_INTERVAL: Duration = Duration::from_micros(75);
    /// The default for how long the monitor stays awake after the last change that it saw: about
    /// thirty scans. A task that may block and comes later costs a wake-up. The time is short,
    /// since an awake monitor makes at least seven thousand scans a second. With a time of 100 ms,
    /// a program with only ten such tasks a second would keep it awake all the time.
    pub const DEFAULT_QUIET: Duration = Duration::from_millis(4);
    /// The default for the maximum number of stand-ins of a monitor.
    pub const DEFAULT_STAND_INS: usize = 64;

    /// Starts a monitor with default settings. `name` becomes part of its thread's name.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(name: &str) -> io::Result<Self> {
        Self::builder(name).build()
    }

    /// Creates a builder for a monitor.
    pub fn builder(name: &str) -> MonitorBuilder {
        MonitorBuilder {
            name: name.to_owned(),
            interval: Self::DEFAULT_INTERVAL,
            quiet: Self::DEFAULT_QUIET,
            ticker: None,
            threads: None,
            stand_ins: Self::DEFAULT_STAND_INS,
        }
    }

    /// Shuts the monitor down. The calling thread makes a last scan, which gives the producers that
    /// are lent at this moment to other threads.
    pub fn shutdown(&self) {
        self.watch().shutdown();
    }

    /// Returns `true` if the monitor was not shut down.
    pub fn is_running(&self) -> bool {
        self.watch().is_running()
    }

    /// Returns `true` if the monitor sleeps because its scans saw no change for a while: no task
    /// that may block has begun or ended.
    pub fn is_asleep(&self) -> bool {
        self.watch().is_asleep()
    }

    /// Returns the number of stand-in threads, idle ones included.
    pub fn stand_ins(&self) -> usize {
        self.watch().on_call.threads()
    }

    /// Returns the number of scans so far.
    pub fn scans(&self) -> u64 {
        self.watch().scans()
    }

    /// Returns how often the monitor has gone to sleep.
    pub fn sleeps(&self) -> u64 {
        self.watch().sleeps()
    }

    /// Returns the CPU time of the monitor's thread, as of one of its last 64 scans. This is what
    /// late hand-over costs in addition to the tasks.
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
            .field("scans", &self.scans())
            .field("stand_ins", &self.stand_ins())
            .finish()
    }
}

impl MonitorBuilder {
    /// Sets the interval between two scans. The default is [`Monitor::DEFAULT_INTERVAL`].
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how long the monitor stays awake after the last change that it saw. The default is
    /// [`Monitor::DEFAULT_QUIET`].
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// Sets a ticker to wait on between two scans; the interval is not used then. A sleeping
    /// monitor ignores ticks. If it sleeps although a producer is lent that no thread can take, it
    /// scans again after some time.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    /// Sets how its stand-in threads are started. They are always detached, whatever `threads`
    /// says.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the maximum number of stand-ins. The default is [`Monitor::DEFAULT_STAND_INS`]. A
    /// strategy reserves one while it runs tasks that may block. A strategy that cannot get one
    /// hands over eagerly.
    pub fn stand_ins(mut self, most: usize) -> Self {
        self.stand_ins = most;
        self
    }

    /// Starts the monitor's thread.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn build(self) -> io::Result<Monitor> {
        let mut ticker = self.ticker.unwrap_or_else(|| Ticker::every(self.interval));
        let name = format!("{}-monitor", self.name);
        let threads = self.threads;
        let threads = threads.unwrap_or_else(|| {
            let name = format!("{}-stand-in", self.name);
            ThreadBuilder::new(name)
        });
        let threads = threads.detached();
        let watch = Watch::new(&ticker, self.quiet, threads, self.stand_ins);
        let watch = Arc::new(watch);
        let watching = Arc::clone(&watch);
        ThreadBuilder::new(name)
            .detached()
            .spawn(move || watching.run(&mut ticker))?;
        Ok(Monitor {
            handle: Arc::new(Handle { watch }),
        })
    }
}

/// The shared handle of a monitor. Dropping the last reference stops the monitor.
struct Handle {
    watch: Arc<Watch>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.watch.shutdown();
    }
}
