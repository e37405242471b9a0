//! The state that the listeners of one server share: its connections, whether it accepts, and its
//! end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::internal::lock;
use tidegate_core::internal::trace::{self, EventLimit};
use tidegate_promise::{Promise, SharedCompletion, promise_with_error};

use super::listening::{Listener, Listening};
use crate::channel::{LimitReached, ServerConnections, ServerLimits};

/// The state that the listeners of one server share.
pub(super) struct ServerShared {
    origin: Arc<ServerConnections>,
    /// Where the server listens, for metrics and reports.
    place: String,
    /// For the events of refused connections.
    refusals: EventLimit,
    /// `true` while the user has paused accepting.
    paused: AtomicBool,
    /// The number of listeners that accept or will accept.
    open: AtomicUsize,
    end: Mutex<Option<Promise<()>>>,
    closed: SharedCompletion<()>,
    released: Mutex<Released>,
}

/// Sockets on their way back to the user.
#[derive(Default)]
struct Released {
    /// The sockets, with their positions in the order in which they were passed in.
    listeners: Vec<(usize, Listening)>,
    /// The promises of the callers that want the listeners. The first one gets all.
    waiting: Vec<Promise<Vec<Listener>>>,
}

impl ServerShared {
    pub(super) fn new(listening: &[Listening], limits: ServerLimits) -> Arc<Self> {
        let listeners = listening.len();
        // The address that `Server::local_addr` returns, or else the path of a Unix socket.
        let named = listening.iter().find(|one| one.local_addr().is_some());
        let named = named.or(listening.first());
        let (promise, completion) = promise_with_error();
        promise.set_uncancellable();
        let Ok(closed) = completion.share() else {
            unreachable!("a new completion was not taken");
        };
        Arc::new(Self {
            origin: ServerConnections::new(listeners, limits),
            place: named.map(Listening::place).unwrap_or_default(),
            refusals: EventLimit::new(),
            paused: AtomicBool::new(false),
            open: AtomicUsize::new(listeners),
            end: Mutex::new(Some(promise)),
            closed,
            released: Mutex::default(),
        })
    }

    pub(super) fn origin(&self) -> &Arc<ServerConnections> {
        &self.origin
    }

    /// Returns where the server listens: an address or a path.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Reports a connection that a limit refused to a subscriber, at most once per second.
    #[cold]
    pub(super) fn trace_refusal(&self, limit: LimitReached, now: u64) {
        let reason: &str = match limit {
            LimitReached::Connections => "too many connections (`max_connections`)",
            LimitReached::PerPeer => {
                "too many connections of one address (`max_connections_per_peer`)"
            }
            LimitReached::EventLoop => "the event loop takes no more work (`bound`)",
        };
        trace::refused(&self.refusals, now, "server", &self.place, &reason);
    }

    pub(super) fn closed(&self) -> SharedCompletion<()> {
        self.closed.clone()
    }

    /// Returns `true` while the user has paused accepting.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn set_paused(&self, yes: bool) {
        self.paused.store(yes, Ordering::Relaxed);
    }

    /// Keeps the socket of a listener that is about to leave, for the user.
    pub(super) fn keep(&self, at: usize, listener: Listening) {
        let mut released = lock(&self.released);
        let place = released
            .listeners
            .partition_point(|(other, _)| *other <= at);
        released.listeners.insert(place, (at, listener));
    }

    /// Completes `promise` with the kept sockets when the last listener has left.
    pub(super) fn wait_for_listeners(&self, promise: Promise<Vec<Listener>>) {
        let mut released = lock(&self.released);
        released.waiting.push(promise);
        drop(released);
        self.hand_out_if_over();
    }

    /// Counts a listener out. The port is free when the last listener has ended.
    pub(super) fn leave(&self) {
        self.origin.listener_left();
        // ORDERING: AcqRel, so that the last listener's call comes after what the others did before
        // theirs.
        if self.open.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut end = lock(&self.end);
        let promise = end.take();
        drop(end);
        if let Some(promise) = promise {
            let _ = promise.succeed(());
        }
        self.hand_out_if_over();
    }

    fn hand_out_if_over(&self) {
        let mut released = lock(&self.released);
        // ORDERING: Acquire pairs with the AcqRel in `leave`. The last listener comes here after
        // its count, and a promise before this load: the lock orders the two, so one of them finds
        // the other.
        if released.waiting.is_empty() || self.open.load(Ordering::Acquire) != 0 {
            return;
        }
        let Released { listeners, waiting } = std::mem::take(&mut *released);
        drop(released);
        let listeners = listeners.into_iter().map(|(_, one)| one.into_listener());
        let mut listeners = Some(listeners.collect());
        for promise in waiting {
            let _ = promise.succeed(listeners.take().unwrap_or_default());
        }
    }
}
