//! The primitives of a program: std's types.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use std::thread::{Builder, JoinHandle, yield_now};
pub use std::thread_local;

/// The lock for code that models examine: under loom it is loom's, whereas [`Mutex`] stays std's.
pub use std::sync::{Mutex as ModelMutex, MutexGuard as ModelMutexGuard};
