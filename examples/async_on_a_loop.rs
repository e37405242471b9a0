//! Futures on event loops: they await promises, other event loops and each other, without a
//! runtime.

use std::rc::Rc;

use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    let group = EventLoopGroup::builder("io").loops(2).build()?;
    let (here, there) = (group.next().clone(), group.next().clone());

    // A future on one event loop awaits work on another.
    let far = there.clone();
    let sum = here.spawn(async move {
        let mut sum = 0;
        for n in 1..=3 {
            let square = far.submit(move || n * n).ok()?;
            sum += square.await.ok()?;
        }
        Some(sum)
    })?;
    println!("sum of squares: {:?}", sum.wait()?);

    // A future that stays on its thread need not be `Send`.
    let counted = here.submit(|| {
        let home = EventLoop::current().expect("this runs on a loop");
        let shared = Rc::new(7);
        home.spawn_local(async move { *shared * 6 })
            .expect("on its own loop")
    })?;
    println!("from an Rc: {}", counted.wait()?.wait()?);

    // Cancelling drops the future, on its event loop.
    let (_never, open) = there.promise::<()>();
    let waiting = there.spawn(async move { open.await.is_ok() })?;
    println!("cancelled: {}", waiting.cancel());

    group.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
    Ok(())
}
