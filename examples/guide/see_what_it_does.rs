//! What a program can tell about itself: events, errors that nobody handles, figures, settings.

use std::sync::mpsc::channel;

use tidegate::isolate::{BreakerWindow, Event};
use tidegate::metrics::Exporter;
use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    // Errors that no caller sees: panics of tasks and listeners, broken connections.
    let (reports, unhandled) = channel();
    let hook =
        OnUnhandled::new(move |source, what| drop(reports.send(format!("{source}: {what}"))));
    let home = EventLoop::builder("home").report_to(hook.clone()).build()?;
    home.execute_task(Task::named("import", || panic!("no such file")))?;
    println!("unhandled: {}", unhandled.recv()?);

    // Events of commands, as they happen.
    let isolation = Isolation::builder()
        .report_to(hook)
        .on_transition(|change| println!("breaker of {}: {:?}", change.key, change.to))
        .build()?;
    let stock: Command<u32, &str> = Command::builder("stock")
        .group("shop")
        .breaker(BreakerConfig {
            window: BreakerWindow::Count(10),
            min_calls: 3,
            ..BreakerConfig::default()
        })
        .build(&isolation)?;
    for _ in 0..5 {
        let _ = stock.run(|_cancel| Err("the dependency is down"));
    }

    // Figures: plain structs. `println!("{snapshot}")` prints them as text.
    let snapshot = stock.snapshot();
    let (failed, denied) = (Event::Failure, Event::ShortCircuited);
    println!(
        "stock: {} failed, {} denied",
        snapshot.totals[failed], snapshot.totals[denied]
    );
    let metrics = home.metrics();
    println!(
        "home: {} task ran, {} panicked",
        metrics.tasks_run, metrics.panics
    );

    // Settings in force, and where each comes from.
    let settings = stock.settings();
    for name in ["circuitBreaker.requestVolumeThreshold", "fallback.enabled"] {
        settings
            .get(name)
            .into_iter()
            .for_each(|setting| println!("{setting}"));
    }

    // Everything, for Prometheus.
    let exporter = Exporter::new();
    exporter.add(home.clone());
    exporter.add(isolation);
    let text = exporter.encode();
    let wanted =
        |line: &&str| line.starts_with("tidegate_command_events_total") && line.ends_with(" 3");
    text.lines()
        .filter(wanted)
        .for_each(|line| println!("{line}"));

    // The state of a part as a tree, also while it hangs.
    println!("{}", home.dump().get("state").expect("a loop has a state"));
    Ok(())
}
