//! Integration tests of `tidegate-promise`: what a user of promises can rely on.

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
