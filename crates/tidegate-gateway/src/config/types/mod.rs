//! The sections of a configuration. Their documentation is the reference.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `listen` | listeners, TLS, limits, the admin listener | |
//! | `upstream` | upstreams, servers, health checks | |
//! | `command` | limit, queue, breaker, retry, fallback of a route | |
//! | `route` | conditions, action and command of a route | `command` |
//! | `operate` | access log, drain, reload | |

mod command;
mod listen;
mod operate;
mod route;
mod upstream;

pub use command::{Breaker, Fallback, Limit, Queue, Retry};
pub use listen::{Admin, Certificate, Limits, ListenTls, Listener};
pub use operate::{Drain, Log, Reload};
pub use route::{Files, Redirect, Respond, Rewrite, Route, Tunnel};
pub use upstream::{Health, Server, Upstream, UpstreamTls};
