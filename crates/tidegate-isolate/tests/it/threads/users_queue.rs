//! The tests of a pool, over a queue that the program supplies.

mod kit {
    use tidegate_core::ManualClock;
    use tidegate_isolate::{ConcurrencyStrategy, Isolation};

    use crate::concurrency::Plain;
    use crate::support::{Builder, Numbers, alone_in};

    pub(crate) fn still() -> (ManualClock, Isolation) {
        let clock = ManualClock::new();
        let isolation = Isolation::builder()
            .clock(&clock)
            .concurrency_strategy(|_| ConcurrencyStrategy::default().queue(Plain::default()));
        (clock, isolation.build().unwrap())
    }

    pub(crate) fn alone(
        with: impl FnOnce(Builder) -> Builder,
    ) -> (ManualClock, Isolation, Numbers) {
        alone_in(still(), with)
    }
}

#[path = "../abandoned_calls.rs"]
mod abandoned_calls;
#[path = "bounds.rs"]
mod bounds;
#[path = "figures.rs"]
mod figures;
#[path = "places.rs"]
mod places;
#[path = "producers.rs"]
mod producers;
