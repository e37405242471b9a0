//! The cost of one task or one promise, for `cargo xtask cost` to count: does one kind of operation
//! `count` times on one thread, and nothing else.
//!
//! The event loop is driven by hand, so that this thread executes every instruction of submitting
//! and running a task. Two runs of different length then differ only by the tasks.
#![forbid(unsafe_code)]

use std::error::Error;

use tidegate_core::Task;
use tidegate_loop::{EventLoop, ManualLoop};
use tidegate_promise::promise;

/// Tasks submitted before the event loop runs them.
const BATCH: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let count: u64 = args.next().unwrap_or_default().parse()?;
    match kind.as_str() {
        "execute" => tasks(false, count, |home| Ok(home.execute(|| ())?)),
        "execute-timed" => tasks(true, count, |home| Ok(home.execute(|| ())?)),
        "execute-named" => tasks(false, count, |home| {
            Ok(home.execute_task(Task::named("empty", || ()))?)
        }),
        "submit" => tasks(false, count, |home| Ok(home.submit(|| ()).map(drop)?)),
        "promise" => promises(count),
        other => Err(format!("there is no kind {other:?}").into()),
    }
}

/// Runs `count` empty tasks, each submitted by `submit`.
fn tasks(
    timed: bool,
    count: u64,
    submit: impl Fn(&EventLoop) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let builder = EventLoop::builder("cost").time_tasks(timed);
    let (home, mut hand): (EventLoop, ManualLoop) = builder.build_manual()?;
    for _ in 0..count / BATCH {
        for _ in 0..BATCH {
            submit(&home)?;
        }
        hand.run_until_idle();
    }
    assert!(home.metrics().tasks_run >= count / BATCH * BATCH);
    Ok(())
}

/// Creates `count` promises, adds a listener to each and completes it.
fn promises(count: u64) -> Result<(), Box<dyn Error>> {
    for number in 0..count {
        let (promise, answer) = promise::<u64>();
        answer.finally(|outcome| {
            std::hint::black_box(outcome.is_success());
        });
        promise.succeed(number)?;
    }
    Ok(())
}
