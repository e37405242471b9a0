//! The interface of a contestant of the suite `timer`, and the payloads of its timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// Timers that one thread owns. The caller passes the current time.
pub(crate) trait Timers<T: Payload>: Sized {
    /// The handle that cancels a timer.
    type Handle;

    /// Creates an empty timer structure at time 0.
    fn new() -> Self;

    /// Adds a timer that is due at that nanosecond.
    fn add(&mut self, deadline: u64, payload: T) -> Self::Handle;

    /// Cancels a timer.
    fn cancel(&mut self, handle: Self::Handle);

    /// Fires all timers that are due at `now`.
    fn expire(&mut self, now: u64);

    /// Runs `work` in the context that the timers need.
    fn within<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        work(self)
    }
}

/// The payload of a timer.
pub(crate) trait Payload: Send + 'static {
    /// A function that prefetches the memory behind the payload, if there is any.
    const WARM: Option<fn(&Self)>;

    /// Creates a payload.
    fn fresh(number: u64) -> Self;

    /// Runs the payload when the timer is due.
    fn fire(self);

    /// Creates a waker with the same effect, for contestants that can only wake a task.
    fn waker(number: u64) -> Waker;
}

/// Sixteen bytes, such as a pointer and a number.
impl Payload for (u64, u64) {
    const WARM: Option<fn(&Self)> = None;

    fn fresh(number: u64) -> Self {
        (number, number)
    }

    fn fire(self) {
        note(self.0);
    }

    fn waker(_number: u64) -> Waker {
        Waker::noop().clone()
    }
}

/// A boxed closure.
pub(crate) type Closure = Box<dyn FnOnce() + Send>;

impl Payload for Closure {
    const WARM: Option<fn(&Self)> =
        Some(|closure| tidegate_core::internal::prefetch_block(&**closure));

    fn fresh(number: u64) -> Self {
        Box::new(move || note(number))
    }

    fn fire(self) {
        self();
    }

    fn waker(number: u64) -> Waker {
        Waker::from(Arc::new(Note(number)))
    }
}

struct Note(u64);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        note(self.0);
    }
}

static FIRED: AtomicU64 = AtomicU64::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);

/// Counts a fired timer. Plain loads and stores are sufficient: all timers fire on the measuring
/// thread.
fn note(number: u64) {
    FIRED.store(FIRED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    SUM.store(SUM.load(Ordering::Relaxed) ^ number, Ordering::Relaxed);
}

/// Returns how many timers have fired so far.
pub(crate) fn fired() -> u64 {
    FIRED.load(Ordering::Relaxed)
}
