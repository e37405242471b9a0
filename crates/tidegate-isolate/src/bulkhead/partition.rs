//! Who is refused last: how much a call matters, and what is kept free for it.

use crate::error::Invalid;
use crate::key::Key;

/// How much a call matters: under overload, what matters most is refused last.
///
/// ```
/// use tidegate_isolate::Criticality;
///
/// assert!(Criticality::High > Criticality::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Criticality {
    /// Nobody would notice: prefetches, batch work.
    Sheddable,
    /// An ordinary call.
    #[default]
    Normal,
    /// A user waits for it.
    High,
    /// The service is down without it.
    Critical,
}

/// The shares of the limit that are kept free for calls of a criticality or above.
///
/// ```
/// use tidegate_isolate::{Criticality, Partitions};
///
/// let shares = Partitions { normal: 0.5, high: 0.1, critical: 0.1 };
/// assert_eq!(shares.ceiling(10, Criticality::Sheddable), 3);
/// assert_eq!(shares.ceiling(10, Criticality::Normal), 8);
/// assert_eq!(shares.ceiling(10, Criticality::Critical), 10);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Partitions {
    /// Kept free of sheddable calls.
    pub normal: f64,
    /// Kept free of normal calls, too.
    pub high: f64,
    /// Kept free of all but critical calls.
    pub critical: f64,
}

impl Partitions {
    /// How many of `limit` permits a call of this criticality may be the last of; one at least.
    pub fn ceiling(&self, limit: usize, criticality: Criticality) -> usize {
        let above = match criticality {
            Criticality::Sheddable => self.normal + self.high + self.critical,
            Criticality::Normal => self.high + self.critical,
            Criticality::High => self.critical,
            Criticality::Critical => 0.0,
        };
        // Rounded first: 0.1 + 0.1 is a little more than a fifth.
        let kept = (limit as f64 * above * 1e6).round() / 1e6;
        limit.saturating_sub(kept.ceil() as usize).max(1)
    }

    /// The ceilings of every criticality.
    pub(super) fn ceilings(&self, limit: usize) -> [usize; 4] {
        [
            Criticality::Sheddable,
            Criticality::Normal,
            Criticality::High,
            Criticality::Critical,
        ]
        .map(|criticality| self.ceiling(limit, criticality))
    }

    pub(crate) fn validate(&self, key: &Key) -> Result<(), Invalid> {
        let shares = [self.normal, self.high, self.critical];
        let sum: f64 = shares.iter().sum();
        if shares.iter().all(|share| *share >= 0.0) && sum <= 1.0 {
            return Ok(());
        }
        let reason = "shares are not negative, and together at most 1";
        Err(Invalid::new(
            key.as_str(),
            "partitions",
            format!("{shares:?}"),
            reason,
        ))
    }
}
