//! The primitives of a shuttle run: each operation may switch to another thread.

use std::cell::{Cell, RefCell};

pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use shuttle::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use shuttle::sync::{Mutex as ModelMutex, MutexGuard as ModelMutexGuard};
use shuttle::thread::{AccessError, LocalKey};
pub use shuttle::thread::{Builder, JoinHandle, yield_now};
pub use shuttle::thread_local as inner_thread_local;

pub use crate::scheduled_thread_local as thread_local;

/// Declares thread-locals with the syntax of std's macro, for the threads of shuttle.
#[macro_export]
#[doc(hidden)]
macro_rules! scheduled_thread_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const { $init:expr }; $($rest:tt)*) => {
        $crate::scheduled_thread_local!($(#[$attr])* $vis static $name: $t = $init; $($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block; $($rest:tt)*) => {
        $crate::scheduled_thread_local!($(#[$attr])* $vis static $name: $t = $init; $($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr; $($rest:tt)*) => {
        $(#[$attr])*
        $vis static $name: $crate::internal::prim::Key<$t> = {
            $crate::internal::prim::inner_thread_local! {
                static INNER: $t = $init;
            }
            $crate::internal::prim::Key(&INNER)
        };
        $crate::scheduled_thread_local!($($rest)*);
    };
}

/// A thread-local key of shuttle with the shorthand methods of std's `LocalKey`.
#[derive(Debug)]
pub struct Key<T: 'static>(pub &'static LocalKey<T>);

impl<T: 'static> Key<T> {
    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn with<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> R {
        self.0.with(use_it)
    }

    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn try_with<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        self.0.try_with(use_it)
    }
}

impl<T: 'static> Key<Cell<T>> {
    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> Key<RefCell<T>> {
    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn with_borrow<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| use_it(&cell.borrow()))
    }

    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn with_borrow_mut<R>(&'static self, use_it: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| use_it(&mut cell.borrow_mut()))
    }

    /// Does the same as the method of std's `LocalKey` with this name.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}
