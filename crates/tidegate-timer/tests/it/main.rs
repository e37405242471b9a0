//! Integration tests of `tidegate-timer`, with the help of `tidegate-testkit`.

mod heap_model;
mod wheel_model;
mod wheel_timer;
