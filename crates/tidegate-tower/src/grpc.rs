//! The headers of gRPC that matter for a call: its timeout and its status.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use tidegate_isolate::Verdict;

pub(crate) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The time after which a client may retry, in milliseconds.
pub(crate) const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
pub(crate) const CONTENT_TYPE: &str = "application/grpc";
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The statuses whose HTTP equivalent is 500 or above: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED,
/// INTERNAL, UNAVAILABLE, DATA_LOSS.
const FAILURES: [&str; 6] = ["2", "4", "12", "13", "14", "15"];

/// Returns `true` if a request or response with these headers is one of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE);
    content.is_some_and(|content| content.as_bytes().starts_with(CONTENT_TYPE.as_bytes()))
}

/// Returns the verdict on the status in these headers or trailers, if there is one.
pub(crate) fn verdict(headers: &HeaderMap) -> Option<Verdict> {
    let status = headers.get(STATUS)?;
    let is_failure = FAILURES.iter().any(|failure| status == failure);
    Some(Verdict::from(!is_failure))
}

/// Returns the timeout that a request states. A value that is not valid is ignored.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get(TIMEOUT)?)
}

/// Parses up to eight digits and a unit.
fn parse_timeout(value: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    let is_valid = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    if !is_valid {
        return None;
    }
    let number = digits.iter().fold(0, |number: u64, digit| {
        number * 10 + u64::from(digit - b'0')
    });
    match unit {
        b'H' => Some(Duration::from_secs(number * 60 * 60)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> Option<Duration> {
        parse_timeout(&HeaderValue::from_str(value).unwrap())
    }

    #[test]
    fn a_timeout_is_a_number_and_a_unit() {
        assert_eq!(parsed("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parsed("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parsed("4S"), Some(Duration::from_secs(4)));
        assert_eq!(parsed("82m"), Some(Duration::from_millis(82)));
        assert_eq!(parsed("5u"), Some(Duration::from_micros(5)));
        assert_eq!(parsed("0n"), Some(Duration::ZERO));
        assert_eq!(
            parsed("99999999H").map(|t| t.as_secs()),
            Some(359_999_996_400)
        );
    }

    #[test]
    fn a_timeout_that_is_not_valid_is_ignored() {
        for value in [
            "",
            "m",
            "12",
            "1.5S",
            "-1S",
            "123456789S",
            "1 S",
            "1s",
            "S1",
        ] {
            assert_eq!(parsed(value), None, "{value:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }

    #[test]
    fn a_status_is_a_failure_if_it_is_one_of_the_server() {
        let verdict_on = |status: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(STATUS, HeaderValue::from_static(status));
            verdict(&headers)
        };
        for status in ["0", "1", "3", "5", "8", "16"] {
            assert_eq!(verdict_on(status), Some(Verdict::Success), "{status}");
        }
        for status in FAILURES {
            assert_eq!(verdict_on(status), Some(Verdict::Failure), "{status}");
        }
        assert_eq!(verdict(&HeaderMap::new()), None);
    }
}
