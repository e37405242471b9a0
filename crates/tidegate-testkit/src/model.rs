//! Runs one test for many seeds and reports the seed that failed.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use crate::rng::{self, Rng, SEED_VARIABLE};

/// Runs `test` once per seed, each time with a new generator. Stops at the first seed that panics.
///
/// The test usually applies random operations to the code under test and to a naive reference, and
/// asserts that they agree. If [`SEED_VARIABLE`] is set, only that seed runs. `test` runs on the
/// calling thread.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::model;
///
/// model(0..100, |rng| {
///     let mut numbers: Vec<_> = (0..20).map(|_| rng.below(10)).collect();
///     numbers.sort();
///     assert!(numbers.is_sorted());
/// });
/// ```
///
/// # Panics
///
/// If the test panics, with its message and the seed. Also if there is no seed to run.
#[track_caller]
pub fn model(seeds: impl IntoIterator<Item = u64>, test: impl FnMut(&mut Rng)) {
    match rng::seed_from_env() {
        Some(seed) => run([seed], test),
        None => run(seeds, test),
    }
}

#[track_caller]
pub(crate) fn run(seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(&mut Rng)) {
    let mut ran = false;
    for seed in seeds {
        ran = true;
        let mut rng = Rng::silent(seed);
        // Unwind safe: state that the test left inconsistent is not used again.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(&mut rng)));
        if let Err(payload) = outcome {
            let message = message(&*payload);
            panic!("seed {seed} fails: {message}\nto repeat this: {SEED_VARIABLE}={seed}");
        }
    }
    assert!(ran, "a model without seeds tests nothing");
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
