//! What a program runs on.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use std::thread::{Builder, JoinHandle, yield_now};
pub use std::thread_local;
