//! Peers: thread pools, each with its own kind of result, or with a oneshot channel if it has none.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusty_pool::JoinHandle as RustyHandle;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle as TokioHandle;

use super::channel::{join, spawn};
use crate::contest::PoolContestant;

const ANSWERS: &str = "a job returns a result";

/// rayon with `spawn`; the result comes through a oneshot.
pub(crate) struct RayonSpawn(rayon::ThreadPool);

impl PoolContestant for RayonSpawn {
    type Pending = oneshot::Receiver<u64>;

    fn start(threads: usize) -> Self {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        Self(builder.build().expect("threads can be had"))
    }

    fn submit(&self, value: u64) -> Self::Pending {
        let (answer, pending) = oneshot::channel();
        self.0.spawn(move || drop(answer.send(value + 1)));
        pending
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        pending.recv().expect(ANSWERS)
    }

    fn stop(self) {}
}

/// rayon; the caller waits inside `install`.
pub(crate) struct RayonInstall(RayonSpawn);

impl PoolContestant for RayonInstall {
    type Pending = oneshot::Receiver<u64>;

    fn start(threads: usize) -> Self {
        Self(RayonSpawn::start(threads))
    }

    fn submit(&self, value: u64) -> Self::Pending {
        self.0.submit(value)
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        self.0.wait(pending)
    }

    fn call(&self, value: u64) -> u64 {
        self.0.0.install(move || value + 1)
    }

    fn stop(self) {}
}

/// tokio's `spawn_blocking`; waits with the runtime's `block_on` or, with `PLAIN`, with that of
/// futures.
pub(crate) struct SpawnBlocking<const PLAIN: bool>(Runtime);

impl<const PLAIN: bool> PoolContestant for SpawnBlocking<PLAIN> {
    type Pending = TokioHandle<u64>;

    fn start(threads: usize) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(threads);
        Self(builder.build().expect("threads can be had"))
    }

    fn submit(&self, value: u64) -> Self::Pending {
        self.0.spawn_blocking(move || value + 1)
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        let answer = match PLAIN {
            true => futures::executor::block_on(pending),
            false => self.0.block_on(pending),
        };
        answer.expect(ANSWERS)
    }

    fn stop(self) {}
}

/// The fixed pool of `threadpool`; the result comes through a oneshot.
pub(crate) struct Threadpool(threadpool::ThreadPool);

impl PoolContestant for Threadpool {
    type Pending = oneshot::Receiver<u64>;

    fn start(threads: usize) -> Self {
        Self(threadpool::ThreadPool::new(threads))
    }

    fn submit(&self, value: u64) -> Self::Pending {
        let (answer, pending) = oneshot::channel();
        self.0.execute(move || drop(answer.send(value + 1)));
        pending
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        pending.recv().expect(ANSWERS)
    }

    fn stop(self) {
        self.0.join();
    }
}

/// rusty_pool, with its own handle.
pub(crate) struct Rusty(rusty_pool::ThreadPool);

impl PoolContestant for Rusty {
    type Pending = RustyHandle<u64>;

    fn start(threads: usize) -> Self {
        let builder = rusty_pool::Builder::new().core_size(threads);
        Self(builder.max_size(threads).build())
    }

    fn submit(&self, value: u64) -> Self::Pending {
        self.0.evaluate(move || value + 1)
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        pending.await_complete()
    }

    fn stop(self) {
        self.0.shutdown_join();
    }
}

/// Threads that share the receiver of a std channel under a mutex: the usual hand-written pool.
pub(crate) struct StdChannel {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
    threads: Vec<JoinHandle<()>>,
}

impl PoolContestant for StdChannel {
    type Pending = oneshot::Receiver<u64>;

    fn start(threads: usize) -> Self {
        let (jobs, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..threads).map(|_| {
            let queue = Arc::clone(&queue);
            spawn("std-pool", move || {
                loop {
                    let job = queue
                        .lock()
                        .expect("no thread panics while it holds the lock")
                        .recv();
                    match job {
                        Ok(job) => job(),
                        Err(_) => return,
                    }
                }
            })
        });
        Self {
            threads: threads.collect(),
            jobs,
        }
    }

    fn submit(&self, value: u64) -> Self::Pending {
        let (answer, pending) = oneshot::channel();
        let job = Box::new(move || drop(answer.send(value + 1)));
        self.jobs.send(job).expect("the threads listen");
        pending
    }

    fn wait(&self, pending: Self::Pending) -> u64 {
        pending.recv().expect(ANSWERS)
    }

    fn stop(self) {
        drop(self.jobs);
        self.threads.into_iter().for_each(join);
    }
}
