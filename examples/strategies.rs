//! One producer, one task in a hundred blocks: how long the other tasks wait, for each strategy.

use std::sync::{Arc, Mutex, mpsc};

use tidegate::pool::{TryExecutor, WorkerPool};
use tidegate::prelude::*;
use tidegate::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
    ProduceExecuteConsume, Strategy,
};

const TASKS: u64 = 2_000;
/// One task falls due every 200 µs.
const EVERY: u64 = 200_000;
const BLOCKS_FOR: Duration = Duration::from_millis(10);

/// Latencies of the tasks that did not block, in nanoseconds.
type Latencies = Arc<Mutex<Vec<u64>>>;

/// Returns a producer that hands out a task whenever one is due, as a poller would; every hundredth
/// task blocks. Nothing is sent through `done`: it is dropped when the producer has ended and the
/// last task has run.
fn producer(seen: &Latencies, done: mpsc::Sender<()>) -> impl FnMut() -> Option<Task> + use<> {
    let (clock, seen) = (Clock::system(), Arc::clone(seen));
    let (mut due, mut number, mut done) = (clock.nanos() + 1_000_000, 0, Some(done));
    move || {
        if number == TASKS {
            done = None;
            return None;
        }
        (number, due) = (number + 1, due + EVERY);
        while clock.nanos() < due {
            std::hint::spin_loop();
        }
        let (clock, seen, done) = (clock.clone(), Arc::clone(&seen), done.clone());
        let (due, blocks) = (due, number % 100 == 0);
        Some(Task::new(move || {
            if blocks {
                std::thread::park_timeout(BLOCKS_FOR); // a database, say
            } else if let Ok(mut seen) = seen.lock() {
                seen.push(clock.nanos() - due);
            }
            drop(done);
        }))
    }
}

fn main() -> tidegate::Result<()> {
    let workers = WorkerPool::builder("workers").core(8).max(8).build()?;
    workers.prestart();
    let pool: Arc<dyn TryExecutor> = Arc::new(workers);
    let monitor = Monitor::start("example")?;

    println!("1 % of the tasks block for 10 ms; latency of the others in µs");
    println!(
        "{:24} {:>8} {:>8} {:>8}   chosen",
        "strategy", "p50", "p99", "max"
    );
    for name in [
        "PC",
        "PEC",
        "EPC",
        "EWYK of 2015",
        "adaptive",
        "adaptive, late",
    ] {
        let (seen, (done, all_done)) = (Latencies::default(), mpsc::channel());
        let make = producer(&seen, done);
        let pool = Arc::clone(&pool);
        let strategy: Box<dyn Strategy> = match name {
            "PC" => Box::new(ProduceConsume::new(make, pool)),
            "PEC" => Box::new(ProduceExecuteConsume::new(make, pool)),
            "EPC" => Box::new(ExecuteProduceConsume::new(make, pool)),
            "EWYK of 2015" => Box::new(EatWhatYouKill::new(make, pool)),
            "adaptive" => Box::new(Adaptive::new(make, pool)),
            _ => Box::new(Adaptive::builder(make, pool).late(&monitor).build()),
        };
        strategy.dispatch()?;
        let _ = all_done.recv();
        let mut seen = seen.lock().map_err(|_| "a task panicked")?;
        seen.sort_unstable();
        let at = |part: usize| seen[(seen.len() - 1) * part / 1000] as f64 / 1e3;
        let (p50, p99, max) = (at(500), at(990), at(1000));
        let counts = strategy.metrics();
        println!("{name:24} {p50:8.1} {p99:8.1} {max:8.1}   {counts}");
    }
    Ok(())
}
