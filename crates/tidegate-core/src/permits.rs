//! Permits: a bound on how much may happen at the same time. The limit can change at any time.

use std::fmt;
use std::sync::Arc;

use crate::sys::prim::{AtomicU64, Ordering};

/// A set of permits that can be held at the same time. Clones are handles to the same set.
///
/// ```
/// use tidegate_core::permits::Permits;
///
/// let permits = Permits::new(1);
/// let held = permits.try_acquire().expect("one is free");
/// assert!(permits.try_acquire().is_none());
/// drop(held);
/// assert!(permits.try_acquire().is_some());
/// ```
#[derive(Clone)]
pub struct Permits {
    shared: Arc<Shared>,
}

struct Shared {
    held: AtomicU64,
    limit: AtomicU64,
}

impl Permits {
    /// Creates a set of `limit` permits.
    pub fn new(limit: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                held: AtomicU64::new(0),
                limit: AtomicU64::new(limit as u64),
            }),
        }
    }

    /// Creates a set without a limit; held permits are still counted.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Takes a permit if one is free. Dropping the permit returns it.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit> {
        let taken = self.shared.take(self.limit());
        taken.then(|| Permit {
            of: Arc::clone(&self.shared),
        })
    }

    /// Takes a permit that cannot outlive this handle. This is cheaper than
    /// [`Permits::try_acquire`]: only the counter is touched.
    #[inline]
    pub fn try_borrow(&self) -> Option<PermitRef<'_>> {
        self.try_borrow_below(usize::MAX)
    }

    /// Takes a permit only while fewer than `ceiling` permits are held, so that the permits above
    /// the ceiling stay free for other callers. A ceiling above the limit means the limit.
    #[doc(hidden)]
    #[inline]
    pub fn try_borrow_below(&self, ceiling: usize) -> Option<PermitRef<'_>> {
        let taken = self.shared.take(self.limit().min(ceiling));
        taken.then(|| PermitRef { of: &self.shared })
    }

    /// Returns `true` if [`Permits::try_borrow_below`] would find no permit now. This is cheaper
    /// than trying to take a permit where most attempts fail.
    #[doc(hidden)]
    #[inline]
    pub fn is_full_below(&self, ceiling: usize) -> bool {
        self.held() >= self.limit().min(ceiling)
    }

    /// Does the same as [`Permits::try_borrow_below`], but the permit owns its handle.
    #[doc(hidden)]
    pub fn try_acquire_below(&self, ceiling: usize) -> Option<Permit> {
        let taken = self.shared.take(self.limit().min(ceiling));
        taken.then(|| Permit {
            of: Arc::clone(&self.shared),
        })
    }

    /// Creates a guard for a permit that was released by [`PermitRef::forget`] and still counts as
    /// held. The two methods together hand a held permit to another thread.
    #[doc(hidden)]
    pub fn adopt(&self) -> PermitRef<'_> {
        PermitRef { of: &self.shared }
    }

    /// Returns the number of permits held now. After the limit was lowered, this may exceed the
    /// limit until enough permits are returned.
    #[inline]
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed) as usize
    }

    /// Returns the limit.
    #[inline]
    pub fn limit(&self) -> usize {
        self.shared.limit.load(Ordering::Relaxed) as usize
    }

    /// Changes the limit; permits that are held now stay valid.
    pub fn set_limit(&self, limit: usize) {
        self.shared.limit.store(limit as u64, Ordering::Relaxed);
    }
}

impl Shared {
    #[inline]
    fn take(&self, limit: usize) -> bool {
        let limit = limit as u64;
        // ORDERING: Acquire pairs with the Release in `give`: what the last holder did is visible
        // to the next holder.
        self.held
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |held| {
                (held < limit).then(|| held + 1)
            })
            .is_ok()
    }

    #[inline]
    fn give(&self) {
        // ORDERING: Release pairs with the Acquire in `take`.
        self.held.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits")
            .field("held", &self.held())
            .field("limit", &self.limit())
            .finish()
    }
}

/// One permit. Dropping it returns it to its set.
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    of: Arc<Shared>,
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.of.give();
    }
}

/// One permit, borrowed from its [`Permits`]. Dropping it returns it to its set.
#[must_use = "dropping a permit gives it back"]
pub struct PermitRef<'a> {
    of: &'a Shared,
}

impl PermitRef<'_> {
    /// Releases the guard without returning the permit: the permit counts as held until a guard
    /// from [`Permits::adopt`] is dropped.
    #[doc(hidden)]
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for PermitRef<'_> {
    #[inline]
    fn drop(&mut self) {
        self.of.give();
    }
}

impl fmt::Debug for PermitRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitRef")
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Never more holders than the limit, and no permit is lost.

    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn never_exceeds_the_limit_under_contention() {
        let permits = Permits::new(3);
        let now = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Some(_held) = permits.try_acquire() {
                            assert!(now.fetch_add(1, Ordering::Relaxed) < 3);
                            now.fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(permits.held(), 0);
    }

    #[test]
    fn a_lowered_limit_waits_for_the_holders() {
        let permits = Permits::new(2);
        let both = (permits.try_acquire(), permits.try_acquire());
        permits.set_limit(1);
        assert_eq!((permits.held(), permits.limit()), (2, 1));
        drop(both.0);
        assert!(permits.try_acquire().is_none());
        drop(both.1);
        assert!(permits.try_acquire().is_some());
    }

    #[test]
    fn what_is_above_a_ceiling_stays_free_for_others() {
        let permits = Permits::new(3);
        let low = permits.try_borrow_below(2);
        assert!(permits.try_borrow_below(1).is_none());
        assert!(permits.is_full_below(1) && !permits.is_full_below(2));
        let also_low = permits.try_acquire_below(2);
        assert!(permits.try_borrow_below(2).is_none());
        let high = permits.try_borrow();
        assert!(low.is_some() && also_low.is_some() && high.is_some());
        assert!(permits.is_full_below(9), "a ceiling raises no limit");
        assert!(
            permits.try_borrow_below(9).is_none(),
            "a ceiling raises no limit"
        );
        drop((low, also_low));
        high.expect("it was free").forget();
        assert_eq!(permits.held(), 1);
        drop(permits.adopt());
        assert_eq!(permits.held(), 0);
    }

    #[test]
    fn unlimited_still_counts() {
        let permits = Permits::unlimited();
        let held: Vec<_> = (0..100).map(|_| permits.try_acquire()).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(permits.held(), 100);
    }
}
