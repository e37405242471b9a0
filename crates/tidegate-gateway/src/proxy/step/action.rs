//! What is to be done for a request.

use std::time::Duration;

use tidegate::http::codec::RefusalReason;

use super::request::Side;
use crate::command::{Problem, Reason};

/// What is to be done next, and for which attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct Actions {
    pub(in crate::proxy) attempt: u32,
    pub(in crate::proxy) first: Action,
    pub(in crate::proxy) then: Action,
}

impl Actions {
    /// Returns `true` if the event came too late: what it has brought is given back.
    #[inline]
    pub(in crate::proxy) fn are_late(&self) -> bool {
        matches!(self.first, Action::Late)
    }

    /// Returns `true` if there is nothing to do.
    #[inline]
    pub(in crate::proxy) fn are_none(&self) -> bool {
        matches!(self.first, Action::None)
    }
}

/// What is to be done. What an action needs besides, the executor has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::proxy) enum Action {
    None,
    /// The event was one of an earlier attempt, or of a request that has ended.
    Late,
    /// Ask the command for the admission of the attempt.
    Admit,
    /// Choose a server.
    Pick,
    /// Take a connection to the server that was chosen, idle ones first.
    Search,
    /// Take a new connection to the server that was chosen.
    Replace,
    /// Write the head to the connection.
    Begin,
    /// Write what was kept of the body.
    Resend,
    /// Read the body, and write it.
    Pump,
    /// Wait for the agreement of the server to the body, but not for ever.
    Expect,
    /// Write the piece of the body that was read.
    Write,
    /// Set the timer of the attempt, in nanoseconds.
    Limit(u64),
    /// Note which side has used up the time of the attempt.
    Blame(Side),
    /// Ask for another attempt because of this.
    Retry(Reason),
    /// Stop the attempt before.
    Stop,
    /// Wait until the attempt before has given back what it held, and then for so long.
    Free(Duration),
    /// Wait for so long.
    Pause(Duration),
    /// Ask the command of the fallback, for which so many nanoseconds are left.
    Turn(Problem, u64),
    /// Pass the interim response on.
    Inform,
    /// Send the head of the response.
    Respond,
    /// Pass the part of the body on.
    PassOn,
    /// Read on from the server.
    Resume,
    /// Make the connections a tunnel. Nothing follows.
    Switch,
    /// End the request. Nothing follows.
    End(Ending),
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::proxy) enum Ending {
    /// With the whole response of its server.
    Served,
    /// With this problem, or with the fixed response in place of it.
    Problem(Problem),
    /// With this status and text, because of what the client has sent.
    Client(u16, &'static str),
    /// The server of HTTP has refused its body, and has responded.
    Refused(RefusalReason),
    /// The connection of the client has ended: for this reason, or because the client has left.
    Left(Option<Reason>),
}

impl Ending {
    /// Returns `true` if the client is the cause: that says nothing about the server.
    pub(in crate::proxy) fn is_by_client(self) -> bool {
        matches!(self, Self::Client(..) | Self::Refused(_) | Self::Left(_))
    }
}
