//! Heads: from received bytes to a borrowed view or a copy.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | [`HeadTable`], the offsets of a parsed head |
//! | `fields` | [`Fields`] and [`Field`], views of the fields |
//! | `scan` | finds the end of a head that arrives in pieces |
//! | `lines` | parses field lines |
//! | `authority` | hosts and ports |
//! | `target` | the forms of a request target |
//! | `connection` | the options of `Connection` |
//! | `hop_by_hop` | the fields that belong to one connection |
//! | `patch`, `spare_copy`, `forward` | the patchable copies, and their memory; those that a proxy passes on |
//! | `view`, `owned` | [`Head`], the view, and [`OwnedHead`], the copy, of either kind |
//! | `request`, `response` | the start lines, the checks that need several fields |

mod authority;
mod connection;
mod fields;
mod forward;
mod hop_by_hop;
mod lines;
mod owned;
mod patch;
mod request;
mod response;
mod scan;
mod spare_copy;
mod table;
mod target;
mod view;

pub use self::fields::{Field, Fields};
pub use self::owned::{OwnedHead, OwnedRequestHead};
pub use self::request::RequestHead;
pub use self::response::ResponseHead;
pub use self::table::HeadTable;
pub use self::target::TargetForm;
pub use self::view::{Head, OfRequest, OfResponse};

pub(crate) use self::owned::OwnedResponseHead;

pub(super) use self::lines::{field, lines};
pub(super) use self::scan::{Expected, Scan};
