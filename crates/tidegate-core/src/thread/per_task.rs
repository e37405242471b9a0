//! The simplest executor: it starts a new thread for every task.

use std::sync::{Arc, Mutex};

use super::builder::ThreadBuilder;
use crate::executor::{
    Executor, ExecutorId, RejectReason, Rejected, WaitPolicy, enter, is_current,
};
use crate::raw::signal::Signal;
use crate::sys::prim::unpoisoned;
use crate::{Clock, Task};

/// An executor that runs each task, and delivers each signal, on a thread of its own. It never
/// terminates, and refuses work only if no thread can be started ([`RejectReason::NoThread`]).
///
/// ```
/// use tidegate_core::{Executor, Task, ThreadBuilder};
/// use tidegate_core::thread::ThreadPerTask;
///
/// let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
/// let (tx, rx) = std::sync::mpsc::channel();
/// threads.execute(Task::new(move || tx.send(7).unwrap())).unwrap();
/// assert_eq!(rx.recv(), Ok(7));
/// ```
#[derive(Clone, Debug)]
pub struct ThreadPerTask {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    threads: ThreadBuilder,
    id: ExecutorId,
    clock: Clock,
}

impl ThreadPerTask {
    /// Creates an executor that starts its threads with the builder `threads`.
    pub fn new(threads: ThreadBuilder) -> Self {
        Self {
            shared: Arc::new(Shared {
                threads,
                id: ExecutorId::next(),
                clock: Clock::system(),
            }),
        }
    }

    /// Starts a thread for `job`, or returns `job` if no thread can be started.
    fn start<J: Send + 'static>(&self, job: J, run: fn(J)) -> Result<(), Rejected<J>> {
        // The job stays reachable from here until the new thread takes it, so that a failed start
        // can return it.
        let place = Arc::new(Mutex::new(Some(job)));
        let executor = self.clone();
        let take = Arc::clone(&place);
        let started = self.shared.threads.spawn(move || {
            let job = unpoisoned(take.lock()).take();
            let _mark = enter(Arc::new(executor), WaitPolicy::Free);
            if let Some(job) = job {
                run(job);
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(_) => {
                let job = unpoisoned(place.lock()).take();
                match job {
                    Some(job) => Err(Rejected::new(job, RejectReason::NoThread)),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Executor for ThreadPerTask {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.start(task, Task::run)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.start(signal, Signal::deliver)
    }

    fn is_current(&self) -> bool {
        is_current(self.shared.id)
    }

    fn id(&self) -> ExecutorId {
        self.shared.id
    }

    fn name(&self) -> &str {
        self.shared.threads.pool()
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn width(&self) -> usize {
        usize::MAX
    }
}
