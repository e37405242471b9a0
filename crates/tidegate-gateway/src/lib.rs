//! The gateway `tidegate`: an HTTP proxy that no slow service takes down.
//!
//! Each route is a command with its own limit, timeout and breaker, so that a slow or failing
//! upstream does not affect the others. The gateway is built on Tidegate's own loops, channels,
//! HTTP and commands.
//!
//! # Map of the crate
//!
//! From the lowest to the highest: a module uses only modules that are listed before it. The header
//! of each folder says what its files contain.
//!
//! | module | what it is |
//! |---|---|
//! | `route` | patterns of hosts and paths, the table that finds the route of a request; pure data |
//! | `config` | the file `tidegate.toml`: read, checked, explained; the reference; pure data |
//! | `json` | writes JSON |
//! | `balance` | which server of an upstream takes a request; pure data and permits |
//! | `problem` | reports of problems through `tracing`, at most once a second for each kind |
//! | `access` | the access log: samples, lines, the thread that writes them |
//! | `unix` | Unix sockets that listen |
//! | `command` | the commands of routes, made from the configuration; reason words |
//! | `plan` | what differs between two configurations; pure data |
//! | `page` | the page that shows the gateway live: series, history, frames, the file; pure data |
//! | `admin` | the listener for operators: health, metrics, streams, page, state, changes, tokens |
//! | `reports` | where the parts report: changes, problems, lines of the access log |
//! | `resolver` | the addresses of names |
//! | `parts` | what a gateway runs on |
//! | `notify` | notification of the service manager |
//! | `lines` | the reports of the program as lines on standard error |
//! | `tls` | certificates and keys in files; the only module with types of rustls |
//! | `health` | checks of servers, thresholds, the state of a server |
//! | `fields` | forwarded and hop-by-hop fields, request ids, `traceparent`, rewrites |
//! | `proxy` | the path of a request: admission, exchange, both bodies, retry, fallback, tunnels |
//! | `serve` | listeners, reload, drain, signals |
//! | `signals` | signals, each time they come |
//! | `table` | lines with aligned columns |
//! | `screen` | the terminal: its size, keys, lines that are drawn again in place |
//! | `load` | the load generator: the command `bench` |
//! | `top` | the command `top`: the state of a gateway in a terminal |
//! | `demo` | the demo: upstreams, a gateway, load, a live table |
//! | `cli` | the command line, its manual page and completions |
//!
//! # Secrets
//!
//! No output contains a secret, such as a token or a text from a variable. An address, a number, a
//! duration or a name is printed also if it comes from a variable, any other text as it is in the
//! file, and the place of a secret as stars.
#![forbid(unsafe_code)]

pub mod access;
pub mod admin;
pub mod balance;
pub mod cli;
mod command;
pub mod config;
mod demo;
mod fields;
mod health;
mod json;
mod lines;
mod load;
#[cfg(unix)]
pub mod notify;
mod page;
mod parts;
mod plan;
pub mod problem;
mod proxy;
mod reports;
mod resolver;
pub mod route;
mod screen;
pub mod serve;
mod signals;
mod table;
mod tls;
mod top;
mod unix;

pub use parts::Parts;
pub use reports::Reports;
pub use resolver::Resolver;

/// What the benchmarks use: unstable.
#[doc(hidden)]
pub mod internal {
    pub use crate::load::{
        Counts, Dispatch, Histogram, Lane, LaneSettings, Shape, Target, WhenDone,
    };
}
