//! What can happen to a request.

use std::time::Duration;

use tidegate::http::client::Flow;
use tidegate::http::codec::RefusalReason;

use crate::command::{Problem, Reason};

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) enum Event {
    /// It asks for its admission.
    Begin,
    /// The command has admitted the attempt.
    Admitted,
    /// The command has not, or there is no server.
    Denied(Problem),
    /// A server was chosen, with an idle connection or without.
    Picked { connected: bool },
    /// A connection is there.
    Connected,
    /// The head was written.
    Begun,
    /// A new connection was closed before anything was sent.
    Broken,
    /// The attempt has no response, or only a part of it.
    Failed(Failure),
    /// The time of the attempt is over: it was `limit` nanoseconds. `answered`: the server has sent
    /// something.
    Expired { limit: u64, answered: bool },
    /// There is another attempt after this pause, or the budget has none.
    Retried(Reason, Option<Duration>),
    /// The earlier attempt has given back what it held.
    Freed(Duration),
    /// The pause is over.
    Paused,
    /// The command of the fallback was asked because of this problem, and has admitted the request or
    /// not.
    Turned(Problem, bool),

    /// The server has sent an interim response.
    Informed,
    /// The server agrees to the body, or has not said so in time.
    Agreed,
    /// The head of the response has come, with `passed` bytes of the body. `ends`: with all of it.
    Head {
        status: u16,
        passed: u64,
        ends: bool,
    },
    /// A part of the response's body has come.
    Part,
    /// A part of so many bytes was passed on.
    Passed(u64),
    /// The client takes more of the response.
    Room,
    /// The server has changed the protocol.
    Switched,
    /// The response has ended.
    Responded,

    /// The server takes more of the body.
    Writable,
    /// So many bytes of the body were read. `kept`: with all before them, they are kept.
    Received { bytes: u64, kept: bool },
    /// They were written.
    Written(Flow),
    /// What was kept of the body was written once more.
    Resent { blocked: bool },
    /// The body has ended, and its end was written.
    BodyEnded,
    /// The body is larger than the listener allows.
    BodyTooLarge,

    /// The time of the request is over. The client was waited for for `used` nanoseconds.
    TimedOut { used: u64 },
    /// The server of HTTP has refused the body, and has responded.
    BodyRefused(RefusalReason),
    /// The connection of the client has ended: for this reason, or because the client has left.
    Left(Option<Reason>),
}

/// How an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct Failure {
    pub(in crate::proxy) reason: Reason,
    /// Some of the request was sent.
    pub(in crate::proxy) sent: bool,
    /// The server has closed a connection that was idle before it has seen the request.
    pub(in crate::proxy) stale: bool,
    /// Nothing was carried out.
    pub(in crate::proxy) safe: bool,
    /// The server has sent nothing, and may have carried out the request.
    pub(in crate::proxy) silent: bool,
}
