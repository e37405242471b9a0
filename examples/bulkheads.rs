//! One slow dependency and nine healthy ones under load: first in one shared pool, then each behind
//! a bulkhead of its own. A table every half second shows the difference.

use std::thread;
use std::time::Duration;

use tidegate::CancelToken;
use tidegate::isolate::{Command, Event, Isolation, PoolConfig};

const DEPENDENCIES: usize = 10;
const TURNS: usize = 100;

/// Simulates a call that takes some time. It ends early when its caller no longer waits.
fn fetch(slow: bool, cancel: &CancelToken) -> Result<u32, String> {
    let me = thread::current();
    let _hook = cancel.on_cancel(move || me.unpark());
    thread::park_timeout(Duration::from_millis(if slow { 5_000 } else { 5 }));
    if cancel.is_cancelled() {
        return Err("the caller no longer waits".to_owned());
    }
    Ok(1)
}

fn run(shared: bool) -> tidegate::Result<()> {
    let isolation = Isolation::builder().build()?;
    let build = |at: usize| {
        let pool = if shared {
            "one for all".to_owned()
        } else {
            format!("pool-{at}")
        };
        let threads = if shared { 40 } else { 4 };
        Command::<u32, String>::builder(format!("dependency-{at}"))
            .group("example")
            .pool(pool)
            .threads(PoolConfig {
                core: threads,
                ..PoolConfig::default()
            })
            .timeout(Duration::from_millis(1_000))
            .build(&isolation)
    };
    let commands: Vec<_> = (0..DEPENDENCIES).map(build).collect::<Result<_, _>>()?;
    println!(
        "\n{}",
        if shared {
            "one pool for all"
        } else {
            "a bulkhead each"
        }
    );
    for turn in 1..=TURNS {
        for (at, command) in commands.iter().enumerate() {
            // The results are not needed: the counts show enough.
            drop(command.queue(move |cancel| fetch(at == 0, cancel)));
        }
        thread::park_timeout(Duration::from_millis(15));
        if turn % 33 == 0 {
            let window = |at: usize| commands[at].snapshot().window;
            let slow = window(0);
            let healthy: u64 = (1..DEPENDENCIES).map(|at| window(at)[Event::Success]).sum();
            let refused: u64 = (1..DEPENDENCIES)
                .map(|at| window(at)[Event::PoolRejected])
                .sum();
            println!(
                "  slow one: {:>3} timed out, {:>3} refused   healthy nine: {healthy:>4} answered, {refused:>4} refused",
                slow[Event::Timeout],
                slow[Event::PoolRejected] + slow[Event::ShortCircuited],
            );
        }
    }
    Ok(())
}

fn main() -> tidegate::Result<()> {
    run(true)?;
    run(false)
}
