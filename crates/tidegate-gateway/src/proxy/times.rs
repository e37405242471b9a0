//! When a request passed each step.

use std::io::Write as _;
use std::time::Duration;

/// The steps of a request, in nanoseconds of the loop's clock. Zero means that the step was not
/// reached, unless it is an option. A later attempt replaces the times of an earlier one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The head of the request was received.
    pub(crate) began: u64,
    /// The command has admitted the first attempt.
    pub(crate) first: Option<u64>,
    /// The command has admitted the request.
    pub(crate) admitted: u64,
    /// A connection was there.
    pub(crate) connected: u64,
    /// The head of the response was received; only for `Server-Timing`.
    pub(crate) head: u64,
}

impl Times {
    /// Returns the value of `Server-Timing` at the head of the response, in milliseconds.
    pub(crate) fn server_timing(&self) -> TimingText {
        let steps = [
            ("queue", self.began, self.admitted),
            ("connect", self.admitted, self.connected),
            ("head", self.connected, self.head),
        ];
        let mut text = TimingText::default();
        for (name, from, to) in steps {
            text.add(name, Duration::from_nanos(to.saturating_sub(from)));
        }
        text
    }

    /// Returns the value of `Server-Timing` at the end of the response, in milliseconds.
    pub(crate) fn body_timing(&self, now: u64) -> TimingText {
        let mut text = TimingText::default();
        text.add("body", Duration::from_nanos(now.saturating_sub(self.head)));
        text
    }
}

/// A value of `Server-Timing`, without memory of its own.
pub(crate) struct TimingText {
    bytes: [u8; 128],
    length: usize,
}

impl TimingText {
    /// Adds a step. One for which there is no room is left out.
    fn add(&mut self, name: &str, took: Duration) {
        let comma = if self.length == 0 { "" } else { ", " };
        let took = took.as_secs_f64() * 1000.0;
        let mut room = &mut self.bytes[self.length..];
        let before = room.len();
        if write!(room, "{comma}{name};dur={took:.1}").is_ok() {
            self.length += before - room.len();
        }
    }
}

impl Default for TimingText {
    fn default() -> Self {
        Self {
            bytes: [0; 128],
            length: 0,
        }
    }
}

impl AsRef<[u8]> for TimingText {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    //! The text of the field.

    use super::*;

    #[test]
    fn each_step_has_its_time_in_milliseconds() {
        let times = Times {
            began: 0,
            first: Some(1_500_000),
            admitted: 1_500_000,
            connected: 2_000_000,
            head: 12_000_000,
        };
        assert_eq!(
            text(&times.server_timing()),
            "queue;dur=1.5, connect;dur=0.5, head;dur=10.0"
        );
        assert_eq!(text(&times.body_timing(15_000_000)), "body;dur=3.0");
        assert_eq!(
            text(&Times::default().server_timing()),
            "queue;dur=0.0, connect;dur=0.0, head;dur=0.0"
        );
    }

    #[test]
    fn the_longest_times_fit() {
        let times = Times {
            admitted: u64::MAX,
            head: 2 * (u64::MAX / 3),
            connected: u64::MAX / 3,
            ..Times::default()
        };
        let shown = times.server_timing();
        assert!(
            text(&shown).contains("head;dur=6148914691236.5"),
            "{}",
            text(&shown)
        );
        assert_eq!(text(&shown).matches("dur=").count(), 3);
    }

    fn text(shown: &TimingText) -> &str {
        std::str::from_utf8(shown.as_ref()).unwrap()
    }
}
