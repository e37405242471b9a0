//! What a contestant of the suite `timer` has to offer, and what its timers carry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// Timers that one thread owns, told what time it is.
pub(crate) trait Timers<T: Payload>: Sized {
    /// What cancels a timer.
    type Handle;

    /// An empty one, at time 0.
    fn new() -> Self;

    /// Adds a timer that is due at that nanosecond.
    fn add(&mut self, deadline: u64, payload: T) -> Self::Handle;

    /// Takes it out.
    fn cancel(&mut self, handle: Self::Handle);

    /// Gives it another deadline.
    fn reset(&mut self, handle: &mut Self::Handle, deadline: u64);

    /// Fires everything that is due at `now`.
    fn expire(&mut self, now: u64);

    /// Runs `work` where the timers can be used.
    fn within<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        work(self)
    }
}

/// What a timer carries.
pub(crate) trait Payload: Send + 'static {
    /// Asks for the memory behind it, if it has any.
    const WARM: Option<fn(&Self)>;

    /// One of them.
    fn fresh(number: u64) -> Self;

    /// What happens when it is due.
    fn fire(self);

    /// The same for who can only wake a task.
    fn waker(number: u64) -> Waker;
}

/// Sixteen bytes: a pointer and a number, say.
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
    const WARM: Option<fn(&Self)> = Some(|closure| tidegate_core::prefetch_block(&**closure));

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

/// Plain loads and stores: everything fires on the measuring thread.
fn note(number: u64) {
    FIRED.store(FIRED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    SUM.store(SUM.load(Ordering::Relaxed) ^ number, Ordering::Relaxed);
}

/// How many have fired so far.
pub(crate) fn fired() -> u64 {
    FIRED.load(Ordering::Relaxed)
}
