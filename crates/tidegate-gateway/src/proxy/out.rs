//! The one way out: every response of the gateway gets its fields in [`leave`], whoever makes it.
//!
//! [`Origin::gets`] is the table of what applies to which origin. The server of HTTP adds `Date`, the
//! fields of the connection, and the end of the connection in a drain; it also responds by itself
//! to what is not a request, without an id. Each response is logged once: one of the gateway itself when it is
//! sent, one of a server at the end of its request.

use std::borrow::Cow;

use tidegate::http::codec::{KnownField, ResponseHead};

use super::logged::End;
use super::reply::{Fixed, Reply, Shown};
use super::times::Times;
use crate::command::{Problem, Reason};
use crate::fields::{Dropped, Rewriting};

/// Who makes a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A server, also with a change of the protocol.
    Server,
    /// The gateway: it refuses a request, or says why it has failed.
    Problem,
    /// The route: a fixed response or a redirect.
    Route,
    /// The gateway: the client has sent something wrong.
    Mistake,
    /// The same, while the rest of the body may still come, or never.
    InBody,
    /// A file.
    File,
    /// The gateway: the tunnel of a `CONNECT` is open.
    Tunnel,
}

/// What a response gets on its way out.
struct Gets {
    /// The fields of the server, as the route rewrites them.
    rewriting: bool,
    reason: Explains,
    /// The id of the request, if the server has not sent one.
    id: bool,
    /// `Server-Timing`, if the route has it.
    timing: bool,
    /// The end of the connection.
    close: bool,
}

/// How a response says what it replaces, or why a request has no other one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explains {
    No,
    /// And when to come back.
    First,
    /// Behind the fields of the server.
    Last,
}

impl Origin {
    /// The table. What is not in it is the same for all responses.
    #[inline(always)] // With a constant, so that it costs nothing.
    const fn gets(self) -> Gets {
        use Explains::{First, Last, No};
        let (rewriting, reason, id, timing, close) = match self {
            //               rewriting reason id    timing close
            Self::Server => (true, Last, true, true, false),
            Self::Problem => (false, First, true, false, false),
            Self::Route => (false, No, true, false, false),
            Self::Mistake => (false, No, true, false, false),
            Self::InBody => (false, No, true, false, true),
            Self::File => (false, No, true, false, false),
            Self::Tunnel => (false, No, true, false, false),
        };
        Gets {
            rewriting,
            reason,
            id,
            timing,
            close,
        }
    }
}

/// A head on its way out.
pub(super) struct Leaving<'a> {
    /// `None` leaves it to what follows.
    pub(super) status: Option<u16>,
    pub(super) id: Shown<'a>,
    /// What it replaces or says, and for which route.
    pub(super) problem: Option<(Problem, &'a str)>,
    /// The head of the server's response.
    pub(super) received: Option<(&'a ResponseHead<'a>, &'a Rewriting)>,
    /// The times of the request, for `Server-Timing`.
    pub(super) timing: Option<&'a Times>,
    /// A field of its own.
    pub(super) field: Option<(&'static str, &'a str)>,
}

impl<'a> Leaving<'a> {
    /// A response with nothing but an id.
    pub(super) fn bare(status: Option<u16>, id: Shown<'a>) -> Self {
        Self {
            status,
            id,
            problem: None,
            received: None,
            timing: None,
            field: None,
        }
    }
}

/// Lets a response leave: gives it its status and its fields. Its body or its end follows.
// Its callers know the origin.
#[inline(always)]
pub(super) fn leave<R: Reply>(origin: Origin, head: &Leaving<'_>, mut reply: R) -> R {
    let gets = origin.gets();
    if let Some(status) = head.status {
        reply = reply.status(status);
    }
    let mut has_id = false;
    if gets.rewriting
        && let Some((received, rewriting)) = head.received
    {
        let has_options = received.known(KnownField::Connection).is_some();
        let dropped = Dropped::new(received.fields(), has_options);
        reply = reply.received(received, |name| {
            let passes = !dropped.contains(name) && !rewriting.replaces(name);
            has_id |= passes && name.eq_ignore_ascii_case(b"x-request-id");
            passes
        });
        for (name, value) in rewriting.response() {
            reply = reply.field(name, value.as_bytes());
        }
    }
    if gets.reason == Explains::First {
        reply = explain(head.problem, reply);
    }
    if gets.id && !has_id {
        reply = reply.id(head.id);
    }
    if gets.timing
        && let Some(times) = head.timing
    {
        reply = reply.field("Server-Timing", times.server_timing().as_ref());
    }
    if gets.reason == Explains::Last
        && let Some((problem, key)) = head.problem
    {
        reply = name_reason(problem.reason, key, reply);
    }
    if gets.close {
        reply = reply.field("Connection", b"close");
    }
    match head.field {
        Some((name, value)) => reply.field(name, value.as_bytes()),
        None => reply,
    }
}

/// Adds the field that says what happened.
fn name_reason<R: Reply>(reason: Reason, key: &str, reply: R) -> R {
    let value = format!("{} {key}", reason.word());
    reply.field(reason.field(), value.as_bytes())
}

/// Adds the fields that say what happened, and when to come back.
fn explain<R: Reply>(problem: Option<(Problem, &str)>, reply: R) -> R {
    let Some((problem, key)) = problem else {
        return reply;
    };
    let reply = name_reason(problem.reason, key, reply);
    match problem.retry_after {
        Some(after) => {
            // Whole seconds, rounded up: a client that comes too early is refused again.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            reply.field("Retry-After", seconds.max(1).to_string().as_bytes())
        }
        None => reply,
    }
}

/// A response of the gateway itself.
pub(super) struct Own<'a> {
    origin: Origin,
    /// How the request ends with it.
    pub(super) end: End,
    /// It replaces what the route's upstream would have sent.
    pub(super) is_fallback: bool,
    problem: Option<(Problem, &'a str)>,
    field: Option<(&'static str, Cow<'a, str>)>,
    body: Cow<'a, str>,
}

impl<'a> Own<'a> {
    /// Refuses a request of the route `key`, or says why it failed: with the route's fixed response in
    /// place of it, if it has one.
    pub(super) fn problem(problem: Problem, key: &'a str, fixed: Option<&'a Fixed>) -> Self {
        let reason = problem.reason;
        let status = fixed.map_or(reason.status(), |fixed| fixed.status);
        let end = End::Problem(reason, status);
        let own = match fixed {
            Some(fixed) => Self::with(Origin::Problem, end, &fixed.body).typed(fixed),
            None => Self {
                field: Some(("Content-Type", "text/plain; charset=utf-8".into())),
                body: format!("{} {key}\n", reason.word()).into(),
                ..Self::with(Origin::Problem, end, "")
            },
        };
        Self {
            is_fallback: fixed.is_some(),
            problem: Some((problem, key)),
            ..own
        }
    }

    /// The fixed response of a route.
    pub(super) fn fixed(fixed: &'a Fixed) -> Self {
        Self::with(Origin::Route, End::Local(fixed.status), &fixed.body).typed(fixed)
    }

    /// A redirect.
    pub(super) fn redirect(status: u16, location: String) -> Self {
        Self {
            field: Some(("Location", location.into())),
            ..Self::with(Origin::Route, End::Local(status), "")
        }
    }

    /// An empty response of status 200.
    pub(super) fn empty() -> Self {
        Self::with(Origin::Route, End::Local(200), "")
    }

    /// Refuses what the client has sent: the word in the log, the status, the text.
    pub(super) fn mistake((word, status, text): (&'static str, u16, &'static str)) -> Self {
        Self::with(Origin::Mistake, End::Refused(word, status), text)
    }

    /// Refuses a body, of which the rest may still come.
    pub(super) fn in_body(status: u16, text: &'static str) -> Self {
        Self::with(Origin::InBody, End::Refused("body", status), text)
    }

    fn with(origin: Origin, end: End, body: &'a str) -> Self {
        Self {
            origin,
            end,
            is_fallback: false,
            problem: None,
            field: None,
            body: body.into(),
        }
    }

    /// Adds the type of the fixed response, if that has a body.
    fn typed(mut self, fixed: &'a Fixed) -> Self {
        let has_body = !fixed.body.is_empty();
        self.field = has_body.then(|| ("Content-Type", Cow::from(&fixed.content_type)));
        self
    }

    /// Sends the response. Returns the length of its body.
    pub(super) fn send(self, id: Shown<'_>, reply: impl Reply) -> usize {
        let head = Leaving {
            problem: self.problem,
            field: self.field.as_ref().map(|(name, value)| (*name, &**value)),
            ..Leaving::bare(Some(self.end.status()), id)
        };
        let length = self.body.len();
        leave(self.origin, &head, reply).body(self.body.into_owned());
        length
    }
}

#[cfg(test)]
mod tests {
    //! What a client sees.

    use std::time::Duration;

    use super::*;
    use crate::fields::{Ids, RequestId};

    /// Writes down what was set.
    struct Written<'a>(&'a mut Vec<String>);

    impl Reply for Written<'_> {
        fn status(self, status: u16) -> Self {
            self.0.push(status.to_string());
            self
        }

        fn field(self, name: &str, value: &[u8]) -> Self {
            let value = String::from_utf8_lossy(value);
            self.0.push(format!("{name}: {value}"));
            self
        }

        fn id(self, (_, id): Shown<'_>) -> Self {
            self.field("X-Request-Id", id.as_str().as_bytes())
        }

        fn body(self, body: String) {
            self.0.push(body);
        }
    }

    /// Returns what is sent, in its order.
    fn sent(own: Own<'_>) -> Vec<String> {
        let mut written = Vec::new();
        let id = (&Ids::seeded(1), &RequestId::Own(*b"0123456789abcdef"));
        own.send(id, Written(&mut written));
        written
    }

    #[test]
    fn a_refusal_says_why_for_which_key_and_when_to_come_back() {
        let problem = Problem {
            reason: Reason::Breaker,
            retry_after: Some(Duration::from_millis(1200)),
        };
        let expected = [
            "503",
            "Tidegate-Refused: breaker catalog",
            "Retry-After: 2",
            "X-Request-Id: 0123456789abcdef",
            "Content-Type: text/plain; charset=utf-8",
            "breaker catalog\n",
        ];
        assert_eq!(sent(Own::problem(problem, "catalog", None)), expected);
        let late = sent(Own::problem(Reason::Timeout.into(), "catalog", None));
        assert_eq!(late[..2], ["504", "Tidegate-Failed: timeout catalog"]);
    }

    #[test]
    fn a_fallback_says_what_it_replaces() {
        let fixed = Fixed {
            status: 200,
            content_type: "application/json".to_owned(),
            body: "[]".to_owned(),
        };
        let own = Own::problem(Reason::Limit.into(), "catalog", Some(&fixed));
        let expected = [
            "200",
            "Tidegate-Refused: limit catalog",
            "X-Request-Id: 0123456789abcdef",
            "Content-Type: application/json",
            "[]",
        ];
        assert_eq!(sent(own), expected);
    }

    #[test]
    fn each_origin_gets_what_its_row_of_the_table_says() {
        let id = "X-Request-Id: 0123456789abcdef";
        let mistake = Own::mistake(("path", 400, "no\n"));
        assert_eq!(sent(mistake), ["400", id, "no\n"]);
        let in_body = Own::in_body(413, "no\n");
        assert_eq!(sent(in_body), ["413", id, "Connection: close", "no\n"]);
        let redirect = Own::redirect(301, "/b".to_owned());
        assert_eq!(sent(redirect), ["301", id, "Location: /b", ""]);
        assert_eq!(sent(Own::empty()), ["200", id, ""]);
    }
}
