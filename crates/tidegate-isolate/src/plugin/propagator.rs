//! Propagators: carry thread-bound context from the caller to the worker.

/// Carries context from the calling thread to the thread that works for it: a thread of the
/// bulkhead, or the thread that runs the fallback of a timed-out call. Not used for a future: it is
/// polled wherever its task runs, and its task carries the context that it needs.
pub trait Propagator: Send + Sync + 'static {
    /// Captures the context of the calling thread. The returned closure installs it on the worker
    /// thread, and the closure that this one returns restores the previous context.
    fn capture(&self) -> Install;
}

/// Installs the captured context; returns the closure that restores the thread's previous context.
pub type Install = Box<dyn FnOnce() -> Restore + Send>;

/// Restores the previous context of a thread.
pub type Restore = Box<dyn FnOnce()>;
