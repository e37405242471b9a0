//! Containment: the single place where panics of user code are caught.
//!
//! User code is everything that a caller hands to the library: closures, futures, listeners, hooks,
//! and the `Drop` of the values that they captured, returned or panicked with. The payload of a
//! panic is a user value as well, and its `Drop` may panic in turn. A [`CaughtPanic`] therefore
//! drops its payload inside containment, so a library thread that ignores a panic survives it.
//! `cargo xtask tidy` refuses `catch_unwind` anywhere else in the library.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How many nested payloads are dropped before the next one is leaked: each of them panics in its
/// `Drop` with the next.
const ROUNDS: usize = 4;

type Payload = Box<dyn Any + Send>;

/// Runs user code and catches its panic.
///
/// Values that `run` captured are dropped inside containment as well. The value that `run` returns
/// is not: drop it with [`discard`] if it belongs to the user.
///
/// # Errors
///
/// The panic. Ignoring it is safe: its payload is dropped inside containment.
///
/// ```
/// use tidegate_core::internal::contain;
///
/// assert_eq!(contain(|| 7).unwrap(), 7);
/// let panic = contain(|| panic!("out of ink")).unwrap_err();
/// assert_eq!(panic.message(), "out of ink");
/// ```
#[inline(always)]
pub fn contain<R>(run: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(CaughtPanic::from)
}

/// Returns the message of a caught panic, for reports.
fn panic_message(payload: &(dyn Any + Send)) -> &str {
    if let Some(message) = payload.downcast_ref::<&'static str>() {
        message
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message
    } else {
        "a panic without a message"
    }
}

/// Drops a user value and catches a panic of its `Drop`.
///
/// ```
/// struct Bomb;
/// impl Drop for Bomb {
///     fn drop(&mut self) {
///         panic!("on purpose");
///     }
/// }
/// tidegate_core::internal::discard(Bomb);
/// ```
#[inline]
pub fn discard<T>(value: T) {
    // A constant, so that no code is generated for values without drop glue.
    if const { mem::needs_drop::<T>() } {
        let _ = contain(|| drop(value));
    }
}

/// Drops user values one by one, so that a panic in the `Drop` of one value neither leaks the other
/// values nor coincides with the panic of another value.
pub fn discard_all<T>(values: impl IntoIterator<Item = T>) {
    values.into_iter().for_each(discard);
}

/// A panic of user code that [`contain`] caught.
///
/// Dropping it drops the payload inside containment: a panic in the payload's `Drop` is reported
/// only by the panic hook of the process. After a few payloads that each panic with the next one,
/// the last one is leaked.
pub struct CaughtPanic {
    /// Present until this is dropped or resumed.
    payload: Option<Payload>,
}

impl CaughtPanic {
    /// Returns the message of the panic, for reports.
    pub fn message(&self) -> &str {
        self.payload.as_deref().map_or("", panic_message)
    }

    /// Continues the panic on the calling thread.
    pub fn resume(mut self) -> ! {
        let payload = self.payload.take();
        resume_unwind(payload.expect("only a drop takes it"))
    }
}

impl From<Payload> for CaughtPanic {
    fn from(payload: Payload) -> Self {
        Self {
            payload: Some(payload),
        }
    }
}

impl Drop for CaughtPanic {
    #[cold]
    fn drop(&mut self) {
        let mut left = self.payload.take();
        for _ in 0..ROUNDS {
            let Some(payload) = left.take() else { return };
            left = catch_unwind(AssertUnwindSafe(|| drop(payload))).err();
        }
        mem::forget(left);
    }
}

impl fmt::Debug for CaughtPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaughtPanic").field(&self.message()).finish()
    }
}

#[cfg(test)]
mod tests {
    //! No panic escapes from containment, whatever a payload does while it is dropped.

    use std::panic::panic_any;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A payload that counts its drop and panics with the next payload.
    struct Nested {
        left: usize,
        dropped: Arc<AtomicUsize>,
    }

    impl Drop for Nested {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if self.left > 0 {
                panic_any(Self {
                    left: self.left - 1,
                    dropped: Arc::clone(&self.dropped),
                });
            }
        }
    }

    fn drops_of(nested: usize) -> usize {
        let dropped = Arc::new(AtomicUsize::new(0));
        let payload = Nested {
            left: nested,
            dropped: Arc::clone(&dropped),
        };
        let _ = contain(|| panic_any(payload));
        dropped.load(Ordering::Relaxed)
    }

    #[test]
    fn a_payload_is_dropped_inside_containment() {
        assert_eq!(drops_of(0), 1);
        assert_eq!(drops_of(1), 2);
        assert_eq!(drops_of(2), 3);
    }

    #[test]
    #[cfg_attr(
        tidegate_sanitize,
        ignore = "a payload that cannot be dropped is left behind"
    )]
    fn payloads_that_never_stop_panicking_are_leaked() {
        assert_eq!(drops_of(usize::MAX), ROUNDS);
    }

    #[test]
    fn a_panic_knows_its_message_and_can_go_on() {
        let panic = contain(|| panic!("number {}", 7)).unwrap_err();
        assert_eq!(panic.message(), "number 7");
        assert_eq!(format!("{panic:?}"), "CaughtPanic(\"number 7\")");
        let again = contain(|| -> () { panic.resume() });
        assert_eq!(again.unwrap_err().message(), "number 7");
    }

    #[test]
    fn a_caught_panic_is_dropped_while_another_one_unwinds() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let payload = Nested {
            left: 1,
            dropped: Arc::clone(&dropped),
        };
        let panic = contain(|| panic_any(payload)).unwrap_err();
        let outer = contain(|| {
            let _inner = panic;
            panic!("outer");
        });
        assert_eq!(outer.unwrap_err().message(), "outer");
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn values_are_dropped_one_by_one() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let bombs: Vec<_> = (0..3)
            .map(|_| Nested {
                left: 1,
                dropped: Arc::clone(&dropped),
            })
            .collect();
        discard_all(bombs);
        assert_eq!(dropped.load(Ordering::Relaxed), 6);
    }
}
