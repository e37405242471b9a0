//! The kinds of bulkhead.

use std::fmt;
use std::str::FromStr;

/// Where the work of a command runs, and what limits it.
///
/// ```
/// use tidegate_isolate::Bulkhead;
///
/// assert_eq!("semaphore".parse(), Ok(Bulkhead::Permits));
/// assert!("COROUTINE".parse::<Bulkhead>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bulkhead {
    /// On the caller's thread, limited by permits: `SEMAPHORE`.
    #[default]
    Permits,
    /// On threads of its own: `THREAD`.
    Threads,
}

impl FromStr for Bulkhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_uppercase().as_str() {
            "SEMAPHORE" => Ok(Self::Permits),
            "THREAD" => Ok(Self::Threads),
            _ => Err("there are THREAD and SEMAPHORE".to_owned()),
        }
    }
}

impl fmt::Display for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permits => "SEMAPHORE",
            Self::Threads => "THREAD",
        })
    }
}
