//! The retry budget: limits retries to a share of the calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget that limits retries to a share of the calls, plus a reserve. Clones are handles to the
/// same budget.
///
/// ```
/// use tidegate_isolate::RetryBudget;
///
/// let budget = RetryBudget::new(20, 1);
/// assert!(budget.try_spend() && !budget.try_spend());
/// (0..5).for_each(|_| budget.earn());
/// assert!(budget.try_spend());
/// ```
#[derive(Clone)]
pub struct RetryBudget {
    shared: Arc<Shared>,
}

struct Shared {
    /// The retries that are available, in hundredths of a retry.
    balance: AtomicU64,
    percent: u64,
    most: u64,
}

impl RetryBudget {
    /// The default share, in percent.
    pub const PERCENT: u32 = 20;
    /// The default reserve.
    pub const RESERVE: u32 = 3;

    /// Creates a budget that allows retries for `percent` percent of the calls, and `reserve`
    /// retries that are available from the start. The balance is at most the reserve plus the share
    /// of a hundred calls.
    pub fn new(percent: u32, reserve: u32) -> Self {
        let (percent, reserve) = (u64::from(percent), u64::from(reserve) * 100);
        Self {
            shared: Arc::new(Shared {
                balance: AtomicU64::new(reserve),
                percent,
                most: reserve + percent * 100,
            }),
        }
    }

    /// Adds the share of one call.
    pub fn earn(&self) {
        let Shared { percent, most, .. } = *self.shared;
        let earned = |balance: u64| Some((balance + percent).min(most));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.shared.balance.fetch_update(set, fetch, earned);
    }

    /// Returns the number of retries that are available now.
    ///
    /// ```
    /// use tidegate_isolate::RetryBudget;
    ///
    /// let budget = RetryBudget::new(20, 3);
    /// assert!(budget.try_spend());
    /// assert_eq!(budget.left(), 2);
    /// ```
    pub fn left(&self) -> u64 {
        self.shared.balance.load(Ordering::Relaxed) / 100
    }

    /// Takes one retry from the budget. Returns `false` if the balance is too low.
    pub fn try_spend(&self) -> bool {
        let spent = |balance: u64| balance.checked_sub(100);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let balance = &self.shared.balance;
        balance.fetch_update(set, fetch, spent).is_ok()
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(Self::PERCENT, Self::RESERVE)
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let balance = self.shared.balance.load(Ordering::Relaxed);
        f.debug_struct("RetryBudget")
            .field("retries", &(balance / 100))
            .field("percent", &self.shared.percent)
            .finish()
    }
}
