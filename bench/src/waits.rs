//! A histogram of waits: 32 buckets for each doubling, like an HDR histogram of five bits.

use std::fmt::Write as _;
use std::time::Duration;

/// Number of buckets for each doubling of the wait.
const FINE: usize = 32;

/// The number of waits by duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    counts: Vec<u64>,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; 64 * FINE],
        }
    }

    pub(crate) fn add(&mut self, wait: Duration) {
        let nanos = (wait.as_nanos() as u64).max(FINE as u64);
        let doubling = nanos.ilog2() as usize;
        let within = (nanos >> (doubling - 5)) as usize & (FINE - 1);
        self.counts[doubling * FINE + within] += 1;
    }

    pub(crate) fn add_all(&mut self, more: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&more.counts) {
            *count += more;
        }
    }

    /// Returns the number of waits.
    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the wait below which the share `part` of all waits lies, in nanoseconds.
    pub(crate) fn at(&self, part: f64) -> f64 {
        let mut below = (self.len() as f64 * part) as u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            if below < *count {
                let (doubling, within) = (bucket / FINE, bucket % FINE);
                return ((FINE + within) as f64) * f64::powi(2.0, doubling as i32 - 5);
            }
            below -= count;
        }
        f64::NAN
    }

    /// Returns the histogram as one word, for transfer to another process.
    pub(crate) fn to_word(&self) -> String {
        let mut word = String::from("w");
        let counts = self.counts.iter().enumerate();
        for (bucket, count) in counts.filter(|(_, count)| **count > 0) {
            write!(word, ",{bucket}:{count}").expect("writing to a String cannot fail");
        }
        word
    }

    /// Parses the output of [`Waits::to_word`]; returns `None` for anything else.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let mut waits = Self::new();
        let mut parts = word.split(',');
        (parts.next()? == "w").then_some(())?;
        for part in parts {
            let (bucket, count) = part.split_once(':')?;
            let bucket: usize = bucket.parse().ok()?;
            *waits.counts.get_mut(bucket)? = count.parse().ok()?;
        }
        Some(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_thirtieth_and_survive_the_way_to_another_process() {
        let mut waits = Waits::new();
        for micros in 1..=1_000 {
            waits.add(Duration::from_micros(micros));
        }
        for (part, nanos) in [(0.5, 500_000.0), (0.99, 990_000.0)] {
            let error: f64 = waits.at(part) / nanos - 1.0;
            assert!(error.abs() < 1.0 / 30.0, "{part}: off by {error}");
        }
        assert_eq!(Waits::from_word(&waits.to_word()), Some(waits.clone()));
        assert_eq!(Waits::from_word("w,1:x"), None);
        let mut twice = waits.clone();
        twice.add_all(&waits);
        assert_eq!(twice.at(0.5), waits.at(0.5));
        assert!(Waits::new().at(0.5).is_nan());
    }
}
