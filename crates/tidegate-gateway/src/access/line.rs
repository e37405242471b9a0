//! A record as a line of JSON.
//!
//! Invariant: a line contains one line end, its last byte. Texts of clients are escaped and cut.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use super::record::Record;
use crate::json;

/// The most bytes of a text that are logged.
const LONGEST_TEXT: usize = 2048;

/// Appends a record as a line.
pub(super) fn write(line: &mut Vec<u8>, record: &Record<'_>, with_query: bool) {
    line.extend_from_slice(b"{\"time\":\"");
    write_time(line, record.at);
    line.push(b'"');
    text(line, "id", record.id);
    if let Some(client) = record.client {
        // Writing to memory cannot fail.
        let _ = write!(line, ",\"client\":\"{client}\"");
    }
    text(line, "method", record.method);
    text(line, "host", record.host);
    text(line, "path", record.path);
    if let (true, Some(query)) = (with_query, record.query) {
        text(line, "query", query);
    }
    let _ = write!(line, ",\"status\":{}", record.status);
    let texts = [
        ("route", record.route),
        ("upstream", record.upstream),
        ("server", record.server),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            text(line, name, value);
        }
    }
    let _ = write!(line, ",\"attempts\":{}", record.attempts);
    milliseconds(line, "waiting_ms", record.waiting);
    milliseconds(line, "running_ms", record.running);
    milliseconds(line, "total_ms", record.total);
    let _ = write!(
        line,
        ",\"received\":{},\"sent\":{}",
        record.received, record.sent
    );
    text(line, "outcome", record.outcome.word());
    if let Some(reason) = record.reason {
        text(line, "reason", reason);
    }
    if let Some(fallback) = record.fallback {
        text(line, "fallback", fallback.word());
    }
    if record.cut {
        line.extend_from_slice(b",\"cut\":true");
    }
    line.extend_from_slice(b"}\n");
}

/// Appends a text with its name.
fn text(line: &mut Vec<u8>, name: &str, value: &str) {
    for part in [",\"", name, "\":\""] {
        line.extend_from_slice(part.as_bytes());
    }
    let mut end = value.len().min(LONGEST_TEXT);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    json::escape(&value[..end], |part| {
        line.extend_from_slice(part.as_bytes())
    });
    if end < value.len() {
        line.extend_from_slice("…".as_bytes());
    }
    line.push(b'"');
}

/// Appends a duration in milliseconds, with three decimals.
fn milliseconds(line: &mut Vec<u8>, name: &str, value: Duration) {
    let micros = value.as_micros();
    let _ = write!(line, ",\"{name}\":{}.{:03}", micros / 1000, micros % 1000);
}

/// Appends a time in UTC, as RFC 3339 writes it, with milliseconds.
pub(crate) fn timestamp(text: &mut String, at: SystemTime) {
    let mut bytes = Vec::with_capacity(24);
    write_time(&mut bytes, at);
    text.push_str(&String::from_utf8_lossy(&bytes));
}

/// Appends a time in UTC, as RFC 3339 writes it, with milliseconds.
fn write_time(line: &mut Vec<u8>, at: SystemTime) {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let _ = write!(
        line,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z",
        second % 60,
        since.subsec_millis()
    );
}

/// Returns year, month and day of a number of days since 1970. Years begin in March here, so that
/// the day of a leap year is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    //! The text of lines.

    use std::time::{Duration, SystemTime};

    use super::{LONGEST_TEXT, write};
    use crate::access::{Outcome, Record};

    fn line(record: &Record<'_>, with_query: bool) -> String {
        let mut line = Vec::new();
        write(&mut line, record, with_query);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_has_each_value_of_a_request() {
        let record = Record {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_164_799_042),
            id: "7f",
            client: Some([10, 0, 0, 1].into()),
            method: "GET",
            host: "shop.example",
            path: "/cart",
            query: Some("token=marker"),
            status: 503,
            route: Some("cart"),
            upstream: Some("shop"),
            server: Some("10.0.0.2:80"),
            attempts: 2,
            waiting: Duration::from_micros(1500),
            running: Duration::from_micros(20_007),
            total: Duration::from_micros(21_507),
            received: 10,
            sent: 20,
            outcome: Outcome::Refused,
            reason: Some("limit"),
            fallback: Some(Outcome::Failed),
            cut: true,
        };
        let expected = "{\"time\":\"2024-02-28T23:59:59.042Z\",\"id\":\"7f\",\"client\":\"10.0.0.1\",\
             \"method\":\"GET\",\"host\":\"shop.example\",\"path\":\"/cart\",\"status\":503,\
             \"route\":\"cart\",\"upstream\":\"shop\",\"server\":\"10.0.0.2:80\",\"attempts\":2,\
             \"waiting_ms\":1.500,\"running_ms\":20.007,\"total_ms\":21.507,\"received\":10,\
             \"sent\":20,\"outcome\":\"refused\",\"reason\":\"limit\",\"fallback\":\"failed\",\"cut\":true}\n";
        assert_eq!(line(&record, false), expected);
        assert!(line(&record, true).contains("\"path\":\"/cart\",\"query\":\"token=marker\","));
        assert!(!format!("{record:?}").contains("marker"));
    }

    #[test]
    fn texts_of_clients_cannot_end_a_line_and_are_cut() {
        let long = "ä".repeat(LONGEST_TEXT);
        let record = Record {
            host: "a\"b\\c\r\n\u{7f}\u{85}",
            path: &long,
            query: Some("{\\}|`"),
            ..Record::default()
        };
        let line = line(&record, true);
        assert!(line.contains("\"query\":\"{\\\\}|`\""), "{line}");
        assert!(
            line.contains("\"host\":\"a\\\"b\\\\c\\u000d\\u000a\\u007f\\u0085\""),
            "{line}"
        );
        assert!(line.contains("ä…\""));
        assert!(line.len() < LONGEST_TEXT + 500);
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn days_of_leap_years_are_days() {
        let rows = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_735_603_200, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
        ];
        for (second, day) in rows {
            let record = Record {
                at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
                ..Record::default()
            };
            let start = format!("{{\"time\":\"{day}T00:00:00.000Z\"");
            assert!(line(&record, false).starts_with(&start), "{day}");
        }
    }
}
