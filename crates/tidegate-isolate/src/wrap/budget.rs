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
    /// The retries that are available, in parts of a retry.
    balance: AtomicU64,
    /// What a call earns, in parts of a retry: hundredths of a percent.
    share: u64,
    most: u64,
}

/// The parts of a retry.
const PARTS: u64 = 10_000;

impl RetryBudget {
    /// The default share, in percent.
    pub const PERCENT: u32 = 20;
    /// The default reserve.
    pub const RESERVE: u32 = 3;

    /// Creates a budget that allows retries for `percent` percent of the calls, and `reserve`
    /// retries that are available from the start. The balance is at most the reserve plus the share
    /// of a hundred calls.
    pub fn new(percent: u32, reserve: u32) -> Self {
        Self::of_parts(u64::from(percent) * 100, reserve)
    }

    /// Creates a budget for a share that is not a whole percentage, in hundredths of a percent. The
    /// balance is at most the reserve plus the share of a hundred calls, or plus one retry if that
    /// is less.
    ///
    /// ```
    /// use tidegate_isolate::RetryBudget;
    ///
    /// let half_a_percent = RetryBudget::from_hundredths(50, 0);
    /// (0..199).for_each(|_| half_a_percent.earn());
    /// assert!(!half_a_percent.try_spend());
    /// half_a_percent.earn();
    /// assert!(half_a_percent.try_spend());
    /// ```
    pub fn from_hundredths(hundredths: u32, reserve: u32) -> Self {
        Self::of_parts(u64::from(hundredths), reserve)
    }

    fn of_parts(share: u64, reserve: u32) -> Self {
        let reserve = u64::from(reserve) * PARTS;
        Self {
            shared: Arc::new(Shared {
                balance: AtomicU64::new(reserve),
                share,
                most: reserve + (share * 100).max(PARTS),
            }),
        }
    }

    /// Adds the share of one call.
    pub fn earn(&self) {
        self.add(self.shared.share);
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
        self.shared.balance.load(Ordering::Relaxed) / PARTS
    }

    /// Takes one retry from the budget. Returns `false` if the balance is too low.
    pub fn try_spend(&self) -> bool {
        let spent = |balance: u64| balance.checked_sub(PARTS);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let balance = &self.shared.balance;
        balance.fetch_update(set, fetch, spent).is_ok()
    }

    /// Takes one retry from the budget for an attempt that has not begun. It goes back if the attempt
    /// never begins.
    pub(super) fn pay(&self) -> Option<Paid> {
        self.try_spend().then(|| Paid(Some(self.clone())))
    }

    fn add(&self, parts: u64) {
        let most = self.shared.most;
        let added = |balance: u64| Some((balance + parts).min(most));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.shared.balance.fetch_update(set, fetch, added);
    }
}

/// A retry that is paid for and has not begun. Dropping it gives the retry back to the budget.
#[derive(Debug)]
pub(super) struct Paid(Option<RetryBudget>);

impl Paid {
    /// The attempt begins.
    pub(super) fn use_up(mut self) {
        self.0 = None;
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if let Some(budget) = &self.0 {
            budget.add(PARTS);
        }
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
            .field("retries", &(balance / PARTS))
            .field("percent", &(self.shared.share as f64 / 100.0))
            .finish()
    }
}
