//! Hyper's timer on the wheels of event loops.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::Timer;
use tidegate_core::Clock;
use tidegate_core::internal::lock;
use tidegate_loop::EventLoop;

/// Hyper's [`Timer`] by the clock of event loops. A sleep is on the wheel of the event loop that
/// polls it first, or else of the global one. With a manual clock, a test decides when it is due.
///
/// hyper creates a sleep for the head of each request and drops it when the head has come. The timer
/// keeps the entry on the wheel for the next one, so most requests do not touch the wheel. Use a timer
/// of its own for each connection.
///
/// ```
/// use std::time::Duration;
/// use hyper::rt::Timer;
/// use tidegate_hyper::LoopTimer;
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// let slept = home.spawn(async {
///     LoopTimer::current().sleep(Duration::from_millis(1)).await;
/// })?;
/// slept.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LoopTimer {
    clock: Clock,
    /// An entry on a wheel that no sleep uses.
    spare: Arc<Mutex<Option<Armed>>>,
}

/// An entry on a wheel.
#[derive(Debug)]
struct Armed {
    sleep: tidegate_loop::Sleep,
    ends: Instant,
}

impl LoopTimer {
    /// Creates a timer by `clock`.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            spare: Arc::default(),
        }
    }

    /// Creates a timer by the clock of the event loop that the calling thread drives, or else by the
    /// clock of the system.
    pub fn current() -> Self {
        match EventLoop::current() {
            Some(home) => Self::new(home.clock()),
            None => Self::new(&Clock::system()),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<Armed>> {
        lock(&self.spare)
    }

    /// Returns a sleep that ends `limit` from now.
    pub(crate) fn after(&self, limit: Duration) -> LoopSleep {
        let now = self.clock.now();
        // A limit that the clock cannot show is none.
        let deadline = now.checked_add(limit).unwrap_or(now + FAR);
        self.until(deadline)
    }

    fn until(&self, deadline: Instant) -> LoopSleep {
        LoopSleep {
            timer: self.clone(),
            deadline,
            armed: None,
            taken_over: false,
        }
    }
}

/// Thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

impl Timer for LoopTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.after(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.until(deadline))
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<LoopSleep>() {
            Some(mut own) => own.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

tidegate_core::debug_fields!(LoopTimer);

/// Hyper's [`Sleep`](hyper::rt::Sleep), created by a [`LoopTimer`]. A later deadline costs nothing:
/// the wheel is asked again when the earlier one is due.
#[derive(Debug)]
pub struct LoopSleep {
    timer: LoopTimer,
    deadline: Instant,
    armed: Option<Armed>,
    /// `true` if another sleep has armed the entry, maybe on another event loop.
    taken_over: bool,
}

impl LoopSleep {
    /// Makes the sleep end at `deadline` instead.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }
}

impl Future for LoopSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let (now, deadline) = (self.timer.clock.now(), self.deadline);
            if now >= deadline {
                return Poll::Ready(());
            }
            if self.armed.is_none() {
                let spare = self.timer.spare().take();
                self.armed = spare;
                self.taken_over = true;
            }
            let taken_over = self.taken_over;
            if let Some(armed) = &mut self.armed
                && armed.ends <= deadline
            {
                match Pin::new(&mut armed.sleep).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    // An event loop that has ended measures no time: what waits for it ends too.
                    Poll::Ready(Err(_)) if !taken_over => return Poll::Ready(()),
                    // It was due before the deadline was moved, or another event loop has ended.
                    Poll::Ready(_) => {}
                }
            }
            self.taken_over = false;
            self.armed = Some(Armed {
                sleep: tidegate_loop::sleep(deadline - now),
                ends: deadline,
            });
        }
    }
}

impl Drop for LoopSleep {
    fn drop(&mut self) {
        if let Some(armed) = self.armed.take() {
            let before = self.timer.spare().replace(armed);
            drop(before);
        }
    }
}

impl hyper::rt::Sleep for LoopSleep {}
