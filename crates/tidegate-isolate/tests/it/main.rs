//! Isolation from outside: commands as a program uses them, with a clock that is turned by hand.

mod again;
mod asynchronous;
mod breaker_model;
mod cache;
mod collapse;
mod configure;
mod flow;
mod hooks;
mod keys;
mod permits;
mod support;
mod threads;
mod timeouts;
mod window_model;
