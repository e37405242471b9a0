//! The time in which a certificate is valid, read from its DER.

use std::time::{Duration, SystemTime};

/// The tags of DER that occur on the way to the times.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns why a certificate is not valid at a time. One whose times cannot be read is left to
/// programs that check the whole certificate.
pub(super) fn problem(der: &[u8], now: SystemTime) -> Option<String> {
    let (from, to) = times(der)?;
    let now = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    if now > to.seconds {
        return Some(format!("it has expired on {}", to.day));
    }
    (now < from.seconds).then(|| format!("it is valid from {} on", from.day))
}

/// The end of a certificate, and its day as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) at: SystemTime,
    pub(crate) day: String,
}

/// Returns the end of a certificate, if it can be read.
pub(super) fn expiry(der: &[u8]) -> Option<Expiry> {
    let (_, to) = times(der)?;
    Some(Expiry {
        at: SystemTime::UNIX_EPOCH.checked_add(to.seconds)?,
        day: to.day,
    })
}

/// A time since 1970, and its day as people write it.
struct Time {
    seconds: Duration,
    day: String,
}

/// Returns the first and the last moment of a certificate.
fn times(der: &[u8]) -> Option<(Time, Time)> {
    let (certificate, _) = inside(der, SEQUENCE)?;
    let (mut body, _) = inside(certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        body = skipped(body)?;
    }
    // The serial number, the algorithm, the issuer.
    for _ in 0..3 {
        body = skipped(body)?;
    }
    let (validity, _) = inside(body, SEQUENCE)?;
    let to = skipped(validity)?;
    Some((time(validity)?, time(to)?))
}

/// Returns the content of the first value, if it has this tag, and what follows it.
fn inside(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = value(der)?;
    (found == tag).then_some((content, rest))
}

/// Returns what follows the first value.
fn skipped(der: &[u8]) -> Option<&[u8]> {
    value(der).map(|(_, _, rest)| rest)
}

/// Returns the tag and the content of the first value, and what follows it.
fn value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let length = bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Reads a time: `YYMMDDHHMMSSZ`, or `YYYYMMDDHHMMSSZ`.
fn time(der: &[u8]) -> Option<Time> {
    let (tag, content, _) = value(der)?;
    let text = str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let year: u64 = text.get(..2)?.parse().ok()?;
            let century = if year < 50 { 2000 } else { 1900 };
            (century + year, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days(year, month, day).checked_sub(days(1970, 1, 1))?;
    Some(Time {
        seconds: Duration::from_secs(days * 86_400 + seconds),
        day: format!("{year:04}-{month:02}-{day:02}"),
    })
}

/// Returns the number of days since a fixed day. Years begin in March here, so that the day of a
/// leap year is the last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = match month {
        1 | 2 => (year.saturating_sub(1), month + 9),
        _ => (year, month - 3),
    };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day
}

#[cfg(test)]
mod tests {
    //! Certificates that are valid, too old and too new.

    use std::time::{Duration, SystemTime};

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::{expiry, problem};

    fn certificate(from: i32, to: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["shop.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 2, 28);
        params.not_after = date_time_ymd(to, 3, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_times_of_a_certificate_are_found() {
        // 2024-02-28 is day 19781 since 1970, 2025-03-01 is day 20148.
        let (first, last) = (19_781 * 86_400, 20_148 * 86_400);
        let der = certificate(2024, 2025);
        assert_eq!(problem(&der, at(first)), None);
        assert_eq!(problem(&der, at(last)), None);
        let early = problem(&der, at(first - 1));
        assert_eq!(early.as_deref(), Some("it is valid from 2024-02-28 on"));
        let late = problem(&der, at(last + 1));
        assert_eq!(late.as_deref(), Some("it has expired on 2025-03-01"));
        let end = expiry(&der).unwrap();
        assert_eq!((end.at, end.day.as_str()), (at(last), "2025-03-01"));
        // The years from 2050 on are written with four digits.
        assert_eq!(problem(&certificate(1999, 2060), at(last)), None);
    }

    #[test]
    fn what_is_not_a_certificate_is_left_to_others() {
        let whole = certificate(2024, 2025);
        for end in 0..whole.len().min(120) {
            assert_eq!(problem(&whole[..end], at(0)), None);
            assert_eq!(expiry(&whole[..end]), None);
        }
        assert_eq!(problem(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], at(0)), None);
    }
}
