//! Peers: thread pools, each with its own kind of result, or with a oneshot channel if it has none.

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

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
    type Pending = JoinHandle<u64>;

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
