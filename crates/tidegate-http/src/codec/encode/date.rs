//! Dates in the form that HTTP prefers (IMF-fixdate): `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::fmt;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::chars;

/// The last second of the year 9999: later years do not fit in the form.
const LAST_SECOND: u64 = 253_402_300_799;

/// A date as text, for `Date`, `Last-Modified` and similar fields.
///
/// It takes no clock: the caller passes the time, and formats it once per second.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::HttpDate;
///
/// let date = HttpDate::from_unix_seconds(784_111_777);
/// assert_eq!(date.as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
/// assert_eq!(HttpDate::parse(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HttpDate {
    /// The date as the last field of a head: with its name, the line end before it and the empty line
    /// after it. Most responses end so, and copy it whole.
    last_field: [u8; HttpDate::LAST_FIELD_LEN],
}

impl HttpDate {
    /// The length of a date as text.
    pub const LEN: usize = 29;
    const START: usize = b"\r\nDate: ".len();
    pub(super) const LAST_FIELD_LEN: usize = Self::START + Self::LEN + b"\r\n\r\n".len();

    /// Formats the second `seconds` since the start of 1970, UTC.
    ///
    /// A time after the year 9999 becomes the last second of that year.
    #[must_use]
    pub fn from_unix_seconds(seconds: u64) -> Self {
        let seconds = seconds.min(LAST_SECOND);
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
        let mut last_field = *b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        let written = write!(&mut last_field[Self::START..][..Self::LEN], "{date}");
        debug_assert!(written.is_ok(), "it has this length");
        Self { last_field }
    }

    /// Returns the second since the start of 1970 of a date, or `None` if `text` is not one. The two
    /// obsolete forms of dates are read, too (RFC 9110, section 5.6.7).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<u64> {
        let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
        Some(
            SystemTime::duration_since(&date, UNIX_EPOCH)
                .ok()?
                .as_secs(),
        )
    }

    /// Returns the date as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        chars::ascii(self.as_bytes())
    }

    /// Returns the date as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        let (_, text) = self.last_field.split_at(Self::START);
        text.first_chunk()
            .expect("the field contains the whole date")
    }

    /// Returns the line end of the field before, the field `Date`, and the end of the head.
    #[inline]
    pub(super) const fn as_last_field(&self) -> &[u8; Self::LAST_FIELD_LEN] {
        &self.last_field
    }
}

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_are_formatted() {
        let rows = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (LAST_SECOND, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, text) in rows {
            assert_eq!(HttpDate::from_unix_seconds(seconds).as_str(), text);
        }
    }

    #[test]
    fn all_forms_of_dates_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                HttpDate::parse(text.as_bytes()),
                Some(784_111_777),
                "{text}"
            );
        }
    }

    #[test]
    fn wrong_dates_are_refused() {
        let wrong: [&[u8]; 7] = [
            b"",
            b"Mon, 06 Nov 1994 08:49:37 GMT",
            b"Sun, 06 Nov 1994 24:49:37 GMT",
            b"Sun, 31 Feb 1994 08:49:37 GMT",
            b"Sun, 00 Nov 1994 08:49:37 GMT",
            b"Sun, 06 Nov 1894 08:49:37 GMT",
            b"Sun, 06 Nov 1994 08:49:37 \xff",
        ];
        for text in wrong {
            assert_eq!(HttpDate::parse(text), None, "{}", text.escape_ascii());
        }
    }
}
