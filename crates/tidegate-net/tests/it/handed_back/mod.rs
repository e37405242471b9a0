//! A message reaches its handler or is handed back to its owner by [`Message::refused`]: one of the
//! two, once, on every way that it can take.

mod chain;
mod stages;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task};
use tidegate_net::{
    Inbound, InboundContext, Message, NetError, Nothing, Outbound, OutboundContext,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, explode};

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

    fn sized(mut self, size: usize) -> Self {
        self.size = size;
        self
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
struct Calm;

impl Inbound for Calm {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}

    fn error(&mut self, _: Failure, _: &mut InboundContext<'_, Self>) {}
}

/// What an executor does with tasks that are submitted.
#[derive(Clone, Copy, PartialEq)]
enum Submitted {
    Kept,
    Refused,
    Panics,
}

/// An executor that runs its tasks when the test says so.
struct Desk {
    tasks: Mutex<VecDeque<Task>>,
    submitted: Mutex<Submitted>,
    id: ExecutorId,
    clock: Clock,
}

impl Desk {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            tasks: Mutex::default(),
            submitted: Mutex::new(Submitted::Kept),
            id: ExecutorId::next(),
            clock: Clock::system(),
        })
    }

    fn set(&self, submitted: Submitted) {
        *self.submitted.lock().unwrap() = submitted;
    }

    fn take(&self) -> Option<Task> {
        self.tasks.lock().unwrap().pop_front()
    }

    /// Runs all tasks.
    fn work(&self) {
        while let Some(task) = self.take() {
            task.run();
        }
    }

    /// Drops all tasks, like an executor that ends.
    fn end(&self) {
        while let Some(task) = self.take() {
            drop(task);
        }
    }
}

impl Executor for Desk {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        let submitted = *self.submitted.lock().unwrap();
        match submitted {
            Submitted::Kept => {
                self.tasks.lock().unwrap().push_back(task);
                Ok(())
            }
            Submitted::Refused => Err(Rejected::new(task, RejectReason::Closed)),
            Submitted::Panics => explode(),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "desk"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}
