//! `#[tidegate::test]` and `#[tidegate::main]` on real functions.
#![cfg(feature = "macros")]

use std::time::Duration;

use tidegate::loops::EventLoop;
use tidegate::sleep;

/// A `main` of a program; the test below calls it.
mod program {
    #[tidegate::main]
    pub(super) async fn main() -> tidegate::Result<()> {
        // An error outside of a loop. It waits for no time.
        tidegate::sleep(std::time::Duration::ZERO).await?;
        Ok(())
    }
}

#[test]
fn main_is_a_plain_function() -> tidegate::Result<()> {
    program::main()
}

#[tidegate::test]
async fn a_test_runs_on_an_event_loop() {
    sleep(Duration::ZERO).await.expect("on a loop");
    assert!(EventLoop::current().is_some());
}

#[tidegate::test]
async fn a_test_may_return_an_error() -> tidegate::Result<()> {
    sleep(Duration::ZERO).await?;
    Ok(())
}

#[tidegate::test]
#[should_panic(expected = "the body fails")]
async fn a_test_may_panic() {
    panic!("the body fails");
}
