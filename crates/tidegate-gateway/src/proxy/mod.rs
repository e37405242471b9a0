//! The path of a request: head, route, admission, exchange with a server, response.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `times` | when a request passed each step; `Server-Timing` | |
//! | `step` | a request that is passed on, as pure data: events make actions | `times` |
//! | `asked` | the host of a request, as routes see it | |
//! | `reply` | a response that has not begun; fixed responses | |
//! | `gate` | what all requests share: loops, timers, ids | |
//! | `freed` | when an attempt has given back what it held | |
//! | `kept` | the beginning of a body, until something of its request was sent | |
//! | `held` | what a request holds at its server; which side used up its time | `freed`, `step` |
//! | `logged` | how a request ended: its line in the access log, its count | `gate`, `step` |
//! | `out` | the one way out: what each response gets | `reply`, `logged` |
//! | `line` | lines of the access log that are written later: files and tunnels | `logged` |
//! | `copies` | a value that each loop holds, and that is replaced for all of them | |
//! | `lives` | the configuration of each loop | `live`, `gate`, `copies` |
//! | `addresses` | where connections to a server lead; the first lookup of a name | |
//! | `target` | the connections to a server | `addresses` |
//! | `roster` | the servers of an upstream under all of its settings | |
//! | `members` | the servers of an upstream at one moment: one for each address | `target`, `roster` |
//! | `upstream` | an upstream: its servers, the choice of one | `members`, `copies` |
//! | `names` | the names of servers, which are looked up again and again | `upstream` |
//! | `live` | routes and upstreams that are in force | `upstream`, `gate` |
//! | `draft` | prepares them from a configuration, as its plan says | `live` |
//! | `find` | the route of a request | `live` |
//! | `handle` | handles of requests, and their memory, which is used again | |
//! | `flights` | the requests of one connection, and their times | `handle`, `gate` |
//! | `flight` | one request that is passed on: the executor of its steps | `step`, `live`, `flights` |
//! | `attempt` | the attempts of a request: admission, server, connection | `flight` |
//! | `body` | the body of the request, on its way to the server | `flight` |
//! | `answer` | the response of the server, on its way to the client | `flight`, `out` |
//! | `tunnel` | upgraded connections | `flight` |
//! | `connect` | `CONNECT`: a tunnel to a server, without HTTP | `tunnel`, `out` |
//! | `ended` | the end of a request that was passed on | `flight`, `out`, `logged` |
//! | `service` | the service of a connection: finds the route, responds or passes on | all |
//!
//! `step` decides; `flight`, `attempt`, `body`, `answer`, `tunnel` and `ended` carry out what it says, each what
//! its name says. `upstream` names the type of the handler of responses.
//!
//! Everything of a request runs on the loop of the client's connection. A connection to a server is
//! taken from the pool of the same loop.

mod addresses;
mod answer;
mod asked;
mod attempt;
mod body;
mod connect;
mod copies;
mod draft;
mod ended;
mod find;
mod flight;
mod flights;
mod freed;
mod gate;
mod handle;
mod held;
mod kept;
mod line;
mod live;
mod lives;
mod logged;
mod members;
mod names;
mod out;
mod reply;
mod roster;
mod service;
mod step;
mod target;
mod times;
mod tunnel;
mod upstream;

#[cfg(test)]
mod lives_tests;
#[cfg(test)]
mod real_tests;

pub(crate) use draft::{BuildError, Draft};
pub(crate) use gate::Gate;
pub(crate) use live::Live;
pub(crate) use lives::Lives;
pub(crate) use service::{Front, ProxyService};
