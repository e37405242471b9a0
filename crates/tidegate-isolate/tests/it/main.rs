//! Isolation from the outside: commands as a program uses them, with a manual clock.

#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod again;
mod apart;
mod asynchronous;
mod breaker_model;
mod cache;
mod chaos;
mod circles;
mod collapse;
mod compose;
mod configure;
mod entry;
mod fallbacks;
mod flow;
mod hidden;
mod hooks;
mod interrupt;
mod keys;
mod leaving;
mod payloads;
mod permits;
mod refusals;
mod settings;
mod sources;
mod support;
mod surroundings;
mod threads;
mod timeouts;
mod unheard;
mod window_model;
