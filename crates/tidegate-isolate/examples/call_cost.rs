//! Makes a number of guarded calls of one kind on one thread, for `cargo xtask cost isolate` to
//! count.
//!
//! The command has permits, a breaker and a timeout, and each call succeeds at once. Two runs of
//! different length differ by the calls alone.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_isolate::{BreakerConfig, Command, Isolation};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let count: u64 = args.next().unwrap_or_default().parse()?;
    let isolation = Isolation::builder().build()?;
    let command: Command<u64, &'static str> = Command::builder("cost")
        .group("cost")
        .permits(10)
        .breaker(BreakerConfig::default())
        .timeout(Duration::from_secs(1))
        .build(&isolation)?;
    let succeeded = match kind.as_str() {
        "run" => repeat(count, |number| {
            command.run(move |_cancel| Ok(number)).is_ok()
        }),
        "run-async" => repeat(count, |number| {
            let answer = pin!(command.run_async(move |_cancel| ready(Ok(number))));
            let answer = answer.poll(&mut Context::from_waker(Waker::noop()));
            matches!(answer, Poll::Ready(Ok(_)))
        }),
        "admit" => repeat(count, |number| {
            let entry = command.admit();
            entry.is_ok_and(|entry| entry.verdict(number < u64::MAX))
        }),
        other => return Err(format!("there is no kind {other:?}").into()),
    };
    assert_eq!((succeeded, command.snapshot().active), (count, 0));
    Ok(())
}

/// Makes `count` calls, and returns how many of them succeeded.
fn repeat(count: u64, call: impl Fn(u64) -> bool) -> u64 {
    (0..count).filter(|number| call(*number)).count() as u64
}
