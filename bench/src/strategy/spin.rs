//! An executor whose only worker never sleeps: a hand-off without a wake-up, to separate the two
//! costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_queue::SegQueue;
use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task};

/// The state that submitters and the worker share.
struct Shared {
    queue: SegQueue<Task>,
    stop: AtomicBool,
    id: ExecutorId,
    clock: Clock,
}

/// One worker that spins on its queue.
pub(crate) struct Spinner {
    shared: Arc<Shared>,
    worker: JoinHandle<()>,
}

impl Spinner {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared {
            queue: SegQueue::new(),
            stop: AtomicBool::new(false),
            id: ExecutorId::next(),
            clock: Clock::system(),
        });
        let own = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            while !own.stop.load(Ordering::Relaxed) {
                match own.queue.pop() {
                    Some(task) => task.run(),
                    None => std::hint::spin_loop(),
                }
            }
        });
        Self { shared, worker }
    }

    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Handle(Arc::clone(&self.shared)))
    }

    pub(crate) fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.worker.join().expect("the worker does not panic");
    }
}

struct Handle(Arc<Shared>);

impl Executor for Handle {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.0.queue.push(task);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.0.id
    }

    fn name(&self) -> &str {
        "spinner"
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }
}
