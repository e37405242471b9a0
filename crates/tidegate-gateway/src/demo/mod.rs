//! The demo: what `tidegate` does without arguments.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `upstreams` | four servers that can be made slow, failing, hanging or dead | |
//! | `settings` | the configuration of the gateway, with and without bulkheads | |
//! | `keys` | what a key means | `upstreams` |
//! | `switches` | does what a key or a button means | `upstreams`, `settings`, `keys` |
//! | `table` | the live table and the summary; pure data | |
//! | `view` | samples the load and the routes, draws the table | `table`, `keys`, `switches` |
//! | `run` | starts and ends everything, waits for keys and signals | all above |
//!
//! One client with few connections calls all routes in turn, as one service calls several others.
//! With bulkheads, a slow route holds few of its connections. Without them, a slow route holds all of
//! them, and the fast route suffers.

mod keys;
mod run;
mod settings;
mod switches;
mod table;
#[cfg(test)]
mod tests;
mod upstreams;
mod view;

pub(crate) use run::demo;
