//! Peers: tokio's two runtimes with one thread, fed by `spawn` from other threads.
//!
//! With `DRIVERS` the runtime has its I/O and time drivers, as after `enable_all`; every wake-up
//! from another thread is then a `write` to an eventfd. Without them it is a condition variable,
//! which is the better set-up for bare tasks. Both are rows.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

use super::channel::{join, spawn};
use crate::contest::{Limit, LoopContestant};

/// A current_thread runtime on a thread of its own.
pub(crate) struct CurrentThread<const DRIVERS: bool> {
    handle: Handle,
    stop: Arc<Notify>,
    thread: JoinHandle<()>,
}

impl<const DRIVERS: bool> LoopContestant for CurrentThread<DRIVERS> {
    fn start(name: &str, limit: Limit) -> Self {
        assert!(limit.own().is_none(), "a tokio runtime has no bound");
        let runtime = build(Builder::new_current_thread(), DRIVERS);
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = spawn(name, move || runtime.block_on(stopped.notified()));
        CurrentThread {
            handle,
            stop,
            thread,
        }
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.handle.spawn(async move { task() });
    }

    fn stop(self) {
        self.stop.notify_one();
        join(self.thread);
    }
}

/// A multi_thread runtime with one worker.
pub(crate) struct MultiThread<const DRIVERS: bool>(Runtime);

impl<const DRIVERS: bool> LoopContestant for MultiThread<DRIVERS> {
    fn start(name: &str, limit: Limit) -> Self {
        assert!(limit.own().is_none(), "a tokio runtime has no bound");
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(name);
        MultiThread(build(builder, DRIVERS))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.spawn(async move { task() });
    }

    fn stop(self) {
        // Dropping a runtime joins its workers.
        drop(self.0);
    }
}

fn build(mut builder: Builder, drivers: bool) -> Runtime {
    if drivers {
        builder.enable_all();
    }
    let runtime = builder.build();
    runtime.expect("the machine has room for one more runtime")
}
