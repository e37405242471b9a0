//! The worker pool: rules Q and R of the strategies, policies, handles, queues and the end.

mod bad_input;
mod figures;
mod growth;
mod jobs;
mod policy;
mod queue_first;
mod rescue;
mod reserve;
mod resize;
mod stop;
mod stress;

use tidegate_core::{ManualClock, Task};
use tidegate_pool::{WorkerPool, WorkerPoolBuilder};
use tidegate_testkit::Gate;

/// A pool on a manual clock.
fn builder(clock: &ManualClock) -> WorkerPoolBuilder {
    WorkerPool::builder("workers").clock(clock)
}

/// `threads` threads, all of them core, no reserve and room for `queue` jobs.
fn fixed(clock: &ManualClock, threads: usize, queue: usize) -> WorkerPoolBuilder {
    let builder = builder(clock).core(threads).max(threads);
    builder.queue(queue).reserved(0)
}

/// A job that says that it has begun and waits for the gate.
fn held(name: &'static str) -> (Task, Gate, Gate) {
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    let task = Task::named(name, move || {
        here.open();
        gate.wait();
    });
    (task, arrived, go_on)
}

/// Keeps one thread busy until the gate is opened.
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

/// Lets all of them go and waits until the pool is idle.
fn release(clock: &ManualClock, gates: Vec<Gate>) {
    gates.iter().for_each(Gate::open);
    clock.settle();
}
