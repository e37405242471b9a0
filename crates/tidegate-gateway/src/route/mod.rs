//! Routes as pure data: patterns, and the table that finds the route of a request.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `host` | patterns of hosts | |
//! | `path` | patterns of paths, the normal form of a path | |
//! | `request` | what a route looks at in a request | |
//! | `rule` | the conditions of a route, and their rank | `host`, `path`, `request` |
//! | `table` | the most specific route of a request; ties; unreachable routes | all |

mod host;
mod path;
mod request;
mod rule;
mod table;
#[cfg(test)]
mod tests;

pub use host::{HostPattern, without_port};
pub use path::{PathPattern, Segment, normal, normal_bytes};
pub use request::RouteRequest;
pub use rule::Rule;
pub use table::{Table, Tie};
