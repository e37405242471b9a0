//! The gateway `tidegate`: an HTTP proxy that no slow service takes down.
//!
//! | module | what it is |
//! |---|---|
//! | `route` | patterns of hosts and paths, the table that finds the route of a request; pure data |
//! | `balance` | which server of an upstream takes a request; pure data and permits |
#![forbid(unsafe_code)]

pub mod balance;
pub mod route;
