//! The criticality of calls, and the shares of a limit that are reserved for critical calls.

use crate::error::ConfigError;
use crate::key::Key;

/// How critical a call is: under overload, the most critical calls are rejected last.
///
/// ```
/// use tidegate_isolate::Criticality;
///
/// assert!(Criticality::High > Criticality::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Criticality {
    /// A call whose loss goes unnoticed: prefetches, batch work.
    Sheddable,
    /// An ordinary call.
    #[default]
    Normal,
    /// A call that a user waits for.
    High,
    /// A call without which the service is down.
    Critical,
}

/// The shares of the limit that are reserved for calls of a criticality or above.
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
    /// The share that is not available to sheddable calls.
    pub normal: f64,
    /// The share that is not available to sheddable and normal calls.
    pub high: f64,
    /// The share that is available to critical calls only.
    pub critical: f64,
}

impl Partitions {
    /// Returns how many of `limit` permits may be held, at most, after a call of this criticality
    /// has taken one; at least 1.
    pub fn ceiling(&self, limit: usize, criticality: Criticality) -> usize {
        let above = match criticality {
            Criticality::Sheddable => self.normal + self.high + self.critical,
            Criticality::Normal => self.high + self.critical,
            Criticality::High => self.critical,
            Criticality::Critical => 0.0,
        };
        // Rounded first, because 0.1 + 0.1 is slightly more than 0.2 in floating point.
        let kept = (limit as f64 * above * 1e6).round() / 1e6;
        limit.saturating_sub(kept.ceil() as usize).max(1)
    }

    /// Returns the ceilings of all criticalities.
    pub(super) fn ceilings(&self, limit: usize) -> [usize; 4] {
        [
            Criticality::Sheddable,
            Criticality::Normal,
            Criticality::High,
            Criticality::Critical,
        ]
        .map(|criticality| self.ceiling(limit, criticality))
    }

    pub(crate) fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let shares = [self.normal, self.high, self.critical];
        let sum: f64 = shares.iter().sum();
        if shares.iter().all(|share| *share >= 0.0) && sum <= 1.0 {
            return Ok(());
        }
        let reason = "shares are not negative, and together at most 1";
        Err(ConfigError::new(
            key,
            "partitions",
            format!("{shares:?}"),
            reason,
        ))
    }
}
