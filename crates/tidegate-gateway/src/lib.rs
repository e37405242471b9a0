//! The gateway `tidegate`: an HTTP proxy that no slow service takes down.
//!
//! | module | what it is |
//! |---|---|
//! | `route` | patterns of hosts and paths, the table that finds the route of a request; pure data |
#![forbid(unsafe_code)]

pub mod route;
