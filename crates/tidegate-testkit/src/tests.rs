//! Unit tests for behaviour that an integration test could only reach by waiting a minute or by
//! changing the environment.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use crate::waiting::{block_on_at_most, until_some_at_most};
use crate::{Counter, Gate, Log, Rng, block_on, model, rng, until, until_some};

/// A limit that is long enough for a real wait and too short to slow the tests down.
const SHORT: Duration = Duration::from_millis(1);

fn panic_message(test: impl FnOnce()) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(test)).expect_err("it should panic");
    *payload.downcast().expect("the message is formatted")
}

#[test]
fn a_gate_that_is_never_opened_fails_with_a_message() {
    let message = panic_message(|| Gate::new().wait_at_most(SHORT));
    assert_eq!(message, "the gate was not opened (gave up after 1ms)");
}

#[test]
fn a_counter_that_stops_says_how_far_it_came() {
    let counter = Counter::new();
    counter.hit();
    let message = panic_message(|| counter.wait_at_most(SHORT, 3));
    assert_eq!(message, "the counter stopped at 1 of 3 (gave up after 1ms)");
    assert_eq!(counter.hit(), 2, "it is still usable");
}

#[test]
fn a_log_that_stops_says_how_far_it_came() {
    let log = Log::new();
    log.push('a');
    let message = panic_message(|| log.wait_at_most(SHORT, 2));
    assert_eq!(
        message,
        "the log stopped at 1 of 2 events (gave up after 1ms)"
    );
}

#[test]
fn what_is_already_there_is_not_waited_for() {
    let gate = Gate::new();
    gate.open();
    gate.wait_at_most(Duration::ZERO);
    Counter::new().wait_at_most(Duration::ZERO, 0);
    Log::<()>::new().wait_at_most(Duration::ZERO, 0);
}

#[test]
fn a_condition_that_never_holds_fails_with_its_name() {
    let message = panic_message(|| {
        until_some_at_most(SHORT, "the pool is idle", || None::<()>);
    });
    assert_eq!(
        message,
        "timed out waiting until the pool is idle (gave up after 1ms)"
    );
}

#[test]
fn a_condition_is_looked_at_until_it_holds_and_before_the_time_is() {
    let mut looks = 0;
    until("three looks were taken", || {
        looks += 1;
        looks == 3
    });
    assert_eq!(until_some("there is a number", || Some(looks)), 3);
    until_some_at_most(Duration::ZERO, "it is there", || Some(()));
}

#[test]
fn a_future_that_is_never_woken_fails_with_its_name() {
    let message = panic_message(|| {
        block_on_at_most(SHORT, "the call has returned", std::future::pending::<()>());
    });
    assert_eq!(
        message,
        "timed out waiting until the call has returned (gave up after 1ms)"
    );
}

#[test]
fn a_future_is_polled_again_when_it_is_woken() {
    let mut polls = 0;
    let twice = std::future::poll_fn(|context| {
        polls += 1;
        context.waker().wake_by_ref();
        match polls {
            1 => std::task::Poll::Pending,
            _ => std::task::Poll::Ready(polls),
        }
    });
    assert_eq!(block_on("it was polled twice", twice), 2);
}

#[test]
fn a_model_runs_every_seed_once_and_in_order() {
    let mut ran = Vec::new();
    model::run(5..8, |rng| ran.push(rng.seed()));
    assert_eq!(ran, [5, 6, 7]);
}

#[test]
fn a_model_stops_at_the_failing_seed_and_reports_it() {
    let mut ran = 0;
    let message = panic_message(|| {
        model::run(0..100, |rng| {
            ran += 1;
            assert!(rng.seed() != 17, "seventeen");
        });
    });
    assert_eq!(ran, 18);
    assert_eq!(
        message,
        "seed 17 fails: seventeen\nto repeat this: TIDEGATE_SEED=17"
    );
}

#[test]
fn a_model_keeps_a_formatted_message_and_survives_none() {
    let formatted = panic_message(|| model::run([1], |rng| panic!("below {}", rng.below(1))));
    assert!(formatted.starts_with("seed 1 fails: below 0\n"));
    let bare = panic_message(|| model::run([1], |_| panic::panic_any(1)));
    assert!(bare.starts_with("seed 1 fails: a panic without a message\n"));
}

#[test]
#[should_panic(expected = "a model without seeds tests nothing")]
fn a_model_without_seeds_fails() {
    model::run([], |_| {});
}

#[test]
fn a_seed_is_decimal_or_hexadecimal() {
    assert_eq!(rng::parse_seed("17"), 17);
    assert_eq!(rng::parse_seed("0x11"), 17);
    assert_eq!(rng::parse_seed("18446744073709551615"), u64::MAX);
}

#[test]
#[should_panic(expected = "TIDEGATE_SEED must be a number, and is \"yes\"")]
fn a_seed_that_is_not_a_number_is_refused() {
    rng::parse_seed("yes");
}

#[test]
fn the_sequence_is_that_of_the_published_algorithms() {
    // State from splitmix64 of 0, whose first outputs are published with it.
    let mut rng = Rng::silent(0);
    assert_eq!(rng.state[0], 0xE220_A839_7B1D_CDAF);
    assert_eq!(rng.state[1], 0x6E78_9E6A_A1B9_65F4);
    // xoshiro256** from the state 1, 2, 3, 4: the vector used by other implementations.
    rng.state = [1, 2, 3, 4];
    let drawn = [0; 5].map(|_| rng.next_u64());
    assert_eq!(
        drawn,
        [
            11520,
            0,
            1509978240,
            1215971899390074240,
            1216172134540287360
        ]
    );
}
