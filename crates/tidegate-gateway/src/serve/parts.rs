//! What a gateway in operation runs on.

use std::sync::Arc;

use tidegate::isolate::{Isolation, Properties};
use tidegate::net::NetGroup;

use crate::notify::Notifier;
use crate::reports::Reports;
use crate::resolver::Resolver;

/// What a gateway runs on.
#[derive(Clone, Debug)]
pub struct OperationParts {
    /// The loops of requests.
    pub group: NetGroup,
    /// The loop of the listener for operators. It is not one of those of requests, so that an
    /// operator gets an answer while these are busy.
    pub own: NetGroup,
    /// The isolation of the routes. It reads `properties`.
    pub isolation: Isolation,
    /// The properties with the orders of operators for breakers.
    pub properties: Properties,
    /// Where everything is reported. Without an access log, the one of the configuration is
    /// started.
    pub reports: Reports,
    /// Finds the addresses of names.
    pub resolver: Resolver,
    /// The service manager.
    pub notifier: Arc<Notifier>,
}
