//! The search for a connection: a free one of the loop, a new one, one that moves from another loop, or
//! the next one that becomes free.

use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;
use tidegate_net::Channel;
use tidegate_promise::{Completion, Outcome};

use super::error::{Kind, Phase};
use super::exchange_handler::ExchangeHandler;
use super::host::Host;
use super::pool::{Acquired, Free, Grant, Lease, Ticket};
use super::relocation::{MOVE_TIME, Moved};
use super::slot::Link;

/// A connection that was found.
pub(super) enum Found<R: ExchangeHandler> {
    /// It was used before.
    Reused(Free<Link<R>>),
    New(Link<R>, Lease<Link<R>>),
}

impl<R: ExchangeHandler> Found<R> {
    /// Returns a connection that is not used.
    pub(super) fn put_back(self, host: &Host<R>) {
        match self {
            Self::Reused(free) => host.pool.give_back(free),
            Self::New(link, lease) => link.close_with(lease),
        }
    }
}

/// What gets the result: a connection, or why there is none and what was tried last. Called once, on
/// any thread, unless the search has left before.
type Then<R> = Box<dyn FnOnce(Result<Found<R>, (Kind, Phase)>) + Send>;

/// The search for a connection.
pub(super) struct Search<R: ExchangeHandler> {
    host: Arc<Host<R>>,
    /// The number of the loop that should have the connection.
    at: usize,
    /// The search began on that loop, so a connection of that loop is better than another one.
    is_current: bool,
    state: Mutex<State<R>>,
}

struct State<R: ExchangeHandler> {
    /// `None` once the search has ended.
    then: Option<Then<R>>,
    ticket: Option<Ticket>,
    connecting: Option<Completion<Channel>>,
    timer: Option<Completion<()>>,
    /// A free connection comes from another loop.
    moving: bool,
}

impl<R: ExchangeHandler> Search<R> {
    /// Creates a search, which begins with [`start`](Self::start).
    pub(super) fn new(
        host: Arc<Host<R>>,
        at: usize,
        is_current: bool,
        then: impl FnOnce(Result<Found<R>, (Kind, Phase)>) + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            host,
            at,
            is_current,
            state: Mutex::new(State {
                then: Some(Box::new(then)),
                ticket: None,
                connecting: None,
                timer: None,
                moving: false,
            }),
        })
    }

    /// Looks for a connection. With `fresh`, a free one is the last choice.
    pub(super) fn start(self: &Arc<Self>, fresh: bool) {
        let host = &self.host;
        let search = Arc::clone(self);
        let at = self.is_current.then_some(self.at);
        let granted = move |grant| search.granted(grant);
        match host.pool.acquire(at, fresh, granted) {
            Acquired::Now(grant) => self.granted(grant),
            Acquired::Full => {
                self.finish(Err((Kind::PoolFull(host.max_waiting), Phase::Wait)));
            }
            Acquired::Later { ticket, asks } => {
                self.wait(ticket);
                if asks {
                    host.ask_loops();
                }
            }
        }
    }

    fn wait(self: &Arc<Self>, ticket: Ticket) {
        let host = &self.host;
        let (after, search) = (host.wait_timeout, Arc::downgrade(self));
        let timer = host.schedule(self.at, after, move || {
            let Some(search) = search.upgrade() else {
                return;
            };
            // It has no ticket if the pool has granted something.
            let ticket = search.lock().ticket.take();
            if ticket.is_some_and(|ticket| search.host.pool.leave(ticket)) {
                search.finish(Err((Kind::WaitTimeout(after), Phase::Wait)));
            }
        });
        let mut state = self.lock();
        // The connection may have come already.
        if state.then.is_some() && state.connecting.is_none() && !state.moving {
            (state.ticket, state.timer) = (Some(ticket), timer);
            return;
        }
        let has_ended = state.then.is_none();
        drop(state);
        if has_ended {
            host.pool.leave(ticket);
        }
        if let Some(timer) = timer {
            timer.cancel();
        }
    }

    /// Returns `true` if a connection that was free should move to the loop of the search. One that was
    /// just returned is used where it is: then others wait, too, and it would move all the time.
    fn takes(&self, free: &Free<Link<R>>) -> bool {
        self.is_current && free.place.at() != self.at && self.host.moves
    }

    /// Gets a free connection of another loop.
    fn fetch(self: &Arc<Self>, free: Free<Link<R>>) {
        self.lock().moving = true;
        let search = Arc::clone(self);
        let moved = move |moved| {
            let is_late = !search.stop_moving();
            match moved {
                Moved::Here(free) if is_late => search.host.pool.give_back(free),
                Moved::Here(free) => search.granted(Grant::Returned(free)),
                Moved::Instead(lease) if is_late => drop(lease),
                Moved::Instead(lease) => search.granted(Grant::New(lease)),
                Moved::Ended if is_late => {}
                Moved::Ended => search.start(true),
            }
        };
        self.host.relocate(free, self.at, moved);
        let weak = Arc::downgrade(self);
        let timer = self.host.schedule(self.at, MOVE_TIME, move || {
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
    fn granted(self: &Arc<Self>, grant: Grant<Link<R>>) {
        let wanted = {
            let mut state = self.lock();
            state.ticket = None;
            state.then.is_some()
        };
        match grant {
            Grant::Free(free) if wanted && self.takes(&free) => self.fetch(free),
            Grant::Free(free) | Grant::Returned(free) => self.finish(Ok(Found::Reused(free))),
            Grant::New(lease) if wanted => self.connect(lease),
            Grant::New(lease) => drop(lease),
        }
    }

    fn connect(self: &Arc<Self>, lease: Lease<Link<R>>) {
        let (connecting, lease) = self.host.connect(self.at, lease);
        let search = Arc::clone(self);
        let listener = connecting.on_complete(move |outcome| match outcome {
            Outcome::Success(channel) => match lease() {
                Some(lease) => search.connected(channel, lease),
                // The connection has ended already.
                None => search.finish(Err((Kind::Closed(None), Phase::Connect))),
            },
            Outcome::Failure(why) => {
                // The sockets are closed.
                drop(lease());
                search.finish(Err((Kind::Connect(why.clone()), Phase::Connect)));
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

    fn connected(&self, channel: &Channel, lease: Lease<Link<R>>) {
        match Link::of(channel) {
            Some(link) => self.finish(Ok(Found::New(link, lease))),
            // The handler of every connection stores its slot when it is added.
            None => channel.close().on_complete(move |_| drop(lease)),
        }
    }

    /// Ends the search. What was found too late is put back.
    fn finish(&self, result: Result<Found<R>, (Kind, Phase)>) {
        let mut state = self.lock();
        let (then, timer) = (state.then.take(), state.timer.take());
        drop(state);
        if let Some(timer) = timer {
            timer.cancel();
        }
        match (then, result) {
            (Some(then), result) => then(result),
            (None, Ok(found)) => found.put_back(&self.host),
            (None, Err(_)) => {}
        }
    }

    /// Returns what the search is doing.
    pub(super) fn phase(&self) -> Phase {
        let state = self.lock();
        match state.moving || state.connecting.is_some() {
            true => Phase::Connect,
            false => Phase::Wait,
        }
    }

    /// Ends the search without a result: a place in the queue is free at once, and a connect is
    /// cancelled.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        let (then, ticket) = (state.then.take(), state.ticket.take());
        let (connecting, timer) = (state.connecting.take(), state.timer.take());
        drop(state);
        if let Some(ticket) = ticket {
            self.host.pool.leave(ticket);
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

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // No user code runs under this lock.
        lock(&self.state)
    }
}
