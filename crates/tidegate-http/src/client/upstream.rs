//! A server for exchanges: how a handler gets a connection.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_net::Channel;
use tidegate_promise::{Completion, Outcome};

use super::error::{ClientError, Kind, Phase};
use super::exchange::Exchange;
use super::exchange_handler::ExchangeHandler;
use super::host::Host;
use super::pool::{Acquired, Grant, Idle, Lease, Ticket};
use super::relocation::{MOVE_TIME, Moved};
use super::slot::{Link, Owner};

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

    fn error(&self, kind: Kind, phase: Phase) -> ClientError {
        ClientError::new(&self.owner.label, kind, phase, false, true)
    }
}

impl<H: ExchangeHandler> Drop for Shared<H> {
    fn drop(&mut self) {
        self.host.close_idle();
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
        let idle = host.pool.try_idle(host.current_loop()?)?;
        Some(Exchange::reused(owner, idle))
    }

    /// Takes a connection: an idle one, a new one, or, if the limit is reached, the next one that
    /// becomes free. `then` is called once, on the current event loop or else on one of the client's
    /// group, and never before this method returns.
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
        let host = &self.shared.host;
        let at = host.current_loop();
        let search = Arc::new(Search {
            at: at.unwrap_or_else(|| self.shared.any_loop()),
            is_current: at.is_some(),
            shared: Arc::clone(&self.shared),
            state: Mutex::new(State {
                then: Some(Box::new(then)),
                ticket: None,
                connecting: None,
                timer: None,
                moving: false,
            }),
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

impl<H: ExchangeHandler> fmt::Debug for Upstream<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream")
            .field(&self.shared.owner.label)
            .finish()
    }
}

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

impl fmt::Debug for PendingExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingExchange").finish_non_exhaustive()
    }
}

trait Leave: Send + Sync {
    fn leave(&self);
}

type Then<H> = Box<dyn FnOnce(Result<Exchange<H>, ClientError>) + Send>;

/// The search for a connection.
struct Search<H: ExchangeHandler> {
    shared: Arc<Shared<H>>,
    /// The number of the loop on which `then` runs.
    at: usize,
    /// It began on that loop, so a connection of that loop is better than another one.
    is_current: bool,
    state: Mutex<State<H>>,
}

struct State<H: ExchangeHandler> {
    /// `None` once the search has ended.
    then: Option<Then<H>>,
    ticket: Option<Ticket>,
    connecting: Option<Completion<Channel>>,
    timer: Option<Completion<()>>,
    /// An idle connection comes from another loop.
    moving: bool,
}

impl<H: ExchangeHandler> Search<H> {
    fn start(self: &Arc<Self>, fresh: bool) {
        let host = &self.shared.host;
        let search = Arc::clone(self);
        let acquired = host
            .pool
            .acquire(self.at, fresh, move |grant| search.granted(grant));
        match acquired {
            Acquired::Now(Grant::Reused(idle)) if self.takes(&idle) => self.fetch(idle),
            Acquired::Now(grant) => self.granted(grant),
            Acquired::Full => {
                let why = self
                    .shared
                    .error(Kind::PoolFull(host.max_waiting), Phase::Wait);
                self.finish(Err(why));
            }
            Acquired::Later(ticket) => self.wait(ticket),
        }
    }

    fn wait(self: &Arc<Self>, ticket: Ticket) {
        let host = &self.shared.host;
        let (after, search) = (host.wait_timeout, Arc::downgrade(self));
        let timer = host.schedule(self.at, after, move || {
            let Some(search) = search.upgrade() else {
                return;
            };
            // It has no ticket if the pool has granted something.
            let ticket = search.lock().ticket.take();
            if ticket.is_some_and(|ticket| search.shared.host.pool.leave(ticket)) {
                let why = search.shared.error(Kind::WaitTimeout(after), Phase::Wait);
                search.finish(Err(why));
            }
        });
        let mut state = self.lock();
        // The connection may have come already.
        if state.then.is_some() && state.connecting.is_none() {
            (state.ticket, state.timer) = (Some(ticket), timer);
        } else if let Some(timer) = timer {
            drop(state);
            timer.cancel();
        }
    }

    /// Returns `true` if the connection should move to the loop of the search. A search that had to
    /// wait uses the connection where it is: then others wait, too, and it would move all the time.
    fn takes(&self, idle: &Idle<Link<H>>) -> bool {
        self.is_current && idle.at() != self.at && self.shared.host.pool.moves()
    }

    /// Gets an idle connection of another loop.
    fn fetch(self: &Arc<Self>, idle: Idle<Link<H>>) {
        self.lock().moving = true;
        let search = Arc::clone(self);
        let moved = move |moved| {
            let is_late = !search.stop_moving();
            match moved {
                Moved::Here(idle) if is_late => search.shared.host.pool.give_back(idle),
                Moved::Here(idle) => search.granted(Grant::Reused(idle)),
                Moved::Instead(lease) if is_late => drop(lease),
                Moved::Instead(lease) => search.granted(Grant::New(lease)),
                Moved::Ended if is_late => {}
                Moved::Ended => search.start(true),
            }
        };
        self.shared.host.relocate(idle, self.at, moved);
        let weak = Arc::downgrade(self);
        let timer = self.shared.host.schedule(self.at, MOVE_TIME, move || {
            if let Some(search) = weak.upgrade()
                && search.stop_moving()
            {
                search.start(true);
            }
        });
        // It is short, and has no effect once the connection has come.
        drop(timer);
    }

    /// Returns `true` if the search waits for a connection that moves, and ends that wait.
    fn stop_moving(&self) -> bool {
        let mut state = self.lock();
        std::mem::take(&mut state.moving) && state.then.is_some()
    }

    /// Uses what the pool has granted.
    fn granted(self: &Arc<Self>, grant: Grant<Link<H>>) {
        let wanted = {
            let mut state = self.lock();
            state.ticket = None;
            state.then.is_some()
        };
        match grant {
            // If it is not wanted, dropping the exchange returns the connection.
            Grant::Reused(idle) => self.finish(Ok(Exchange::reused(&self.shared.owner, idle))),
            Grant::New(lease) if wanted => self.connect(lease),
            Grant::New(lease) => drop(lease),
        }
    }

    fn connect(self: &Arc<Self>, lease: Lease<Link<H>>) {
        let (connecting, lease) = self.shared.host.connect(self.at, lease).split();
        let search = Arc::clone(self);
        let listener = connecting.on_complete(move |outcome| match outcome {
            Outcome::Success(channel) => match lease() {
                Some(lease) => search.connected(channel, lease),
                // The connection has ended already.
                None => search.fail(Kind::Closed(None)),
            },
            Outcome::Failure(why) => {
                // The sockets are closed.
                drop(lease());
                search.fail(Kind::Connect(why.clone()));
            }
            // The lease ends with the sockets.
            Outcome::Cancelled => {}
        });
        drop(listener);
        let mut state = self.lock();
        if state.then.is_some() {
            state.connecting = Some(connecting);
        } else {
            drop(state);
            connecting.cancel();
        }
    }

    fn connected(&self, channel: &Channel, lease: Lease<Link<H>>) {
        match Link::of(channel) {
            // If it is not wanted, dropping the exchange closes the connection.
            Some(link) => self.finish(Ok(Exchange::fresh(&self.shared.owner, link, lease))),
            // The handler of every connection stores its slot when it is added.
            None => channel.close().on_complete(move |_| drop(lease)),
        }
    }

    /// Ends the search, because there is no connection.
    fn fail(&self, why: Kind) {
        let why = self.shared.error(why, Phase::Connect);
        self.finish(Err(why));
    }

    /// Ends the search. Drops the result if it has ended before.
    fn finish(&self, result: Result<Exchange<H>, ClientError>) {
        let mut state = self.lock();
        let (then, timer) = (state.then.take(), state.timer.take());
        drop(state);
        if let Some(timer) = timer {
            timer.cancel();
        }
        if let Some(then) = then {
            self.shared.host.execute(self.at, move || then(result));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<H>> {
        // No user code runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: ExchangeHandler> Leave for Search<H> {
    fn leave(&self) {
        let mut state = self.lock();
        let (then, ticket) = (state.then.take(), state.ticket.take());
        let (connecting, timer) = (state.connecting.take(), state.timer.take());
        drop(state);
        if let Some(ticket) = ticket {
            self.shared.host.pool.leave(ticket);
        }
        if let Some(timer) = timer {
            timer.cancel();
        }
        // A search that has ended leaves its connection alone.
        if let Some(connecting) = connecting.filter(|_| then.is_some()) {
            connecting.cancel();
        }
        drop(then);
    }
}
