//! A million idle timeouts and what they cost: traffic keeps connections open, and they are closed
//! when it stops.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::prelude::*;
use tidegate::timer::{TimerHandle, WheelTimer};

const CONNECTIONS: usize = 1_000_000;
const IDLE: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(100);

fn main() -> tidegate::Result<()> {
    let timer = WheelTimer::builder("idle")
        .tick(Duration::from_millis(10))
        .slots(4096)
        .build()?;
    let beat = EventLoop::builder("beat").build()?;
    let (closed, clock) = (Arc::new(AtomicU64::new(0)), Clock::system());

    let (before, began) = (resident(), clock.nanos());
    let handles = open(&timer, &closed);
    let adding = (clock.nanos() - began) / CONNECTIONS as u64;
    println!("opened {CONNECTIONS} connections, {adding} ns for each timeout");

    // Every connection sends something now and then; after two seconds most of them fall silent.
    let (mut said, mut resets, mut resetting, mut random) = (0, 0, 0, 7_u64);
    for turn in 0..50 {
        let share = if turn < 20 {
            CONNECTIONS / 5
        } else {
            CONNECTIONS / 100
        };
        let began = clock.nanos();
        for _ in 0..share {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let talks = &handles[(random >> 33) as usize % CONNECTIONS];
            resets += u64::from(talks.reset(IDLE));
        }
        said += share as u64;
        resetting += clock.nanos() - began;
        let metrics = timer.metrics();
        let each = (resident().saturating_sub(before) as usize) / CONNECTIONS;
        print!(
            "\ropen {:>9}  closed as idle {:>9}  resets {:>8} at {:>4} ns  wakeups {:>5}  {each} bytes each ",
            metrics.pending,
            closed.load(Ordering::Relaxed),
            resets,
            resetting / said,
            metrics.wakeups,
        );
        std::io::stdout().flush()?;
        beat.schedule(BEAT, || ())?.wait()?;
    }
    println!();

    let report = timer.shutdown().wait()?;
    println!(
        "{} were still open when the timer stopped",
        report.unfired.len()
    );
    Ok(())
}

/// Adds a timeout for each connection.
fn open(timer: &WheelTimer, closed: &Arc<AtomicU64>) -> Vec<TimerHandle> {
    let one = |_| {
        let closed = Arc::clone(closed);
        let close = move || {
            closed.fetch_add(1, Ordering::Relaxed);
        };
        timer.schedule(IDLE, close).expect("there is no limit")
    };
    (0..CONNECTIONS).map(one).collect()
}

/// Returns the memory of this process in bytes, if the operating system reports it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
