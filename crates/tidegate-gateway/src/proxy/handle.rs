//! Handles of values whose memory is used again: a new value takes a block that an earlier one of the
//! same thread has left, and allocates none. Requests that are passed on are such values.
//!
//! # Invariants
//!
//! * A spare block is empty: it keeps nothing alive.
//! * A block is spare only if nothing else refers to it. Weak handles of it are dropped first.
//! * What was in a block is dropped while the spare blocks are not borrowed: that may end other values.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::thread::LocalKey;

use tidegate_core::internal::Spares;

/// How many blocks a thread keeps. More values than that at once allocate theirs.
pub(super) const KEPT: usize = 256;

/// The spare blocks of a thread.
pub(super) type Spare<T> = Spares<Arc<Block<T>>>;

/// A value whose memory is used again.
pub(super) trait Recycled: Send + Sync + Sized + 'static {
    /// Returns the spare blocks of this thread.
    fn spare() -> &'static LocalKey<Spare<Self>>;

    /// Drops the weak handle of a value that ends. Returns `false` if the block is not to be used
    /// again: the value is not known, or this is not its thread.
    fn forget(&self, is_it: impl Fn(&WeakHandle<Self>) -> bool) -> bool;

    /// Goes on with what [`Handle::waker`] waits for, on any thread.
    fn wake(handle: Handle<Self>);
}

/// A handle of a value. The value ends with the last one.
pub(super) struct Handle<T: Recycled> {
    /// `None` only while the handle is dropped.
    block: Option<Arc<Block<T>>>,
}

/// The memory of a value.
pub(super) struct Block<T> {
    /// `None` while the block is spare.
    value: Option<T>,
}

/// A handle of a value that may have ended.
pub(super) struct WeakHandle<T>(Weak<Block<T>>);

impl<T: Recycled> Handle<T> {
    // So that the parts of the value are moved once.
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        let mut block = Spares::take(T::spare());
        let value = Some(value);
        match block.as_mut().and_then(Arc::get_mut) {
            Some(empty) => empty.value = value,
            None => block = Some(Arc::new(Block { value })),
        }
        Self { block }
    }

    pub(super) fn downgrade(&self) -> WeakHandle<T> {
        WeakHandle(self.block.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    /// Returns what lets the value go on.
    pub(super) fn waker(&self) -> Waker {
        match &self.block {
            Some(block) => Waker::from(Arc::clone(block)),
            None => Waker::noop().clone(),
        }
    }
}

impl<T: Recycled> WeakHandle<T> {
    pub(super) fn upgrade(&self) -> Option<Handle<T>> {
        let block = self.0.upgrade();
        block.map(|block| Handle { block: Some(block) })
    }

    /// Returns `true` if no handle is left.
    pub(super) fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl<T: Recycled> Clone for Handle<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            block: self.block.clone(),
        }
    }
}

impl<T: Recycled> Deref for Handle<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self.block.as_deref() {
            Some(Block { value: Some(value) }) => value,
            _ => unreachable!("a block with a handle has a value"),
        }
    }
}

impl<T: Recycled> Drop for Handle<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && Arc::strong_count(&block) == 1
        {
            end(block);
        }
    }
}

impl<T: Recycled> Wake for Block<T> {
    fn wake(self: Arc<Self>) {
        T::wake(Handle { block: Some(self) });
    }
}

/// Ends a value whose last handle this was, and keeps its block. On another thread than its own, the
/// block is freed.
fn end<T: Recycled>(mut block: Arc<Block<T>>) {
    let is_it = |weak: &WeakHandle<T>| std::ptr::eq(weak.0.as_ptr(), Arc::as_ptr(&block));
    if !block
        .value
        .as_ref()
        .is_some_and(|value| value.forget(is_it))
    {
        return;
    }
    // There may be another weak handle.
    let Some(ended) = Arc::get_mut(&mut block).map(|block| block.value.take()) else {
        return;
    };
    Spares::put_back(T::spare(), block);
    drop(ended);
}

#[cfg(test)]
mod tests {
    //! Which blocks are used again, and when values are dropped.

    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    thread_local! {
        static SPARE: Spare<Value> = const { Spares::new(KEPT) };
    }

    #[derive(Default)]
    struct Value {
        is_unknown: AtomicBool,
        /// Dropped with the value.
        other: Option<Handle<Value>>,
        _ended: Ended,
    }

    /// Counts the values that were dropped.
    #[derive(Default)]
    struct Ended(Arc<AtomicUsize>);

    impl Ended {
        fn value(&self) -> Value {
            Value {
                _ended: Ended(Arc::clone(&self.0)),
                ..Value::default()
            }
        }

        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Recycled for Value {
        fn spare() -> &'static LocalKey<Spare<Self>> {
            &SPARE
        }

        fn forget(&self, _: impl Fn(&WeakHandle<Self>) -> bool) -> bool {
            !self.is_unknown.load(Ordering::Relaxed)
        }

        fn wake(handle: Handle<Self>) {
            handle.is_unknown.store(true, Ordering::Relaxed);
        }
    }

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn spare() -> usize {
        let all: Vec<_> = std::iter::from_fn(|| Spares::take(&SPARE)).collect();
        let back = |block| Spares::put_back(&SPARE, block);
        all.into_iter().map(back).fold(0, |count, ()| count + 1)
    }

    #[test]
    fn a_block_is_used_again_after_the_last_handle() {
        let ended = Ended::default();
        let one = Handle::new(ended.value());
        let place = std::ptr::from_ref::<Value>(&one);
        let other = one.clone();
        drop(one);
        assert_eq!((ended.count(), spare()), (0, 0));
        drop(other);
        assert_eq!((ended.count(), spare()), (1, 1));
        let next = Handle::new(ended.value());
        assert!(std::ptr::eq(place, &*next));
        assert_eq!(spare(), 0);
    }

    #[test]
    fn a_value_that_is_unknown_or_weakly_held_is_dropped_with_its_block() {
        let ended = Ended::default();
        let weak = Handle::new(ended.value()).downgrade();
        assert!(weak.has_ended() && weak.upgrade().is_none());
        assert_eq!((ended.count(), spare()), (1, 0));
        let unknown = Handle::new(Value::default());
        unknown.waker().wake();
        drop(unknown);
        assert_eq!(spare(), 0);
    }

    #[test]
    fn the_drop_of_a_value_may_end_others_and_few_blocks_are_kept() {
        let mut chain = Handle::new(Value::default());
        for _ in 0..2 * KEPT {
            chain = Handle::new(Value {
                other: Some(chain),
                ..Value::default()
            });
        }
        assert!(chain.other.is_some());
        drop(chain);
        assert_eq!(spare(), KEPT);
    }
}
