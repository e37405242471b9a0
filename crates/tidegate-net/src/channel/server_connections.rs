//! State that the connections of one server share: their number and its limits, and whether the
//! server is draining.
//!
//! # Invariants
//!
//! * A connection is counted from its reservation until its end, once.
//! * `live` never exceeds the limit in total, and no count in `peers` the limit per address: a
//!   connection is admitted by the same operation that counts it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;
use tidegate_promise::{Completion, Promise, promise};

use super::server_memory::ServerMemory;

/// Limits for the connections of one server. `None` means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerLimits {
    /// The maximum number of open connections.
    pub(crate) connections: Option<usize>,
    /// The maximum number of open connections of one peer address.
    pub(crate) per_peer: Option<usize>,
    /// The maximum number of bytes that all connections hold.
    pub(crate) memory: Option<usize>,
}

/// The limit that refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Connections,
    PerPeer,
    /// Its event loop took no more work: its queue was full, or it has ended.
    EventLoop,
}

/// State that the connections of one server share.
#[derive(Default)]
pub(crate) struct ServerConnections {
    limits: ServerLimits,
    /// What the connections hold, if there is a cap.
    memory: Option<Arc<ServerMemory>>,
    live: AtomicUsize,
    /// Connections that no limit of the server has refused.
    reserved: AtomicU64,
    /// Those of them that have reached their event loops.
    accepted: AtomicU64,
    /// Open connections by peer address. Used only if their number is limited.
    peers: Mutex<HashMap<IpAddr, usize>>,
    /// Connections that were refused because of the limit in total.
    refused_in_total: AtomicU64,
    /// Connections that were refused because of the limit per address.
    refused_per_peer: AtomicU64,
    /// Connections that their event loops have refused.
    refused_by_loop: AtomicU64,
    /// Listeners that may still accept.
    listeners: AtomicUsize,
    /// A drain was announced.
    announced: AtomicBool,
    draining: AtomicBool,
    /// The deadline of a drain has passed.
    over: AtomicBool,
    /// Promises of the drains. Completed when the last connection is gone and no listener accepts
    /// another.
    empty: Mutex<Vec<Promise<()>>>,
}

impl ServerConnections {
    /// Creates the state for a server with this many listeners.
    pub(crate) fn new(listeners: usize, limits: ServerLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            memory: limits.memory.map(ServerMemory::new),
            listeners: AtomicUsize::new(listeners),
            ..Self::default()
        })
    }

    /// Returns `true` if the deadline of a drain has passed and connections are cut.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records that a listener accepts no more.
    pub(crate) fn listener_left(&self) {
        // ORDERING: AcqRel, as in `left`.
        if self.listeners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify_if_empty();
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns what the connections hold, if there is a cap.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Arc<ServerMemory>> {
        self.memory.as_ref()
    }

    /// Returns how many connections each limit has refused.
    pub(crate) fn refused(&self, limit: LimitReached) -> u64 {
        match limit {
            LimitReached::Connections => self.refused_in_total.load(Ordering::Relaxed),
            LimitReached::PerPeer => self.refused_per_peer.load(Ordering::Relaxed),
            LimitReached::EventLoop => self.refused_by_loop.load(Ordering::Relaxed),
        }
    }

    /// Returns how many connections were admitted, including those on their way to their event loops.
    pub(crate) fn admitted(&self) -> u64 {
        let refused = self.refused(LimitReached::EventLoop);
        self.reserved
            .load(Ordering::Relaxed)
            .saturating_sub(refused)
    }

    /// Counts a connection that has reached its event loop.
    pub(crate) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that its event loop has refused.
    pub(crate) fn count_refused_by_loop(&self) {
        self.refused_by_loop.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection of `peer`, unless a limit is reached.
    ///
    /// # Errors
    ///
    /// The limit that refuses the connection. The refusal is counted.
    pub(crate) fn reserve(&self, peer: Option<SocketAddr>) -> Result<(), LimitReached> {
        let Some((most, peer)) = self.limits.per_peer.zip(peer) else {
            return self.reserve_in_total();
        };
        // Both limits are checked under the lock, so that a connection which one of them refuses
        // never uses up the other.
        let mut peers = self.peers();
        let address = peer.ip().to_canonical();
        let open = peers.get(&address).copied().unwrap_or(0);
        if open >= most {
            drop(peers);
            self.refused_per_peer.fetch_add(1, Ordering::Relaxed);
            return Err(LimitReached::PerPeer);
        }
        self.reserve_in_total()?;
        peers.insert(address, open + 1);
        Ok(())
    }

    fn reserve_in_total(&self) -> Result<(), LimitReached> {
        let most = self.limits.connections.unwrap_or(usize::MAX);
        let one_more = |live| (live < most).then_some(live + 1);
        let reserved = self
            .live
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        if reserved.is_err() {
            self.refused_in_total.fetch_add(1, Ordering::Relaxed);
            return Err(LimitReached::Connections);
        }
        self.reserved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a reservation: the connection of `peer` is closed.
    pub(crate) fn connection_closed(&self, peer: Option<SocketAddr>) {
        if let Some(peer) = peer.filter(|_| self.limits.per_peer.is_some()) {
            let mut peers = self.peers();
            let address = peer.ip().to_canonical();
            match peers.get_mut(&address) {
                Some(open) if *open > 1 => *open -= 1,
                _ => drop(peers.remove(&address)),
            }
        }
        // ORDERING: AcqRel, so that of the last connection to leave and the thread that waits for
        // it, at least one sees the other: both go through the lock below as well.
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify_if_empty();
        }
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.peers)
    }

    fn notify_if_empty(&self) {
        let mut empty = lock(&self.empty);
        // ORDERING: Acquire pairs with the AcqRel in `left` and `listener_left`. Each of them comes
        // here after its count has reached 0, and the lock orders the two: the second one sees both
        // counts at 0.
        let listeners = self.listeners.load(Ordering::Acquire);
        let waiting = match self.live.load(Ordering::Acquire) + listeners {
            0 => std::mem::take(&mut *empty),
            _ => Vec::new(),
        };
        drop(empty);
        for promise in waiting {
            let _ = promise.succeed(());
        }
    }

    /// Returns a completion that succeeds when no connection is left and none can come.
    pub(crate) fn on_empty(&self) -> Completion<()> {
        let (promise, done) = promise();
        lock(&self.empty).push(promise);
        self.notify_if_empty();
        done
    }

    /// Records that a drain was announced. Returns `true` if it was known before.
    pub(crate) fn announce(&self) -> bool {
        self.announced.swap(true, Ordering::Relaxed) || self.is_draining()
    }

    /// Returns `true` if a drain was announced or has begun.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed) || self.is_draining()
    }

    /// Returns `true` if a drain has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Records that the deadline of a drain has passed.
    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Reservations against each other.

    use std::thread;

    use super::*;

    fn limited(connections: Option<usize>, per_peer: Option<usize>) -> Arc<ServerConnections> {
        let limits = ServerLimits {
            connections,
            per_peer,
            memory: None,
        };
        ServerConnections::new(1, limits)
    }

    fn peer(last: u8) -> Option<SocketAddr> {
        Some(([10, 0, 0, last], 1).into())
    }

    #[test]
    fn many_threads_never_exceed_a_limit_and_use_all_of_it() {
        let server = limited(Some(60), Some(20));
        let admitted: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|own| {
                    let server = &server;
                    scope.spawn(move || {
                        let tries = (0..100).map(|_| server.reserve(peer(own)));
                        tries.filter(Result::is_ok).count()
                    })
                })
                .collect();
            threads.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!((admitted, server.live()), (60, 60));
        let refused = [LimitReached::Connections, LimitReached::PerPeer];
        let refused: u64 = refused.iter().map(|limit| server.refused(*limit)).sum();
        assert_eq!(refused, 340);
        assert_eq!((server.admitted(), server.accepted()), (60, 0));
    }

    #[test]
    fn a_connection_refused_in_total_does_not_count_for_its_address() {
        let server = limited(Some(1), Some(1));
        assert_eq!(server.reserve(peer(1)), Ok(()));
        assert_eq!(server.reserve(peer(2)), Err(LimitReached::Connections));
        assert_eq!(server.reserve(peer(1)), Err(LimitReached::PerPeer));
        server.connection_closed(peer(1));
        assert_eq!(server.reserve(peer(2)), Ok(()));
        server.connection_closed(peer(2));
        assert!(server.peers().is_empty(), "no address is kept");
    }

    #[test]
    fn an_address_counts_once_in_both_notations() {
        let server = limited(None, Some(1));
        let mapped = Some("[::ffff:10.0.0.1]:1".parse().unwrap());
        assert_eq!(server.reserve(peer(1)), Ok(()));
        assert_eq!(server.reserve(mapped), Err(LimitReached::PerPeer));
        assert_eq!(server.reserve(None), Ok(()), "a Unix socket has no address");
    }
}
