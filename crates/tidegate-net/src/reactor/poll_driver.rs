//! A poller as the driver of an event loop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{Clock, Running, Sleeper, Task};
use tidegate_loop::{Driver, Health};

use super::roaming::Roam;
use super::{Care, Reactor};
use crate::metrics::{Counters, IoMetrics};
use crate::reactor;
use crate::sys::{PIECES, Poller};

/// What a loop with I/O waits on.
///
/// ```
/// use tidegate_loop::EventLoop;
/// use tidegate_net::PollDriver;
/// use tidegate_net::sys::MioPoller;
///
/// let home = EventLoop::builder("io").build_with(PollDriver::new(MioPoller::new()?))?;
/// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PollDriver {
    id: u64,
    /// Here while no thread drives the loop.
    poller: Option<Box<dyn Poller>>,
    waker: Arc<dyn Sleeper>,
    counters: Arc<Counters>,
    /// The reactor that this thread had before.
    outer: Option<u64>,
    care: Care,
    /// Events that are there to be told.
    ready: usize,
    /// Where the generations of the next reactor begin, so that a token is never used twice.
    generation: u32,
}

impl PollDriver {
    /// A driver that asks `poller`.
    pub fn new(poller: impl Poller) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            waker: poller.waker(),
            poller: Some(Box::new(poller)),
            counters: Arc::default(),
            outer: None,
            care: Care::default(),
            ready: 0,
            generation: 1,
        }
    }

    /// A view of this driver's counters, for after it has been given to a loop.
    pub fn watch(&self) -> IoWatch {
        IoWatch {
            counters: Arc::clone(&self.counters),
            roam: None,
        }
    }

    fn polled(&mut self, polled: Option<std::io::Result<usize>>) {
        self.ready = 0;
        match polled {
            Some(Ok(ready)) => {
                self.care.worked();
                self.ready = ready;
            }
            Some(Err(why)) if self.care.failed(&why, &self.counters) => Self::renew(),
            Some(Err(_)) | None => {}
        }
    }

    /// Puts a fresh poller in the place of this one; who cannot be moved is closed.
    #[cold]
    fn renew() {
        // If there is none to be had the old one goes on, and is asked again.
        let lost = reactor::with(Reactor::renew).and_then(Result::ok);
        for token in lost.unwrap_or_default() {
            reactor::close_one(token);
        }
    }
}

impl Driver for PollDriver {
    // A wait is a look at the sockets: better than a look at the lanes alone.
    const LOOKS_ON: bool = false;

    fn enter(&mut self) {
        let poller = &mut self.poller;
        let (id, generation, counters) = (self.id, self.generation, &self.counters);
        self.outer = reactor::enter(id, || {
            let poller = poller.take().expect("a loop has one reactor at a time");
            let counters = Arc::clone(counters);
            Box::new(Reactor::new(id, poller, generation, counters))
        });
        reactor::with(|reactor| reactor.running = Running::of_thread());
    }

    fn leave(&mut self) {
        if let Some(reactor) = reactor::leave(self.outer.take()) {
            self.generation = reactor.next_generation();
            self.poller = Some(reactor.poller);
        }
    }

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        let polled = reactor::with(|reactor| {
            if reactor.has_ready() {
                return reactor.poll(Some(Duration::ZERO));
            }
            let mut polled = Ok(0);
            clock.sleep_until(&self.waker, deadline, |timeout| {
                polled = reactor.poll(timeout);
            });
            polled
        });
        self.polled(polled);
        let ready = self.ready > 0;
        if self.care.waited(ready, &*self.waker, clock, deadline) {
            Self::renew();
        }
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    fn health(&self) -> Health {
        self.care.health()
    }

    #[inline]
    fn next_task(&mut self) -> Option<Task> {
        self.next_tasks(1).map(|(task, _)| task)
    }

    #[inline]
    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        let few = self.ready.min(most).min(PIECES);
        self.ready -= few;
        (few > 0).then(|| (Task::non_blocking(move || reactor::dispatch_few(few)), few))
    }

    fn look(&mut self) {
        let polled = reactor::with(|reactor| reactor.poll(Some(Duration::ZERO)));
        self.polled(polled);
    }

    fn is_idle(&self) -> bool {
        reactor::with(|reactor| reactor.is_empty()).unwrap_or(true)
    }

    fn close(&mut self) {
        reactor::close();
    }
}

impl fmt::Debug for PollDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollDriver")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A view of the counters of a [`PollDriver`].
///
/// ```
/// use tidegate_net::PollDriver;
/// use tidegate_net::sys::FakePoller;
///
/// let (poller, _script) = FakePoller::new();
/// let watch = PollDriver::new(poller).watch();
/// assert_eq!(watch.metrics().polls, 0);
/// ```
#[derive(Clone, Debug)]
pub struct IoWatch {
    counters: Arc<Counters>,
    /// Where a roaming loop's trips count.
    roam: Option<Arc<Roam>>,
}

impl IoWatch {
    pub(crate) fn of_roaming(counters: Arc<Counters>, roam: Arc<Roam>) -> Self {
        Self {
            counters,
            roam: Some(roam),
        }
    }

    /// The counters now.
    pub fn metrics(&self) -> IoMetrics {
        let mut sum = self.counters.snapshot();
        if let Some(roam) = &self.roam {
            roam.each_counters(|more| sum.add(&more.snapshot()));
            sum.wakeups = roam.wakeups();
        }
        sum
    }
}
