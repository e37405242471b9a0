//! Propagators: carry what a thread has from the caller to the worker.

/// Carries something from the thread that calls to the thread that works: one of the bulkhead's,
/// or the one that runs the fallback of a call whose time is over. A future is polled wherever its
/// task is; what it needs, its task carries.
pub trait Propagator: Send + Sync + 'static {
    /// Takes along what the calling thread has. The answer installs it on the working thread,
    /// and what that answers puts back what was there before.
    fn capture(&self) -> Install;
}

/// Installs what was captured; answers what restores the thread.
pub type Install = Box<dyn FnOnce() -> Restore + Send>;

/// Puts back what a thread had.
pub type Restore = Box<dyn FnOnce()>;
