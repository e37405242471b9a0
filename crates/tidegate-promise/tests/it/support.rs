//! A test executor with one queue, one or more threads, and an explicit end.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};

use tidegate_core::executor::{ExecutorId, Signal, WaitPolicy, enter, is_current};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};
use tidegate_promise::{Completion, Promise, promise_on};
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

/// A loop with one thread that must not block, or a pool of threads that may.
pub(crate) struct Loop {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    id: ExecutorId,
    name: String,
    clock: Clock,
    width: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// The number of calls of `execute` and `signal`, accepted or not.
    touches: AtomicU64,
    unhandled: Log<String>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    closed: bool,
}

enum Work {
    Task(Task),
    Signal(Signal),
}

impl Loop {
    /// Starts a loop on the system clock.
    pub(crate) fn new(name: &str) -> Self {
        Self::start(name, Clock::system(), 1, WaitPolicy::Loop)
    }

    /// Starts a loop on the test's clock.
    pub(crate) fn with_clock(name: &str, clock: impl Into<Clock>) -> Self {
        Self::start(name, clock.into(), 1, WaitPolicy::Loop)
    }

    /// Starts a pool whose threads may block.
    pub(crate) fn pool(name: &str, width: usize) -> Self {
        Self::start(name, Clock::system(), width, WaitPolicy::Free)
    }

    fn start(name: &str, clock: Clock, width: usize, stance: WaitPolicy) -> Self {
        let shared = Arc::new(Shared {
            id: ExecutorId::next(),
            name: name.to_owned(),
            clock,
            width,
            queue: Mutex::default(),
            changed: Condvar::new(),
            touches: AtomicU64::new(0),
            unhandled: Log::new(),
        });
        let threads = (0..width).map(|_| {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name(name.to_owned());
            builder.spawn(move || shared.drive(stance)).unwrap()
        });
        let threads = Mutex::new(threads.collect());
        Self { shared, threads }
    }

    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::clone(&self.shared) as _
    }

    /// Creates a promise whose home is this executor.
    pub(crate) fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(self.executor())
    }

    /// Runs `work` on the loop and returns its result.
    pub(crate) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let (tx, rx) = mpsc::channel();
        self.spawn(move || tx.send(work()).unwrap());
        rx.recv().expect("the task does not panic")
    }

    /// Submits a task to the loop.
    pub(crate) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.shared.execute(Task::new(work)).unwrap();
    }

    /// Blocks until everything that was submitted so far has run.
    pub(crate) fn settle(&self) {
        // Listeners that run on the loop's thread may queue further ones.
        until("the loop has nothing queued", || {
            let shared = Arc::clone(&self.shared);
            self.run(move || shared.queue.lock().unwrap().work.is_empty())
        });
    }

    /// Blocks the loop until the returned gate is opened.
    pub(crate) fn hold(&self) -> Gate {
        let stop = Stop::new();
        self.spawn(stop.closure());
        stop.reached()
    }

    /// Runs the queued work, then refuses everything.
    pub(crate) fn terminate(&self) {
        self.shared.queue.lock().unwrap().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.lock().unwrap().drain(..) {
            if thread.thread().id() != thread::current().id() {
                thread.join().expect("no task brought the loop down");
            }
        }
    }

    /// Returns the number of calls of `execute` and `signal`.
    pub(crate) fn touches(&self) -> u64 {
        self.shared.touches.load(Ordering::SeqCst)
    }

    /// Returns and clears the reports of unhandled events.
    pub(crate) fn unhandled(&self) -> Vec<String> {
        self.shared.unhandled.take()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.terminate();
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shared.name)
    }
}

impl Shared {
    fn drive(self: Arc<Self>, stance: WaitPolicy) {
        let _mark = enter(Arc::clone(&self) as _, stance);
        while let Some(work) = self.next() {
            match work {
                Work::Task(task) => task.run(),
                Work::Signal(signal) => signal.deliver(),
            }
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.queue.lock().unwrap();
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap();
        }
    }

    fn push(&self, work: Work) -> Result<(), Work> {
        self.touches.fetch_add(1, Ordering::SeqCst);
        let mut queue = self.queue.lock().unwrap();
        if queue.closed {
            return Err(work);
        }
        queue.work.push_back(work);
        self.changed.notify_one();
        Ok(())
    }
}

impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.push(Work::Task(task)) {
            Err(Work::Task(task)) => Err(Rejected::new(task, RejectReason::Closed)),
            _ => Ok(()),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.push(Work::Signal(signal)) {
            Err(Work::Signal(signal)) => Err(Rejected::new(signal, RejectReason::Closed)),
            _ => Ok(()),
        }
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.unhandled.push(what.to_string());
    }
}

/// Runs `work` on a new thread.
pub(crate) fn thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> JoinHandle<R> {
    thread::Builder::new().spawn(work).unwrap()
}

/// Returns a waker that counts its calls, and the counter.
pub(crate) fn counting_waker() -> (Waker, Counter) {
    struct Count(Counter);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.hit();
        }
    }
    let counter = Counter::new();
    (Waker::from(Arc::new(Count(counter.clone()))), counter)
}
