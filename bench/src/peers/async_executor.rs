//! Peer: async-executor, its `Executor` run by one thread.

use std::sync::Arc;
use std::thread::JoinHandle;

use async_executor::Executor;
use futures::channel::oneshot;

use super::channel::{join, spawn};
use crate::contest::{Limit, LoopContestant};

/// An executor, run by one thread until it is stopped.
pub(crate) struct AsyncExecutor {
    executor: Arc<Executor<'static>>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl LoopContestant for AsyncExecutor {
    fn start(name: &str, limit: Limit) -> Self {
        assert!(limit.own().is_none(), "async-executor has no bound");
        let executor = Arc::new(Executor::new());
        let running = Arc::clone(&executor);
        let (stop, stopped) = oneshot::channel();
        let thread = spawn(name, move || {
            futures_lite::future::block_on(running.run(stopped))
                .expect("the stop signal is sent before its sender is dropped");
        });
        AsyncExecutor {
            executor,
            stop,
            thread,
        }
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.executor.spawn(async move { task() }).detach();
    }

    fn stop(self) {
        self.stop
            .send(())
            .expect("the executor's thread waits for the signal");
        join(self.thread);
    }
}
