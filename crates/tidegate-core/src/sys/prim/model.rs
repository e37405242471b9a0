//! The primitives of a loom model: loom's types, and std's where no model examines them.

pub use loom::cell::UnsafeCell;
pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use loom::sync::{Mutex as ModelMutex, MutexGuard as ModelMutexGuard};
pub use loom::thread::yield_now;
pub use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use std::thread::{Builder, JoinHandle};
pub use std::thread_local;

/// Executes a `SeqCst` fence. Loom treats `SeqCst` accesses as `AcqRel` and models only the fence.
pub fn claim_fence() {
    // ORDERING: SeqCst fence between the claim and the load that follows it.
    loom::sync::atomic::fence(Ordering::SeqCst);
}
