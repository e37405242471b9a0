//! What handles of a channel, and handlers on executors of their own, ask of it from other threads.

use std::any::Any;

use tidegate_core::discard;
use tidegate_promise::{Failure, Promise};

use super::event::{InEvent, OutOp, Own};
use crate::errors::NetError;
use crate::message::Msg;

/// Something that a channel is asked from outside.
pub(crate) enum Mail {
    Write(Msg, Option<Promise<()>>),
    Flush(Option<Promise<()>>),
    Close,
    /// Closes and resets the connection.
    Abort,
    /// If the channel is closed next, this is why.
    Cause(Failure),
    CloseWhenFlushed,
    ShutdownOutput(Promise<()>),
    AutoRead(bool),
    Read,
    CanRead,
    CanWrite,
    Fire(InEvent),
    UserWritable(u8, bool),
    Own(u32, Own),
    /// From a handler that runs elsewhere.
    Stage(u32, Back),
    Inbound(Msg),
    /// Changes the handlers.
    Change(Box<dyn ChangeRequest>),
    /// Onto its loop, or off it.
    Register(bool, Promise<()>),
    CancelConnect(Failure),
    /// Closes whatever the handlers do.
    Cut,
    /// What is left to send before the end was not sent in time.
    CloseDeadline,
}

/// A change of a channel's handlers. What it is only the pipeline knows, which gets it back with a
/// downcast.
pub(crate) trait ChangeRequest: Any + Send {
    /// Tells the caller that the channel is closed.
    fn refuse(self: Box<Self>);
}

/// What a handler elsewhere says, on its way back to the channel.
#[derive(Debug)]
pub(crate) enum Back {
    Read(Msg),
    In(InEvent),
    Write(Msg, Option<Promise<()>>),
    Out(OutOp),
    /// Little waits again: the channel may read.
    Resume,
    /// Writes were taken out of the inbox that counted for so much.
    Taken(usize),
    /// It was removed, and nothing waits of so many letters that were posted.
    Idle(u64),
}

/// Tells the sender of mail that the channel is closed.
pub(crate) fn refuse(mail: Mail, cause: Option<&Failure>) {
    let closed = || Failure::new(NetError::Closed(cause.cloned()));
    // Messages, events and changes are the user's, and their drop may panic.
    match mail {
        Mail::Write(msg, Some(promise)) | Mail::Stage(_, Back::Write(msg, Some(promise))) => {
            drop(promise.fail(closed()));
            discard(msg);
        }
        Mail::Flush(Some(promise)) | Mail::Register(_, promise) | Mail::ShutdownOutput(promise) => {
            drop(promise.fail(closed()))
        }
        Mail::Change(request) => request.refuse(),
        other => discard(other),
    }
}
