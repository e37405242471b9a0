//! Responses of the gateway itself: refusals, failures, fixed responses.

use tidegate::http::{DeferredResponse, Response};

use crate::command::{Problem, Reason};

/// A response that has not begun, at once or later.
pub(super) trait Reply: Sized {
    fn status(self, status: u16) -> Self;
    fn field(self, name: &str, value: &str) -> Self;
    fn body(self, body: &str);
}

impl Reply for Response<'_> {
    fn status(self, status: u16) -> Self {
        Response::status(self, status)
    }

    fn field(self, name: &str, value: &str) -> Self {
        Response::field(self, name, value)
    }

    fn body(self, body: &str) {
        Response::body(self, body.to_owned());
    }
}

impl Reply for DeferredResponse {
    fn status(self, status: u16) -> Self {
        DeferredResponse::status(self, status)
    }

    fn field(self, name: &str, value: &str) -> Self {
        DeferredResponse::field(self, name, value)
    }

    fn body(self, body: &str) {
        DeferredResponse::body(self, body.to_owned());
    }
}

/// A fixed response of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: String,
}

impl Fixed {
    pub(super) fn send(&self, reply: impl Reply) {
        let reply = reply.status(self.status);
        match self.body.is_empty() {
            true => reply.body(""),
            false => reply
                .field("Content-Type", &self.content_type)
                .body(&self.body),
        }
    }

    /// Sends the response in place of one that the problem prevented, and says so.
    pub(super) fn send_for(&self, problem: Problem, key: &str, reply: impl Reply) {
        self.send(explain(problem, key, reply));
    }
}

/// Refuses a request, or says why it failed.
pub(super) fn refuse(problem: Problem, key: &str, reply: impl Reply) {
    let reason = problem.reason;
    let reply = explain(problem, key, reply.status(reason.status()));
    let text = format!("{} {key}\n", reason.word());
    reply
        .field("Content-Type", "text/plain; charset=utf-8")
        .body(&text);
}

/// Adds the field that says what happened.
pub(super) fn name_reason<R: Reply>(reason: Reason, key: &str, reply: R) -> R {
    reply.field(reason.field(), &format!("{} {key}", reason.word()))
}

/// Adds the fields that say what happened, and when to come back.
fn explain<R: Reply>(problem: Problem, key: &str, reply: R) -> R {
    let reply = name_reason(problem.reason, key, reply);
    match problem.retry_after {
        Some(after) => {
            // Whole seconds, rounded up: a client that comes too early is refused again.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            reply.field("Retry-After", &seconds.max(1).to_string())
        }
        None => reply,
    }
}

#[cfg(test)]
mod tests {
    //! What a client sees.

    use std::time::Duration;

    use super::*;

    /// Writes down what was set.
    struct Written<'a>(&'a mut Vec<String>);

    impl Reply for Written<'_> {
        fn status(self, status: u16) -> Self {
            self.0.push(status.to_string());
            self
        }

        fn field(self, name: &str, value: &str) -> Self {
            self.0.push(format!("{name}: {value}"));
            self
        }

        fn body(self, body: &str) {
            self.0.push(body.to_owned());
        }
    }

    #[test]
    fn a_refusal_says_why_for_which_key_and_when_to_come_back() {
        let mut written = Vec::new();
        let problem = Problem {
            reason: Reason::Breaker,
            retry_after: Some(Duration::from_millis(1200)),
        };
        refuse(problem, "catalog", Written(&mut written));
        let expected = [
            "503",
            "Tidegate-Refused: breaker catalog",
            "Retry-After: 2",
            "Content-Type: text/plain; charset=utf-8",
            "breaker catalog\n",
        ];
        assert_eq!(written, expected);
        written.clear();
        refuse(Reason::Timeout.into(), "catalog", Written(&mut written));
        assert_eq!(written[..2], ["504", "Tidegate-Failed: timeout catalog"]);
    }

    #[test]
    fn a_fallback_says_what_it_replaces() {
        let mut written = Vec::new();
        let fixed = Fixed {
            status: 200,
            content_type: "application/json".to_owned(),
            body: "[]".to_owned(),
        };
        fixed.send_for(Reason::Limit.into(), "catalog", Written(&mut written));
        let expected = [
            "Tidegate-Refused: limit catalog",
            "200",
            "Content-Type: application/json",
            "[]",
        ];
        assert_eq!(written, expected);
    }
}
