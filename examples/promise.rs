//! A promise, its listener and a blocking wait.

use tidegate::prelude::*;

fn main() -> tidegate::Result<()> {
    let home = EventLoop::builder("home").build()?;

    let (promise, answer) = home.promise::<u32>(); // listeners run on `home`
    answer.on_complete(|outcome| match outcome {
        Outcome::Success(n) => println!("finished: {n}"),
        Outcome::Failure(cause) => println!("failed: {cause}"),
        Outcome::Cancelled => println!("cancelled"),
    });
    home.schedule(Duration::from_millis(50), move || promise.succeed(123_456))?;
    println!("and here it is: {}", answer.wait()?);

    // A promise that is dropped without a result fails its waiters; they do not hang.
    let (promise, answer) = home.promise::<u32>();
    drop(promise);
    if let Err(why) = answer.wait() {
        println!("dropped: {why}");
    }

    // A blocking wait on an event loop returns an error; it never deadlocks.
    let (_promise, answer) = home.promise::<u32>();
    let refused = home.submit(move || answer.wait().map_err(|why| why.to_string()))?;
    println!("on the loop: {:?}", refused.wait()?);

    home.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
    Ok(())
}
