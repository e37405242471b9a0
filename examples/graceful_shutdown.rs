//! Graceful shutdown: quiet period, hooks, and a report of what ran and what was handed back.

use std::sync::mpsc;

use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    let home = EventLoop::builder("home").build()?;
    home.add_shutdown_hook("flush", || println!("hook: flushed"))?;
    home.schedule(Duration::from_secs(3600), || println!("never printed"))?;

    // Tasks that are queued when the shutdown begins still run.
    for n in 0..3 {
        home.execute(move || println!("task {n}"))?;
    }
    let quiet = Quiet {
        period: Duration::from_millis(50), // this long without a submission
        timeout: Duration::from_secs(5),   // but no longer than this in all
    };
    let end = home.shutdown(quiet);
    home.execute(|| println!("accepted in the quiet period"))?;
    println!("report: {}", end.wait()?);
    println!(
        "afterwards: {}",
        home.execute(|| ()).expect_err("it is over")
    );

    // Tasks that have not started by the deadline are handed back.
    let busy = EventLoop::builder("busy").build()?;
    let (go, gate) = mpsc::channel::<()>();
    busy.execute(move || {
        let _ = gate.recv();
    })?;
    for n in 0..3 {
        busy.execute(move || println!("task {n}, taken from the report and run"))?;
    }
    let end = busy.shutdown(Quiet::none(Duration::ZERO));
    drop(go);
    for task in end.wait()?.handed_back.take() {
        task.run();
    }
    Ok(())
}
