//! The interface between a channel and its pipeline, which is in the layer above.
//!
//! A channel is generic over it, so that each call is a direct one.

use tidegate_core::Blocking;
use tidegate_promise::{Failure, Promise};

use super::channel_request::ChangeRequest;
use super::event::{HandlerEvent, InEvent, OutOp};
use super::io::ChannelIo;
use crate::message::Msg;

/// The handlers of a channel.
pub(crate) trait ChannelPipeline {
    /// Returns the state that the channel shares with its handlers.
    fn io(&self) -> &ChannelIo;

    fn io_mut(&mut self) -> &mut ChannelIo;

    /// Returns `true` if nothing is in flight between the handlers.
    fn is_idle(&self) -> bool;

    /// Returns `true` if nothing is in flight between the handlers, and none of them handles writes
    /// or flushes: bytes go straight to the socket.
    fn passes_writes(&self) -> bool;

    /// Returns `true` if there is no handler.
    fn is_empty(&self) -> bool;

    /// Returns whether the handlers together may block their thread.
    fn blocking(&self) -> Blocking;

    /// Returns the names of the handlers, first to last.
    fn names(&self) -> Vec<String>;

    /// Prefetches what leads to the handlers.
    fn prefetch_parts(&self);

    /// Prefetches the handlers.
    fn prefetch_handlers(&self);

    /// Ends a turn: releases memory that the channel needs only while its handlers run.
    fn end_turn(&mut self);

    /// Notifies every handler that it was added.
    fn begin(&mut self);

    /// Removes every handler.
    fn end(&mut self);

    /// Passes a message from the socket to the handlers.
    fn read(&mut self, msg: Msg);

    /// Passes the last message of a read to the handlers, and then the event that the read is
    /// complete.
    fn read_last(&mut self, msg: Msg);

    /// Delivers an event to the handlers, starting at the first.
    fn fire(&mut self, event: InEvent);

    /// Writes a message, starting behind the last handler.
    fn write(&mut self, msg: Msg, promise: Option<Promise<()>>);

    /// Starts an operation behind the last handler.
    fn out(&mut self, op: OutOp);

    /// Sends what was written so far; `promise` completes when the operating system has taken it.
    fn flush(&mut self, promise: Option<Promise<()>>);

    /// Sets whether the channel reads on its own or only on request.
    fn set_auto_read(&mut self, yes: bool);

    /// Delivers an event to one handler alone.
    fn own(&mut self, id: u32, what: HandlerEvent);

    /// Changes the handlers.
    fn change(&mut self, request: Box<dyn ChangeRequest>);

    /// Runs the work that a refused write or a change has left.
    fn run_rest(&mut self);

    /// Reports an error to the hook for unhandled errors.
    fn report(&self, why: &Failure);
}
