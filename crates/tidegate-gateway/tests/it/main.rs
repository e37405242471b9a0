//! Tests of the gateway from outside.
#![expect(clippy::unwrap_used, reason = "a test fails where its set-up fails")]

mod against;
mod explains;
mod files;
mod inherits;
mod mistakes;
mod mistakes_of_listeners;
mod packaging;
mod reference;
mod secrets;
mod start_files;
mod whole_files;
