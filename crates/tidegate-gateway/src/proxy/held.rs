//! What a request holds at its server, and what it wants of it.

use std::time::Duration;

use tidegate::isolate::Entry;
use tidegate::net::Channel;

use crate::balance::Lease;

/// What an attempt or a tunnel holds as long as its server is connected.
pub(super) struct Held {
    pub(super) entry: Option<Entry>,
    pub(super) lease: Lease,
}

/// The client's side of a tunnel that a request asks for.
pub(super) struct Wanted {
    pub(super) client: Channel,
    /// How long the tunnel may carry no byte.
    pub(super) idle: Duration,
}
