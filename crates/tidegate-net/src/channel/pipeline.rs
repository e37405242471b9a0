//! What a channel needs of its pipeline, which is in the layer above.
//!
//! A channel is generic over this, so that each call is a direct one.

use tidegate_core::Blocking;
use tidegate_promise::{Failure, Promise};

use super::event::{InEvent, OutOp, Own};
use super::io::ChannelIo;
use super::mail::{Back, ChangeRequest};
use crate::message::Msg;

/// The handlers of a channel.
pub(crate) trait ChannelPipeline {
    /// Returns what the channel shares with its handlers.
    fn io(&self) -> &ChannelIo;

    fn io_mut(&mut self) -> &mut ChannelIo;

    /// Returns `true` if nothing is on its way between the handlers.
    fn is_idle(&self) -> bool;

    /// Returns what the handlers together may do to their thread.
    fn blocking(&self) -> Blocking;

    /// Returns the names of the handlers, first to last.
    fn names(&self) -> Vec<String>;

    /// Prefetches the memory that the next message will need.
    fn prefetch(&self);

    /// Ends a turn: gives memory back that the channel needs only while its handlers run.
    fn end_turn(&mut self);

    /// Tells every handler that it was added.
    fn begin(&mut self);

    /// Takes every handler out.
    fn end(&mut self);

    /// Passes on a message from the socket.
    fn read(&mut self, msg: Msg);

    /// Passes on the last message from the socket for the moment, and its end.
    fn read_last(&mut self, msg: Msg);

    /// Tells the handlers of an event, from the first one on.
    fn fire(&mut self, event: InEvent);

    /// Writes a message, from behind the last handler on.
    fn write(&mut self, msg: Msg, promise: Option<Promise<()>>);

    /// Begins an operation behind the last handler.
    fn out(&mut self, op: OutOp);

    /// Sends what was written so far; `promise` completes when the operating system has it.
    fn flush(&mut self, promise: Option<Promise<()>>);

    /// Lets the channel read on its own, or only when asked.
    fn set_auto_read(&mut self, yes: bool);

    /// Tells one handler of something that concerns it alone.
    fn own(&mut self, id: u32, what: Own);

    /// Lets what a handler elsewhere has said go further from its place.
    fn back(&mut self, id: u32, back: Back);

    /// Changes the handlers.
    fn change(&mut self, request: Box<dyn ChangeRequest>);

    /// Runs what a refused write or a change left to do.
    fn run_rest(&mut self);

    /// Tells the hook for unhandled errors.
    fn report(&self, why: &Failure);
}
