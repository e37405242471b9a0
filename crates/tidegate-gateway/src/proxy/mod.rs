//! The path of a request: head, route, admission, exchange with a server, response.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `times` | when a request passed each step; `Server-Timing` | |
//! | `reply` | responses of the gateway itself | |
//! | `gate` | what all requests share: loops, timers, ids | |
//! | `held` | what a request holds at its server | |
//! | `lives` | the configuration of each loop | `live`, `gate` |
//! | `upstream` | the servers of an upstream, and the connections to them | `answer` |
//! | `live` | routes and upstreams, made from a configuration | `upstream` |
//! | `flight` | one request that is passed on: its state | `live`, `reply` |
//! | `attempt` | the attempts of a request: admission, server, connection | `flight` |
//! | `body` | the body of the request, on its way to the server | `flight` |
//! | `answer` | the response of the server, on its way to the client | `flight` |
//! | `tunnel` | upgraded connections | `flight` |
//! | `service` | the service of a connection: finds the route, responds or passes on | all |
//!
//! `flight`, `attempt`, `body`, `answer` and `tunnel` are one state machine in five files; `upstream` names the
//! type of its handler.
//!
//! Everything of a request runs on the loop of the client's connection. A connection to a server is
//! taken from the pool of the same loop.

mod answer;
mod attempt;
mod body;
mod flight;
mod gate;
mod held;
mod live;
mod lives;
mod reply;
mod service;
mod times;
mod tunnel;
mod upstream;

pub(crate) use live::{BuildError, Live};
pub(crate) use lives::Lives;
pub(crate) use service::{Front, ProxyService};
