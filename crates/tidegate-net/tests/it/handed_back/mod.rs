//! A message reaches its handler or is handed back to its owner by [`Message::refused`]: one of the
//! two, once, on every way that it can take.

mod chain;

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, Message, NetError, Outbound, OutboundContext};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, explode};

use crate::acts::Acts;

/// What is done when a note is refused.
type Then = Box<dyn FnOnce() + Send>;

/// A message that logs its end: handled, refused and why, or lost.
struct Note {
    name: &'static str,
    size: usize,
    ends: Log<String>,
    then: Option<Then>,
    ended: bool,
}

impl Note {
    fn new(name: &'static str, ends: &Log<String>) -> Self {
        let ends = ends.clone();
        Self {
            name,
            size: 1,
            ends,
            then: None,
            ended: false,
        }
    }

    /// Runs `then` when the note is refused.
    fn then(mut self, then: impl FnOnce() + Send + 'static) -> Self {
        self.then = Some(Box::new(then));
        self
    }

    fn end(&mut self, how: &str) {
        self.ended = true;
        self.ends.push(format!("{} {how}", self.name));
    }

    fn handled(mut self) {
        self.end("handled");
    }
}

impl Message for Note {
    fn size(&self) -> usize {
        self.size
    }

    fn refused(mut self, why: Failure) {
        let why = match why.downcast_ref::<NetError>() {
            Some(NetError::Closed(_)) => "closed",
            Some(NetError::WriteQueueFull { .. }) => "full",
            Some(NetError::TypeMismatch { .. }) => "wrong type",
            Some(NetError::OutputShut) => "output shut",
            Some(NetError::HandlerLoop) => "cut",
            _ => &why.to_string(),
        };
        self.end(&format!("refused: {why}"));
        if let Some(then) = self.then.take() {
            then();
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.ended {
            self.end("LOST");
        }
    }
}

/// Takes notes. Panics at one that is called `boom`.
struct Taker;

impl Inbound for Taker {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

impl Outbound for Taker {
    type Take = Note;
    type Write = Bytes;

    fn write(&mut self, note: Note, _: &mut OutboundContext<'_, Self>) {
        let name = note.name;
        note.handled();
        if name == "boom" {
            explode();
        }
    }
}

/// Takes errors, so that the channel goes on.
fn calm() -> Acts {
    Acts::on_read(|_, _| ()).on_error(|_, _| ())
}
