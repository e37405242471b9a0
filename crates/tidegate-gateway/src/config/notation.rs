//! The human notation of durations, sizes and shares: `250ms`, `1m 30s`, `16KiB`, `20%`.
//!
//! Each type is read from text and written back in the same notation. Numbers without a unit are
//! refused where the unit matters: `timeout = 30` is a question, not a setting.

use std::fmt;
use std::time::Duration;

/// The units of a duration, from the longest, with their nanoseconds.
const TIMES: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
];

/// The units of a size, with their bytes.
const SIZES: [(&str, u64); 10] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// Parses a duration such as `250ms`, `1.5s` or `1m 30s`.
///
/// # Errors
///
/// A sentence that says what is wrong.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut nanos: u64 = 0;
    let mut longest = usize::MAX;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    while !rest.is_empty() {
        let (number, unit, after) = part(rest)?;
        let order = TIMES.iter().position(|(name, _)| *name == unit);
        let order = order.ok_or_else(|| match unit {
            "" => format!("`{number}` has no unit"),
            unit => format!("`{unit}` is not a unit of time"),
        })?;
        if longest != usize::MAX && order <= longest {
            return Err("its parts are not in order, longest first".to_owned());
        }
        longest = order;
        let added = scaled(number, TIMES[order].1)?;
        nanos = nanos.checked_add(added).ok_or("it is too long")?;
        rest = after.trim_start();
    }
    Ok(Duration::from_nanos(nanos))
}

/// Writes a duration in the notation that [`duration`] reads.
pub(crate) fn show_duration(duration: Duration) -> String {
    let mut nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, size) in &TIMES[..6] {
        let count = nanos / size;
        if count > 0 {
            let space = if text.is_empty() { "" } else { " " };
            text.push_str(&format!("{space}{count}{unit}"));
        }
        nanos %= size;
    }
    text
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// Parses a size such as `512B`, `16KiB` or `10MB`.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit, after) = part(text.trim())?;
        let found = SIZES.iter().find(|(name, _)| *name == unit);
        match (found, unit) {
            _ if !after.is_empty() => Err(format!("`{after}` is too much")),
            (Some((_, bytes)), _) => scaled(number, *bytes).map(Self),
            (None, "") => Err(format!("`{number}` has no unit")),
            (None, unit) => Err(format!("`{unit}` is not a unit of size")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        let whole = |size: &u64| self.0 > 0 && self.0.is_multiple_of(*size);
        match units.iter().find(|(_, size)| whole(size)) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A share of a whole, in hundredths of a percent: 0 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

impl Share {
    /// Creates a share of a number of percent.
    ///
    /// # Panics
    ///
    /// If there are more than 100.
    pub const fn percent(percent: u16) -> Self {
        assert!(percent <= 100, "a share is at most 100 percent");
        Self(percent * 100)
    }

    /// Creates a share from percent.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong: it is outside 0 to 100, or would have to be rounded.
    pub fn from_percent(percent: f64) -> Result<Self, String> {
        if !(0.0..=100.0).contains(&percent) {
            return Err("it is not within 0 to 100".to_owned());
        }
        let hundredths = (percent * 100.0).round();
        // Decimals such as 0.07 are not exact in binary.
        match (percent * 100.0 - hundredths).abs() < 1e-6 {
            true => Ok(Self(hundredths as u16)),
            false => Err("it is finer than 0.01 %".to_owned()),
        }
    }

    /// Parses a share such as `20%` or `0.5 %`.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').map(str::trim);
        let number = number.ok_or("it has no `%`")?;
        let percent: f64 = number.parse().map_err(|_| "it is not a number")?;
        Self::from_percent(percent)
    }

    /// Returns the share in hundredths of a percent: 0 to 10,000.
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// Returns the share in percent.
    pub fn as_percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Returns the share as a factor from 0 to 1.
    pub fn as_factor(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.as_percent())
    }
}

/// Splits off the first number and its unit.
fn part(text: &str) -> Result<(&str, &str, &str), String> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() {
        return Err("it does not begin with a number".to_owned());
    }
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_alphabetic());
    let (unit, after) = rest.split_at(end.unwrap_or(rest.len()));
    Ok((number, unit, after))
}

/// Multiplies a decimal number by a unit, exactly where the result is whole.
fn scaled(number: &str, unit: u64) -> Result<u64, String> {
    let number = number.replace('_', "");
    let too_large = || "it is too large".to_owned();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(too_large);
    }
    let wrong = || format!("`{number}` is not a number");
    let (whole, fraction) = number.split_once('.').ok_or_else(too_large)?;
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let decimals = u32::try_from(fraction.len()).map_err(|_| wrong())?;
    let parts: u64 = fraction.parse().map_err(|_| wrong())?;
    let ten = 10u128.checked_pow(decimals).ok_or_else(wrong)?;
    let fraction = u128::from(parts) * u128::from(unit) / ten;
    let fraction = u64::try_from(fraction).map_err(|_| too_large())?;
    let whole = whole.checked_mul(unit).ok_or_else(too_large)?;
    whole.checked_add(fraction).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    //! One row for each form, right or wrong.

    use std::time::Duration;

    use super::{Share, Size, duration, show_duration};

    #[test]
    fn durations_have_units_and_parts() {
        let rows = [
            ("250ms", Ok(250_000)),
            ("1.5s", Ok(1_500_000)),
            ("1m 30s", Ok(90_000_000)),
            ("1m30s", Ok(90_000_000)),
            ("2 h", Ok(7_200_000_000)),
            ("0s", Ok(0)),
            ("7us", Ok(7)),
            ("1_000ms", Ok(1_000_000)),
            ("30", Err("`30` has no unit")),
            ("30 sec", Err("`sec` is not a unit of time")),
            ("", Err("it is empty")),
            ("fast", Err("it does not begin with a number")),
            ("-1s", Err("it does not begin with a number")),
            ("30s 1m", Err("its parts are not in order, longest first")),
            ("1s 1s", Err("its parts are not in order, longest first")),
            ("1.2.3s", Err("`1.2.3` is not a number")),
            ("99999999999d", Err("it is too large")),
        ];
        for (text, expected) in rows {
            let expected = expected.map(Duration::from_micros).map_err(str::to_owned);
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_as_it_is_read() {
        for text in ["250ms", "1m 30s", "1d 2h", "1s 500ms", "0s", "7us"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let rows = [
            ("512B", Ok(512)),
            ("16KiB", Ok(16 * 1024)),
            ("1.5 MiB", Ok(1_572_864)),
            ("10MB", Ok(10_000_000)),
            ("64", Err("`64` has no unit")),
            ("1K", Err("`K` is not a unit of size")),
            ("1KiB 2B", Err("` 2B` is too much")),
            ("99999999TiB", Err("it is too large")),
        ];
        for (text, expected) in rows {
            let expected = expected.map(Size).map_err(str::to_owned);
            assert_eq!(Size::parse(text), expected, "{text}");
        }
        assert_eq!(Size(16 * 1024).to_string(), "16KiB");
        assert_eq!(Size(1_000).to_string(), "1000B");
    }

    #[test]
    fn shares_are_between_nothing_and_all() {
        assert_eq!(Share::parse("20%"), Ok(Share::percent(20)));
        assert_eq!(Share::parse("0.5 %").map(Share::as_factor), Ok(0.005));
        assert_eq!(
            Share::parse("101%"),
            Err("it is not within 0 to 100".to_owned())
        );
        assert_eq!(
            Share::parse("NaN%"),
            Err("it is not within 0 to 100".to_owned())
        );
        assert_eq!(Share::parse("0.07%").map(Share::hundredths), Ok(7));
        assert_eq!(
            Share::parse("0.001%"),
            Err("it is finer than 0.01 %".to_owned())
        );
        assert_eq!(Share::parse("20"), Err("it has no `%`".to_owned()));
        assert_eq!(Share::percent(20).to_string(), "20%");
    }
}
