//! Scheduled tasks: once, at a fixed rate, cancelled, and a day on a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    let home = EventLoop::builder("home").build()?;
    let once = home.schedule(Duration::from_millis(20), || "twenty milliseconds later")?;
    println!("{}", once.wait()?);

    let never = home.schedule(Duration::from_secs(3600), || "in an hour")?;
    println!("cancelled in time: {}", never.cancel());

    // The same code on a manual clock: a day passes in a moment.
    let clock = ManualClock::new();
    let test = EventLoop::builder("test").clock(&clock).build()?;
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let tick = test.schedule_at_fixed_rate(Duration::ZERO, Duration::from_secs(60), move || {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    clock.advance(Duration::from_secs(24 * 3600));
    test.settle();
    println!("runs in a day: {}", runs.load(Ordering::Relaxed));
    tick.cancel();
    Ok(())
}
