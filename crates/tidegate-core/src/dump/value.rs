//! The value of one fact of a dump.

use std::fmt;
use std::time::Duration;

/// The maximum number of characters of a name or a text in a dump.
pub(super) const MAX_TEXT: usize = 200;

/// The value of one fact of a [`Dump`](crate::Dump).
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::DumpValue;
///
/// assert_eq!(DumpValue::from(65_536_u64).to_string(), "65,536");
/// assert_eq!(DumpValue::from(Duration::from_millis(1500)).to_string(), "1.5s");
/// assert_eq!(DumpValue::from("two\nlines").as_text(), Some("two\\nlines"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DumpValue {
    /// A number of things.
    Count(u64),
    /// A fraction.
    Ratio(f64),
    /// Yes or no.
    Flag(bool),
    /// A length of time.
    Time(Duration),
    /// A text without control characters, of limited length.
    Text(String),
}

impl DumpValue {
    /// Returns the number, if the value is one.
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// Returns the text, if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl From<u64> for DumpValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for DumpValue {
    fn from(count: usize) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

impl From<u32> for DumpValue {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<f64> for DumpValue {
    fn from(ratio: f64) -> Self {
        Self::Ratio(ratio)
    }
}

impl From<bool> for DumpValue {
    fn from(yes: bool) -> Self {
        Self::Flag(yes)
    }
}

impl From<Duration> for DumpValue {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

impl From<&str> for DumpValue {
    fn from(text: &str) -> Self {
        Self::Text(clean(text))
    }
}

impl From<String> for DumpValue {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl fmt::Display for DumpValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => f.pad(&grouped(*count)),
            Self::Ratio(ratio) => f.pad(&format!("{ratio:.3}")),
            Self::Flag(true) => f.pad("yes"),
            Self::Flag(false) => f.pad("no"),
            Self::Time(time) => f.pad(&format!("{time:.1?}")),
            Self::Text(text) => f.pad(text),
        }
    }
}

/// Returns `text` with its control characters escaped, cut after [`MAX_TEXT`] characters. A name
/// given by a user must break neither the lines nor the size of a dump.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(MAX_TEXT));
    for (at, one) in text.chars().enumerate() {
        if at == MAX_TEXT {
            clean.push('…');
            break;
        }
        if one.is_control() {
            clean.extend(one.escape_default());
        } else {
            clean.push(one);
        }
    }
    clean
}

/// Returns `count` with a comma after every third digit.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
