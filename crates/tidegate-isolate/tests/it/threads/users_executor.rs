//! The tests of a pool, over a queue and an executor that the program supplies.

mod kit {
    use tidegate_core::{ManualClock, RejectReason, Rejected};
    use tidegate_isolate::{ConcurrencyStrategy, Isolation};

    use crate::concurrency::{Plain, on_a_thread};
    use crate::support::{Builder, Numbers, alone_in};

    pub(crate) fn still() -> (ManualClock, Isolation) {
        let clock = ManualClock::new();
        let isolation = Isolation::builder()
            .clock(&clock)
            .concurrency_strategy(|pool| {
                let name = format!("tidegate-{pool}");
                let parts = ConcurrencyStrategy::default().queue(Plain::default());
                parts.executor(move |task| {
                    on_a_thread(&name, task)
                        .map_err(|task| Rejected::new(task, RejectReason::NoThread))
                })
            });
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
