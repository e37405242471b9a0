//! Requests to a channel from other threads: from its handles and its loop.

use std::any::Any;
use std::io;
use std::net::TcpStream;

use bytes::Bytes;
use tidegate_core::internal::discard;
use tidegate_promise::{Failure, Promise};

use super::event::{HandlerEvent, InEvent};
use crate::errors::NetError;
use crate::message::{Message, Msg};

/// A request to a channel from outside.
pub(crate) enum ChannelRequest {
    Write(Msg, Option<Promise<()>>),
    Flush(Option<Promise<()>>),
    Close,
    /// Closes and resets the connection.
    Abort,
    CloseWhenFlushed,
    ShutdownOutput(Promise<()>),
    AutoRead(bool),
    Read,
    CanRead,
    /// The peer in memory has closed its sending half.
    HangUp,
    CanWrite,
    /// A part of the file that is being sent was read.
    FileRead(io::Result<Bytes>),
    Fire(InEvent),
    /// Reads what has arrived, even if the poller has not reported it yet, and then fires the event.
    /// The event waits for so many turns at most, if the peer goes on sending.
    ReadThenFire(InEvent, u8),
    UserWritable(u8, bool),
    /// A writer has seen that the channel is not writable, and waits until its handlers are notified.
    SeenUnwritable,
    HandlerEvent(u32, HandlerEvent),
    /// The timer of the handlers' deadlines has fired.
    CheckDeadlines,
    Inbound(Msg),
    /// Changes the handlers.
    PipelineChange(Box<dyn ChangeRequest>),
    /// Puts the channel on its loop (`true`) or takes it off.
    Register(bool, Promise<()>),
    /// Hands the socket over.
    HandOver(Promise<TcpStream>),
    CancelConnect(Failure),
    /// Closes the channel even if the handlers hold the close back.
    ForceClose,
    /// Closes the channel like `ForceClose`, because its server has no memory for it.
    CloseForMemory(NetError),
    /// The rest was not sent within the close timeout.
    CloseDeadline,
}

impl ChannelRequest {
    /// Creates the request of a handle to write `message`.
    pub(crate) fn write<M: Message>(message: M, promise: Option<Promise<()>>) -> Self {
        Self::Write(Msg::from_handle(message), promise)
    }
}

/// Fails a write for this reason. User code runs here: of the promise, and of the message.
pub(crate) fn refuse_write(message: Msg, promise: Option<Promise<()>>, why: impl Into<Failure>) {
    if promise.is_none() && matches!(message, Msg::Bytes(_)) {
        return discard(message);
    }
    let why = why.into();
    if let Some(promise) = promise {
        drop(promise.fail(why.clone()));
    }
    message.refuse(why);
}

/// A change of a channel's handlers. Only the pipeline knows its type, and gets it back with a
/// downcast.
pub(crate) trait ChangeRequest: Any + Send {
    /// Notifies the caller that the channel is closed.
    fn refuse(self: Box<Self>);
}

/// Notifies the sender of a request that the channel is closed.
pub(crate) fn refuse(request: ChannelRequest, cause: Option<&Failure>) {
    let closed = || Failure::new(NetError::Closed(cause.cloned()));
    // Messages, events and changes belong to the user, and their drop may panic.
    match request {
        ChannelRequest::Write(msg, promise) => {
            refuse_write(msg, promise, NetError::Closed(cause.cloned()));
        }
        ChannelRequest::Flush(Some(promise))
        | ChannelRequest::Register(_, promise)
        | ChannelRequest::ShutdownOutput(promise) => drop(promise.fail(closed())),
        ChannelRequest::HandOver(promise) => drop(promise.fail(closed())),
        ChannelRequest::PipelineChange(change) => change.refuse(),
        other => discard(other),
    }
}
