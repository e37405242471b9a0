//! What the unit tests of this crate share; the rest is in the testkit.

use std::sync::Arc;

use crate::{Clock, Executor, ExecutorId, Refusal, Rejected, Signal, Task};

/// An executor that runs nothing and only has a name, an identity and a width.
pub(crate) struct Nameplate {
    name: &'static str,
    id: ExecutorId,
    width: usize,
    clock: Clock,
}

impl Nameplate {
    pub(crate) fn new(name: &'static str, width: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            id: ExecutorId::next(),
            width,
            clock: Clock::system(),
        })
    }
}

impl Executor for Nameplate {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, Refusal::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, Refusal::Unsupported))
    }

    fn is_current(&self) -> bool {
        crate::is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width
    }
}
