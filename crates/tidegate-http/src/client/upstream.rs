//! A server for exchanges: how a handler gets a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ClientError;
use super::exchange::Exchange;
use super::exchange_handler::ExchangeHandler;
use super::host::Host;
use super::search::{Found, Search};
use super::slot::Owner;

/// A server to which handlers send requests, as [`Exchange`]s. Made by
/// [`Client::upstream`](super::Client::upstream). Clones use the same connections.
///
/// `H` is the handler of the responses. A connection keeps it in place, without a box, so an
/// upstream has connections of its own.
///
/// ```
/// use bytes::Bytes;
/// use std::sync::mpsc::{Sender, channel};
/// use tidegate_http::client::{Client, ClientError, ExchangeHandler, Flow, Upstream};
/// use tidegate_http::codec::{BodyFraming, ResponseHead};
/// use tidegate_net::HandlerContext;
///
/// struct Status(Sender<u16>, u16);
/// impl ExchangeHandler for Status {
///     fn head(&mut self, head: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {
///         self.1 = head.status();
///     }
///     fn data(&mut self, _: Bytes, _: &mut HandlerContext<'_>) -> Flow {
///         Flow::More
///     }
///     fn end(self, _: &mut HandlerContext<'_>) {
///         let _ = self.0.send(self.1);
///     }
///     fn fail(self, why: ClientError, _: &mut HandlerContext<'_>) {
///         println!("{why}");
///     }
/// }
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let client = Client::builder(&group).build();
/// let upstream: Upstream<Status> = client.upstream("http://127.0.0.1:1")?;
/// let (send, connections) = channel();
/// // In a handler: `try_acquire` first, then this.
/// let pending = upstream.acquire(move |acquired| drop(send.send(acquired.is_ok())));
/// assert!(!connections.recv()?, "nothing listens there");
/// # drop(pending);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Upstream<H: ExchangeHandler> {
    shared: Arc<Shared<H>>,
}

/// What the clones of an upstream share.
struct Shared<H: ExchangeHandler> {
    host: Arc<Host<H>>,
    owner: Arc<Owner<H>>,
    /// How many searches had no loop of their own.
    elsewhere: AtomicU64,
}

impl<H: ExchangeHandler> Shared<H> {
    /// Returns the number of a loop for a search from elsewhere.
    fn any_loop(&self) -> usize {
        let turn = self.elsewhere.fetch_add(1, Ordering::Relaxed);
        self.host.any_loop(turn)
    }
}

impl<H: ExchangeHandler> Drop for Shared<H> {
    fn drop(&mut self) {
        self.host.close_free();
    }
}

impl<H: ExchangeHandler> Upstream<H> {
    pub(super) fn new(host: Arc<Host<H>>, label: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                owner: host.owner(label),
                host,
                elsewhere: AtomicU64::new(0),
            }),
        }
    }

    /// Takes an idle connection of the current event loop, if there is one. Allocates nothing.
    pub fn try_acquire(&self) -> Option<Exchange<H>> {
        let Shared { host, owner, .. } = &*self.shared;
        let free = host.pool.try_free(Some(host.current_loop()?))?;
        Some(Exchange::new(owner, Found::Reused(free), false))
    }

    /// Takes a connection: an idle one of this event loop, a new one, or, if the limit is reached, an
    /// idle one of another event loop or the next one that becomes free. `then` is called once, on the
    /// current event loop or else on one of the client's group, and never before this method returns.
    ///
    /// Dropping the result leaves: `then` is dropped and not called.
    pub fn acquire(
        &self,
        then: impl FnOnce(Result<Exchange<H>, ClientError>) + Send + 'static,
    ) -> PendingExchange {
        self.search(false, then)
    }

    /// Does what [`acquire`](Upstream::acquire) does, but prefers a new connection to an idle one:
    /// the server has just closed one that was idle, and the others may be as old. If the limit is
    /// reached, an idle one is taken.
    pub fn acquire_new(
        &self,
        then: impl FnOnce(Result<Exchange<H>, ClientError>) + Send + 'static,
    ) -> PendingExchange {
        self.search(true, then)
    }

    fn search(
        &self,
        fresh: bool,
        then: impl FnOnce(Result<Exchange<H>, ClientError>) + Send + 'static,
    ) -> PendingExchange {
        let shared = Arc::clone(&self.shared);
        let current = shared.host.current_loop();
        let at = current.unwrap_or_else(|| shared.any_loop());
        let host = Arc::clone(&shared.host);
        let search = Search::new(host, at, current.is_some(), move |found| {
            let owner = &shared.owner;
            let result = match found {
                Ok(found) => Ok(Exchange::new(owner, found, current.is_none())),
                Err((kind, phase)) => Err(ClientError::new(&owner.label, kind, phase, false, true)),
            };
            // A loop that has ended drops it.
            drop(shared.host.home(at).execute(move || then(result)));
        });
        search.start(fresh);
        PendingExchange { search }
    }
}

impl<H: ExchangeHandler> Clone for Upstream<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

tidegate_core::debug_fields!([H: ExchangeHandler] Upstream<H>, this => label: this.shared.owner.label);

/// A request for a connection that is outstanding. From [`Upstream::acquire`]. Dropping it leaves:
/// a place in the queue is free at once, and a connect is cancelled.
#[must_use = "dropping it leaves the queue"]
pub struct PendingExchange {
    search: Arc<dyn Leave>,
}

impl Drop for PendingExchange {
    fn drop(&mut self) {
        self.search.leave();
    }
}

tidegate_core::debug_fields!(PendingExchange);

trait Leave: Send + Sync {
    fn leave(&self);
}

impl<H: ExchangeHandler> Leave for Search<H> {
    fn leave(&self) {
        Search::leave(self);
    }
}
