//! Fields that a gateway sets or removes on the way: pure functions over heads.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `ids` | request ids and `traceparent` | |
//! | `forward` | `Forwarded`, `X-Forwarded-*`, `Via` | `ids` |
//! | `hops` | `Max-Forwards` | |
//! | `back` | which fields of a response go back to the client | |
//! | `rewrite` | the path, the host and the fields that a route sets; targets of redirects | |
//! | `trailers` | which fields pass behind a body | `back`, `forward`, `ids`, `rewrite` |

mod back;
mod forward;
mod hops;
mod ids;
mod rewrite;
mod trailers;

pub(crate) use back::Dropped;
pub(crate) use forward::{Peer, forward};
pub(crate) use hops::{has_hops, hops_left, take_hop};
pub(crate) use ids::{Fresh, Ids, RequestId};
pub(crate) use rewrite::{Rewriting, location};
pub(crate) use trailers::{Options, request_trailers, response_trailers};
