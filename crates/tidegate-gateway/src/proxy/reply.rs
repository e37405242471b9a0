//! Responses of the gateway itself: refusals, failures, fixed responses.

use tidegate::http::{DeferredResponse, Response};

use crate::command::{Problem, Reason};
use crate::fields::{Ids, RequestId};

/// The id of a request, and what writes it.
pub(super) type Shown<'a> = (&'a Ids, &'a RequestId);

/// A response that has not begun, at once or later.
pub(super) trait Reply: Sized {
    fn status(self, status: u16) -> Self;
    fn field(self, name: &str, value: &str) -> Self;
    /// Adds the id of the request.
    fn id(self, id: Shown<'_>) -> Self;
    fn body(self, body: &str);
}

impl Reply for Response<'_> {
    fn status(self, status: u16) -> Self {
        Response::status(self, status)
    }

    fn field(self, name: &str, value: &str) -> Self {
        Response::field(self, name, value)
    }

    fn id(self, (ids, id): Shown<'_>) -> Self {
        ids.write_at_once(id, self)
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

    fn id(self, (ids, id): Shown<'_>) -> Self {
        ids.write(id, self)
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
    /// Sends the response. Returns the length of its body.
    pub(super) fn send(&self, id: Shown<'_>, reply: impl Reply) -> usize {
        self.end(reply.status(self.status).id(id))
    }

    /// Ends a response that has its status.
    fn end(&self, reply: impl Reply) -> usize {
        match self.body.is_empty() {
            true => reply.body(""),
            false => reply
                .field("Content-Type", &self.content_type)
                .body(&self.body),
        }
        self.body.len()
    }

    /// Sends the response in place of one that the problem prevented, and says so. Returns the length of
    /// its body.
    pub(super) fn send_for(
        &self,
        problem: Problem,
        key: &str,
        id: Shown<'_>,
        reply: impl Reply,
    ) -> usize {
        let reply = reply.status(self.status);
        self.end(explain(problem, key, reply).id(id))
    }
}

/// Refuses a request, or says why it failed. Returns the length of the body.
pub(super) fn refuse(problem: Problem, key: &str, id: Shown<'_>, reply: impl Reply) -> usize {
    let reason = problem.reason;
    let reply = explain(problem, key, reply.status(reason.status())).id(id);
    let text = format!("{} {key}\n", reason.word());
    reply
        .field("Content-Type", "text/plain; charset=utf-8")
        .body(&text);
    text.len()
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

        fn id(self, (_, id): Shown<'_>) -> Self {
            self.field("X-Request-Id", id.as_str())
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
        let id = (&Ids::seeded(1), &RequestId::Own(*b"0123456789abcdef"));
        refuse(problem, "catalog", id, Written(&mut written));
        let expected = [
            "503",
            "Tidegate-Refused: breaker catalog",
            "Retry-After: 2",
            "X-Request-Id: 0123456789abcdef",
            "Content-Type: text/plain; charset=utf-8",
            "breaker catalog\n",
        ];
        assert_eq!(written, expected);
        written.clear();
        refuse(Reason::Timeout.into(), "catalog", id, Written(&mut written));
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
        let id = (&Ids::seeded(1), &RequestId::Given("7".into()));
        fixed.send_for(Reason::Limit.into(), "catalog", id, Written(&mut written));
        let expected = [
            "200",
            "Tidegate-Refused: limit catalog",
            "X-Request-Id: 7",
            "Content-Type: application/json",
            "[]",
        ];
        assert_eq!(written, expected);
    }
}
