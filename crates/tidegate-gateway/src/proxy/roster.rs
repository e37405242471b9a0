//! The servers of an upstream under all of its settings: those in force, those of requests that have begun
//! before a reload, and those that a reload prepares.
//!
//! A server is the same as long as it is used, also if its weight, its limit or its position in
//! the list changes: its requests in flight count, and it stays up or down.
//!
//! # Invariants
//!
//! * Of an upstream, one set of settings is in force: that with the number `in_force`. Only its limits and
//!   checks apply. A server that it does not have is not checked.
//! * An upstream that is gone has no settings in force: `in_force` is [`GONE`], for ever. If the name comes
//!   back, it is another upstream.
//! * Locks are taken in this order: `in_force`, the addresses of an upstream, its members, `known`, the checker of
//!   a server.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::internal::lock;

use crate::balance::{ServerState, WeakServer};
use crate::config::Address;

/// Larger than the number of all settings.
const GONE: u64 = u64::MAX;

/// What makes a server the same as one of other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) at: Address,
    /// The address of its name, if it is known. Further ones are only other ways to it.
    pub(super) address: Option<SocketAddr>,
    /// The number of equal ones before it in the list.
    pub(super) repeated: usize,
}

/// The servers of an upstream under all of its settings.
#[derive(Debug, Default)]
pub(super) struct Roster {
    known: Mutex<Vec<(Identity, WeakServer)>>,
    /// The number of the newest settings.
    newest: AtomicU64,
    /// The number of the settings in force; 0 before the first ones.
    in_force: Mutex<u64>,
}

impl Roster {
    /// Returns the number of new settings, larger than all before.
    pub(super) fn number(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a server, with this weight. One that was not used any more begins anew, with this limit.
    pub(super) fn server(
        &self,
        identity: &Identity,
        weight: u32,
        most: Option<u32>,
    ) -> ServerState {
        let mut known = lock(&self.known);
        known.retain(|(_, server)| !server.is_gone());
        let mut own = known.iter().filter(|(own, _)| own == identity);
        if let Some(server) = own.find_map(|(_, server)| server.get(weight)) {
            return server;
        }
        let server = ServerState::new(weight, most);
        known.push((identity.clone(), server.downgrade()));
        server
    }

    /// Puts settings in force, and runs `apply` before others can be.
    pub(super) fn put_in_force<R>(&self, number: u64, apply: impl FnOnce() -> R) -> R {
        let mut in_force = lock(&self.in_force);
        *in_force = number;
        apply()
    }

    /// Runs `apply` if these settings are in force, before others are.
    pub(super) fn if_in_force<R>(&self, number: u64, apply: impl FnOnce() -> R) -> Option<R> {
        let in_force = lock(&self.in_force);
        (*in_force == number).then(apply)
    }

    /// From now on, no settings are in force: the upstream is gone. Ends the checks of all servers.
    pub(super) fn end(&self) {
        let mut in_force = lock(&self.in_force);
        *in_force = GONE;
        self.forget_checkers(|_| false);
    }

    /// Ends the checks of the servers that the settings in force do not have. The servers themselves do not
    /// change: requests that have begun before are in flight there.
    pub(super) fn forget_checkers(&self, is_member: impl Fn(&Identity) -> bool) {
        let known = lock(&self.known);
        let others = known.iter().filter(|(own, _)| !is_member(own));
        others.for_each(|(_, server)| server.forget_checker());
    }

    /// Returns `true` if others have taken the place of these settings, or the upstream is gone.
    pub(super) fn is_over(&self, number: u64) -> bool {
        *lock(&self.in_force) > number
    }
}

#[cfg(test)]
mod tests {
    //! A server is found again while it is used; one set of settings is in force.

    use super::*;
    use crate::balance::{Picker, Strategy};

    fn identity(port: u16, repeated: usize) -> Identity {
        Identity {
            at: Address::Tcp {
                host: "a.test".to_owned(),
                port,
            },
            address: None,
            repeated,
        }
    }

    #[test]
    fn a_server_is_the_same_while_it_is_used() {
        let roster = Roster::default();
        let one = roster.server(&identity(80, 0), 1, Some(2));
        let mut picker = Picker::new(Strategy::RoundRobin, 1);
        let held = picker.pick(std::slice::from_ref(&one), None);
        one.set_up(false);
        let same = roster.server(&identity(80, 0), 5, None);
        assert_eq!((same.in_flight(), same.is_up()), (1, false));
        same.set_up(true);
        assert_eq!((one.weight(), same.weight()), (1, 5));
        for other in [identity(81, 0), identity(80, 1)] {
            assert_eq!(roster.server(&other, 1, None).in_flight(), 0);
        }
        drop((one, same, held));
        let anew = roster.server(&identity(80, 0), 1, None);
        assert_eq!((anew.in_flight(), anew.calls()), (0, 0));
        assert_eq!(lock(&roster.known).len(), 1, "the others are forgotten");
    }

    #[test]
    fn the_last_settings_that_were_put_in_force_are_in_force() {
        let roster = Roster::default();
        let (one, two) = (roster.number(), roster.number());
        let applies = |number| roster.if_in_force(number, || ()).is_some();
        assert!(!applies(one) && !roster.is_over(one));
        roster.put_in_force(one, || ());
        assert!(applies(one) && !applies(two));
        assert!(!roster.is_over(one) && !roster.is_over(two));
        roster.put_in_force(two, || ());
        assert!(!applies(one) && applies(two));
        assert!(roster.is_over(one) && !roster.is_over(two));
        roster.end();
        assert!(!applies(one) && !applies(two) && roster.is_over(two));
    }

    #[test]
    fn a_server_that_is_no_member_any_more_is_not_checked() {
        let roster = Roster::default();
        let one = roster.server(&identity(80, 0), 1, None);
        let two = roster.server(&identity(81, 0), 1, None);
        one.set_checker(1);
        two.set_checker(2);
        assert!(two.set_up_by(2, false));
        roster.forget_checkers(|own| *own == identity(80, 0));
        assert!(one.is_checked_by(1) && !two.is_checked_by(2));
        assert!(!two.is_up(), "requests that have begun do not choose it");
        roster.end();
        assert!(!one.is_checked_by(1));
    }
}
