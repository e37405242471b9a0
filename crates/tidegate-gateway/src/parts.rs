//! What a gateway runs on.

use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;

use crate::reports::Reports;
use crate::resolver::Resolver;

/// What a gateway runs on. Clones are handles to the same parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The loops of requests.
    pub group: NetGroup,
    /// The isolation whose commands are the routes.
    pub isolation: Isolation,
    /// Where everything is reported.
    pub reports: Reports,
    /// Finds the addresses of names.
    pub resolver: Resolver,
}

impl Parts {
    /// Creates the parts of a gateway whose reports nothing but `tracing` reads.
    pub fn new(group: &NetGroup, isolation: &Isolation) -> Self {
        Self {
            group: group.clone(),
            isolation: isolation.clone(),
            reports: Reports::new(group.loops().next().clock().clone()),
            resolver: Resolver::system(),
        }
    }
}
