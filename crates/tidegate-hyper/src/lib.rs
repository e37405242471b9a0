//! hyper on event loops: HTTP/1 and HTTP/2 servers for axum, tonic, tower and hyper services,
//! without tokio's runtime.
//!
//! [`serve`] runs a service of tower, such as an `axum::Router`, on the event loops of a
//! [`NetGroup`](tidegate_net::NetGroup). Each connection lives on one loop, and its requests are
//! served there: no lock and no queue is between the socket and the service. [`Http`] has the
//! settings.
//!
//! # What runs on the loops
//!
//! Everything that needs only wakers: hyper, the router and extractors of axum, services that tonic
//! generates, layers of tower without time, `tokio::sync`. What needs tokio's reactor or timer
//! (`tokio::time`, `tokio::net`, reqwest, sqlx) panics with "there is no reactor running" unless a
//! tokio runtime is entered. Futures of a service must not block: they share their thread with the
//! other connections of the loop.
//!
//! Upgrades of HTTP/1 (WebSockets) are not supported: hyper asks for connections that are `Send`,
//! and these stay on their loop.
//!
//! # Ends
//!
//! [`Server::drain`](tidegate_net::Server::drain) ends an idle connection at once, also one that has
//! sent nothing yet. A connection with requests in flight finishes them: hyper's
//! `graceful_shutdown`, which sends `connection: close` or a GOAWAY. What is still open at the
//! deadline is closed, whatever it waits for.
//!
//! A service that panics or fails ends its connection, or its stream of HTTP/2. The hook for
//! unhandled errors of the group receives the panic, and on HTTP/1 also the error.
//!
//! From the lowest to the highest: `executor`, `timer` and `io` implement hyper's traits; `tower`
//! adapts services; `connection` is one connection from its first byte to its end; `http` has the
//! settings and starts servers.
#![forbid(unsafe_code)]

mod connection;
mod executor;
mod http;
mod io;
mod timer;
mod tower;

pub use self::connection::HttpConnection;
pub use self::executor::LoopExecutor;
pub use self::http::{Http, HttpHandler, serve};
pub use self::io::LoopIo;
pub use self::timer::{LoopSleep, LoopTimer};
pub use self::tower::{TowerCall, TowerService};
