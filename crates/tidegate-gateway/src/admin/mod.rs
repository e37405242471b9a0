//! The listener for operators: health, metrics, streams, state, changes.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `token` | the tokens, compared in constant time | |
//! | `place` | which endpoint a path is, and what it needs | |
//! | `door` | who may use an endpoint: host, token | `token`, `place` |
//! | `event` | the changes of operators, with time and origin | |
//! | `controls` | what the gateway shows, and what can be changed | |
//! | `gather` | a sample of the gateway for the page | `controls`, `event` |
//! | `guests` | the connections, and which of them makes room for another one | |
//! | `pages` | the open pages: samples, frames | `gather`, `guests` |
//! | `streams` | `hystrix.stream` | `guests` |
//! | `change` | what an operator changes | `controls`, `event`, `place` |
//! | `service` | responds to a request | all above |
//! | `listener` | starts and ends the listener | `service` |
//!
//! # Endpoints
//!
//! | endpoint | what it is |
//! |---|---|
//! | `GET /live`, `GET /ready` | 200, or 503 if the gateway takes no requests |
//! | `GET /metrics` | the metrics for Prometheus |
//! | `GET /hystrix.stream` | the events of the Hystrix dashboard; `?delay=` in milliseconds |
//! | `GET /` | the page, which shows the gateway live |
//! | `GET /page/events` | its frames; `GET /page/route?key=` a history; `GET /page/save` everything |
//! | `GET /api/snapshot` | routes, servers and loops as JSON: the first frame of the page |
//! | `GET /api/settings` | the settings of routes that can be set, with their origins, as JSON; `?key=` of one route |
//! | `GET /api/events` | the latest changes as JSON |
//! | `GET /api/dump` | what each part holds, as text |
//! | `PUT`, `DELETE /api/settings/PATH` | sets a setting to the body, or gives it the value of the file |
//! | `POST /api/breakers/KEY/open` | also `close`, `auto` and `reset` |
//! | `POST /api/servers/UPSTREAM/SERVER/drain` | also `resume` |
//! | `POST /api/reload` | reads the configuration again |
//! | `POST /api/knobs/NAME/CHOICE` | switches a fault of the demo |
//!
//! A token is sent as `Authorization: Bearer TOKEN`.
//!
//! The listener has a loop and threads of its own, so that an operator who asks for much does not
//! delay a request. What may block runs on the threads; health and streams stay on the loop.
//!
//! Invariant: nothing is changed without the token for changes, and no response contains a secret.

mod change;
mod controls;
mod door;
mod event;
mod gather;
mod guests;
mod listener;
mod pages;
mod place;
mod service;
mod streams;
mod token;

pub use controls::{
    Controls, Knob, LoopReport, RouteReport, ServerReport, SetError, SettingReport, UpstreamReport,
};
pub use door::AdminAccess;
pub use event::{Change, Events, WallTime};
pub use listener::{AdminError, AdminListener, AdminParts};
pub(crate) use token::Tokens;
