//! The worker pool: threads, queues, policies, handles and shutdown.

mod bad_input;
mod dump;
mod factories;
mod figures;
mod growth;
mod jobs;
mod no_thread;
mod policy;
mod queue_first;
mod rescue;
mod reserve;
mod resize;
mod stop;
mod stress;
mod users_queue;

use tidegate_core::{ManualClock, Task};
use tidegate_pool::{WorkerPool, WorkerPoolBuilder};
use tidegate_testkit::Gate;

/// Creates a builder for a pool on a manual clock.
fn builder(clock: &ManualClock) -> WorkerPoolBuilder {
    WorkerPool::builder("workers").clock(clock)
}

/// Creates a builder for `threads` core threads, no reserved ones, and a queue of `queue` jobs.
fn fixed(clock: &ManualClock, threads: usize, queue: usize) -> WorkerPoolBuilder {
    let builder = builder(clock).core(threads).max(threads);
    builder.queue(queue).reserved(0)
}

/// Creates a job that opens the first gate when it begins, and waits for the second.
fn held(name: &'static str) -> (Task, Gate, Gate) {
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    let task = Task::named(name, move || {
        here.open();
        gate.wait();
    });
    (task, arrived, go_on)
}

/// Keeps one thread busy until the returned gate is opened.
fn hold(pool: &WorkerPool) -> Gate {
    let (task, arrived, go_on) = held("held");
    pool.execute_task(task).unwrap();
    arrived.wait();
    go_on
}

/// Keeps `count` threads busy.
fn hold_many(pool: &WorkerPool, count: usize) -> Vec<Gate> {
    (0..count).map(|_| hold(pool)).collect()
}

/// Opens all gates and waits until the pool is idle.
fn release(clock: &ManualClock, gates: Vec<Gate>) {
    gates.iter().for_each(Gate::open);
    clock.settle();
}
