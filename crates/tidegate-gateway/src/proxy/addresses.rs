//! Where connections to a server lead: to its setting, to known addresses of its name, or to those that the
//! first lookup of the name finds.

use std::net::{IpAddr, SocketAddr};

use tidegate::promise::{Completion, Failure, Outcome, SharedCompletion, SharedPromise, promise};

use crate::config::Address;

/// The addresses of a server.
#[derive(Clone)]
pub(super) enum Addresses {
    /// The setting says where to connect.
    Setting,
    /// The best one comes first.
    Known(Vec<SocketAddr>),
    /// The name is looked up for the first time.
    Awaited(FirstLookup),
}

impl Addresses {
    /// Returns the best address of the name, if it is known.
    pub(super) fn best(&self) -> Option<&SocketAddr> {
        self.known().first()
    }

    /// Returns the known addresses of the name, the best one first.
    pub(super) fn known(&self) -> &[SocketAddr] {
        match self {
            Self::Known(known) => known,
            Self::Setting | Self::Awaited(_) => &[],
        }
    }

    /// Returns `true` if no address of the name is known yet.
    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, Self::Awaited(_))
    }

    /// Returns what finds the addresses, unless the setting says where to connect.
    pub(super) fn resolver(&self) -> Option<impl Fn() -> Completion<Vec<SocketAddr>> + use<>> {
        let own = self.clone();
        let find = move || match &own {
            Self::Setting => Completion::succeeded(Vec::new()),
            Self::Known(known) => Completion::succeeded(known.clone()),
            Self::Awaited(first) => first.found(),
        };
        (!matches!(self, Self::Setting)).then_some(find)
    }
}

/// The first lookup of a name, for which requests wait that no other server takes. Clones are handles
/// to the same lookup.
#[derive(Clone)]
pub(super) struct FirstLookup {
    promise: SharedPromise<Vec<SocketAddr>>,
    found: SharedCompletion<Vec<SocketAddr>>,
}

impl FirstLookup {
    pub(super) fn new() -> Self {
        let (promise, found) = promise();
        let found = found.share().expect("nobody has read it");
        Self {
            promise: promise.share(),
            found,
        }
    }

    /// Ends the wait, unless it has ended.
    pub(super) fn end(&self, found: Result<Vec<SocketAddr>, String>) {
        let found = found.map_err(Failure::new);
        // Another end came first.
        drop(self.promise.try_complete(found));
    }

    /// Returns the addresses when the lookup ends.
    fn found(&self) -> Completion<Vec<SocketAddr>> {
        let (promise, found) = promise();
        self.found.on_complete(move |outcome| {
            let own = match outcome {
                Outcome::Success(found) => Ok(found.clone()),
                Outcome::Failure(why) => Err(why.clone()),
                Outcome::Cancelled => Err(Failure::cancelled()),
            };
            // The request has ended.
            drop(promise.complete(own));
        });
        found
    }
}

/// Returns the name and the port of a setting that is a name.
pub(super) fn name_of(at: &Address) -> Option<(&str, u16)> {
    match at {
        Address::Tcp { host, port } => {
            let is_name = host.parse::<IpAddr>().is_err();
            is_name.then_some((host, *port))
        }
        Address::Unix(_) => None,
    }
}
