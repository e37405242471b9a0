//! The addresses of servers that are values of variables. No output shows them: neither a dump of connections
//! nor an error of a connection.
//!
//! An address counts as long as its server is used, also by requests and tunnels that have begun before a
//! reload removed the server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Dump;
use tidegate_core::DumpValue;

use crate::balance::{ServerState, WeakServer};
use crate::config::replaced;

/// The peers whose addresses no output shows.
#[derive(Debug, Default)]
pub(crate) struct HiddenPeers {
    known: Mutex<Vec<Hidden>>,
}

/// A peer whose address no output shows.
#[derive(Debug)]
struct Hidden {
    address: SocketAddr,
    server: WeakServer,
    /// What is shown in its place.
    label: Arc<str>,
}

impl HiddenPeers {
    /// From now on, outputs show `label` in place of the address of a server.
    pub(crate) fn hide(&self, address: SocketAddr, server: &ServerState, label: &Arc<str>) {
        let mut known = self.locked();
        known.retain(|one| !one.server.is_gone());
        let (server, label) = (server.downgrade(), Arc::clone(label));
        let is_known = |one: &Hidden| one.address == address && one.server.is_same(&server);
        match known.iter_mut().find(|one| is_known(one)) {
            Some(one) => one.label = label,
            None => known.push(Hidden {
                address,
                server,
                label,
            }),
        }
    }

    /// Returns a message without the addresses.
    pub(crate) fn hide_in(&self, message: &str) -> String {
        let known = self.locked();
        let pairs = known
            .iter()
            .map(|one| (one.address.to_string(), one.label.to_string()));
        let pairs: Vec<_> = pairs.collect();
        drop(known);
        replaced(message, &pairs)
    }

    /// Returns a dump without the addresses.
    pub(crate) fn hide_in_dump(&self, dump: &Dump) -> Dump {
        let mut own = Dump::new(dump.kind(), dump.name());
        for (key, value) in dump.facts() {
            own = match value {
                DumpValue::Text(text) if *key == "peer" => own.fact(key, self.hide_in(text)),
                value => own.fact(key, value.clone()),
            };
        }
        let own = own.leave_out(dump.left_out());
        let children = dump.children().iter();
        children.fold(own, |own, child| own.child(self.hide_in_dump(child)))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Hidden>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Which addresses are shown.

    use super::*;

    #[test]
    fn an_address_is_hidden_while_its_server_is_used() {
        let peers = HiddenPeers::default();
        let (one, two) = (ServerState::new(1, None), ServerState::new(1, None));
        let address = "10.0.0.1:80".parse().unwrap();
        for server in [&one, &two, &one] {
            peers.hide(address, server, &"${A}:80".into());
        }
        assert_eq!(peers.locked().len(), 2);
        let connection = |peer: &str| Dump::new("connection", "#1").fact("peer", peer);
        let dump = Dump::new("gateway", "").fact("is_ready", true).list(
            "sources",
            3,
            [connection("10.0.0.1:80"), connection("10.0.0.1:8080")],
        );
        let shown = peers.hide_in_dump(&dump).to_string();
        assert_eq!(
            shown,
            dump.to_string()
                .replace("10.0.0.1:80\n", "${A}:80\n")
                .replace("10.0.0.1:80,", "${A}:80,")
        );
        drop(one);
        assert_eq!(
            peers.hide_in("the peer is 10.0.0.1:80"),
            "the peer is ${A}:80"
        );
        drop(two);
        let other = "10.0.0.2:80".parse().unwrap();
        peers.hide(other, &ServerState::new(1, None), &"${B}:80".into());
        assert_eq!(
            peers.hide_in("the peer is 10.0.0.1:80"),
            "the peer is 10.0.0.1:80"
        );
    }
}
