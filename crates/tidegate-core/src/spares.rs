//! Values that a thread uses in turn, mostly memory: what is taken and put back on the same thread
//! allocates nothing.

use std::cell::RefCell;
use std::thread::LocalKey;

/// The values that a thread keeps for their next use.
///
/// ```
/// use tidegate_core::internal::Spares;
///
/// thread_local! {
///     static SPARE: Spares<Vec<u8>> = const { Spares::new(16) };
/// }
///
/// Spares::put_back(&SPARE, Vec::with_capacity(100));
/// assert_eq!(Spares::take(&SPARE).unwrap_or_default().capacity(), 100);
/// assert!(Spares::take(&SPARE).is_none());
/// ```
#[derive(Debug)]
pub struct Spares<T> {
    /// The last used on top.
    kept: RefCell<Vec<T>>,
    most: usize,
}

impl<T> Spares<T> {
    /// Creates an empty store of at most so many values.
    pub const fn new(most: usize) -> Self {
        Self {
            kept: RefCell::new(Vec::new()),
            most,
        }
    }

    /// Returns the value that was put back last, if there is one. A thread that is ending has none.
    #[inline]
    pub fn take(key: &'static LocalKey<Self>) -> Option<T> {
        let spare = key.try_with(|spares| spares.kept.try_borrow_mut().ok()?.pop());
        spare.ok().flatten()
    }

    /// Keeps a value for its next use. If there are enough, or if the thread is ending, it is dropped.
    #[inline]
    pub fn put_back(key: &'static LocalKey<Self>, value: T) {
        let mut value = Some(value);
        let _ = key.try_with(|spares| {
            if let Ok(mut kept) = spares.kept.try_borrow_mut()
                && kept.len() < spares.most
            {
                kept.extend(value.take());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static SPARE: Spares<Value> = const { Spares::new(2) };
    }

    /// Takes a value when it is dropped, as user code may.
    struct Value(u8);

    impl Drop for Value {
        fn drop(&mut self) {
            let other = Spares::take(&SPARE);
            assert!(other.is_none_or(|other| other.0 != self.0));
        }
    }

    #[test]
    fn values_come_back_up_to_the_limit() {
        for number in 0..2 {
            Spares::put_back(&SPARE, Value(number));
        }
        // Dropped, which takes the last one out, which takes the first one out.
        Spares::put_back(&SPARE, Value(2));
        assert!(Spares::take(&SPARE).is_none());
        Spares::put_back(&SPARE, Value(3));
        let own = Spares::take(&SPARE).expect("it was put back");
        assert_eq!(own.0, 3);
    }

    #[test]
    fn a_thread_that_ends_drops_what_it_keeps() {
        std::thread::scope(|threads| {
            let ended = threads.spawn(|| Spares::put_back(&SPARE, Value(1)));
            ended.join().expect("no drop fails");
        });
    }
}
