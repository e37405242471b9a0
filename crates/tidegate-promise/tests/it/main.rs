//! Integration tests of `tidegate-promise`: the guarantees for users of promises.
#![expect(
    clippy::unwrap_used,
    reason = "an unwrap is an assertion here; clippy knows that only inside of test functions"
)]

mod chains;
mod combine;
mod futures;
mod listeners;
mod memory;
mod progress;
mod races;
mod shared;
mod state;
mod support;
mod waiting;
