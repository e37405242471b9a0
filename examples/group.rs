//! Several event loops: round robin, the less busy of two, and what a full event loop does.

use std::sync::mpsc;

use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    let group = EventLoopGroup::builder("io").loops(3).build()?;
    for n in 0..6 {
        let place = group.submit(move || {
            let here = EventLoop::current().map(|here| here.name().to_owned());
            format!("task {n} ran on {}", here.unwrap_or_default())
        })?;
        println!("{}", place.wait()?);
    }

    let balanced = EventLoopGroup::builder("balanced")
        .loops(4)
        .choose(Choose::LessBusy)
        .build()?;
    println!("next of the less busy: {}", balanced.next().name());

    // The queue of an event loop has a bound; a task that does not fit is returned.
    let small = EventLoop::builder("small").bound(16).build()?;
    let (go, gate) = mpsc::channel::<()>();
    small.execute(move || {
        let _ = gate.recv();
    })?;
    let mut refused = 0;
    for _ in 0..40 {
        if let Err(full) = small.execute(|| ()) {
            refused += 1;
            full.into_inner().run(); // on this thread instead
        }
    }
    println!("given back by the full loop: {refused}");
    drop(go);

    group.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
    Ok(())
}
