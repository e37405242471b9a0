//! Dates in the form that HTTP prefers (IMF-fixdate): `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::fmt;

use crate::codec::chars;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
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
        let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = civil(days);
        let mut last_field = *b"\r\nDate: Thu, 00 Jan 0000 00:00:00 GMT\r\n\r\n";
        let text = &mut last_field[Self::START..];
        text[0..3].copy_from_slice(DAYS[(days % 7) as usize]);
        put_digits(&mut text[5..7], day);
        text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
        put_digits(&mut text[12..16], year);
        put_digits(&mut text[17..19], second / 3600);
        put_digits(&mut text[20..22], second / 60 % 60);
        put_digits(&mut text[23..25], second % 60);
        Self { last_field }
    }

    /// Returns the second since the start of 1970 of a date in this form, or `None` if `text` is
    /// not one.
    ///
    /// The two obsolete forms of dates are not read.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<u64> {
        let text: &[u8; Self::LEN] = text.try_into().ok()?;
        let month = MONTHS.iter().position(|month| *month == &text[8..11])?;
        let (year, day) = (digits(&text[12..16])?, digits(&text[5..7])?);
        let (hour, minute) = (digits(&text[17..19])?, digits(&text[20..22])?);
        let second = digits(&text[23..25])?;
        if year < 1970 || day == 0 || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_since_1970(year, month as u64 + 1, day);
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        // Rejects a wrong day of the week, a 31 February, and wrong marks between the numbers.
        (Self::from_unix_seconds(seconds).as_bytes() == text).then_some(seconds)
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

/// Returns year, month and day of a day since the start of 1970, in the Gregorian calendar.
///
/// Counts from 1 March of year 0, so that a leap day is the last day of a year. An era has 400
/// years, which is 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`civil`], for years from 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Writes `number` in decimal digits that fill `text`.
fn put_digits(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    let mut number = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(byte - b'0');
    }
    Some(number)
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
    fn what_is_formatted_can_be_parsed() {
        for day in 0..150_000 {
            let seconds = day * SECONDS_PER_DAY + day * 37 % SECONDS_PER_DAY;
            let date = HttpDate::from_unix_seconds(seconds);
            assert_eq!(HttpDate::parse(date.as_bytes()), Some(seconds), "{date}");
        }
    }

    #[test]
    fn wrong_dates_are_refused() {
        let wrong = [
            "",
            "Sun, 06 Nov 1994 08:49:37 GM",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 6  Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GM",
            "Sun, 06 Nov 1894 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
        ];
        for text in wrong {
            assert_eq!(HttpDate::parse(text.as_bytes()), None, "{text}");
        }
    }
}
