//! Isolation from the outside: commands as a program uses them, with a manual clock.

#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the tests of a pool also run over a queue and an executor of the program"
)]

mod abandoned_calls;
mod asynchronous;
mod attempts;
mod blocking_user_code;
mod cache;
mod call_context;
mod chaos;
mod collapse;
mod combined_ends;
mod compose;
mod concurrency;
mod configure;
mod deadlocks;
mod dump;
mod entry;
mod entry_ends;
mod entry_model;
mod entry_wait;
mod fallbacks;
mod first_callers;
mod flow;
mod handed_back;
mod hooks;
mod interrupt;
mod interrupt_edges;
mod keys;
mod kit;
mod overstaying;
mod payloads;
mod permits;
mod pool_keys;
mod refusals;
mod reported_panics;
mod retries;
mod settings;
mod sources;
mod steps;
mod support;
mod threads;
mod timeouts;
mod window_model;
