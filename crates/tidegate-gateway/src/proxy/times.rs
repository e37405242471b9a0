//! When a request passed each step.

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
    pub(crate) fn server_timing(&self) -> String {
        let steps = [
            ("queue", self.began, self.admitted),
            ("connect", self.admitted, self.connected),
            ("head", self.connected, self.head),
        ];
        let mut text = String::new();
        for (name, from, to) in steps {
            let took = Duration::from_nanos(to.saturating_sub(from)).as_secs_f64() * 1000.0;
            let comma = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{comma}{name};dur={took:.1}"));
        }
        text
    }

    /// Returns the value of `Server-Timing` at the end of the response, in milliseconds.
    pub(crate) fn body_timing(&self, now: u64) -> String {
        let took = Duration::from_nanos(now.saturating_sub(self.head)).as_secs_f64() * 1000.0;
        format!("body;dur={took:.1}")
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
            times.server_timing(),
            "queue;dur=1.5, connect;dur=0.5, head;dur=10.0"
        );
        assert_eq!(times.body_timing(15_000_000), "body;dur=3.0");
        assert_eq!(
            Times::default().server_timing(),
            "queue;dur=0.0, connect;dur=0.0, head;dur=0.0"
        );
    }
}
