//! One request that is passed on: the executor of its steps.
//!
//! What is to happen is decided by [`step`], which knows the request as plain data. The executor owns what
//! the actions need: the response to the client, the body, the connection to a server, timers. The entry
//! of the command and the place at the server belong to the [`Answer`], which the connection to the
//! server holds: they are returned after the last byte of the response, or when that connection is
//! closed.
//!
//! # Invariants
//!
//! * The state is borrowed for a step, and to choose a server or write to a connection, which call nothing
//!   back. Commands, their listeners, the drops of entries and everything that stops an attempt run
//!   while it is not.
//! * All steps run on one loop. What may happen on another thread comes here by [`Flight::later`].
//! * An action that makes a further event is the last one of its step.

use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::LocalKey;

use tidegate::http::client::{Exchange, PendingExchange};
use tidegate::http::codec::OwnedRequestHead;
use tidegate::http::{Body, DeferredResponse, ResponseStream};
use tidegate::isolate::{Attempts, PendingEntry};
use tidegate::loops::CoarseTimer;
use tidegate_core::internal::{HomeCell, Spares};

use super::answer::Answer;
use super::flights::{Flights, Watched};
use super::gate::Gate;
use super::handle::{Handle, KEPT, Recycled, Spare, WeakHandle};
use super::held::{Wanted, Watch};
use super::kept::Kept;
use super::live::{ProxyRoute, RouteBasis};
use super::logged::Original;
use super::reply::Shown;
use super::step::{Action, Actions, Event, Kind, Request, Terms, Upload, step};
use super::upstream::Chosen;
use crate::command::Reason;
use crate::fields::{Options, RequestId};

/// The attempts of a request whose route has retries.
pub(super) type Tries = Attempts<(), Infallible>;

thread_local! {
    static SPARE: Spare<FlightData> = const { Spares::new(KEPT) };
}

/// The handle of one request that is passed on.
pub(super) type Flight = Handle<FlightData>;

/// One request that is passed on.
pub(super) struct FlightData {
    /// The requests of its connection, which watch its time.
    flights: Arc<Flights<Self>>,
    pub(super) proxy: Arc<ProxyRoute>,
    /// The number of the loop.
    pub(super) home: usize,
    /// The head as it is sent to a server.
    pub(super) head: OwnedRequestHead,
    pub(super) request_id: RequestId,
    /// The address of the client.
    pub(super) client: Option<IpAddr>,
    /// The host and the path that the client sent, if the route changes them.
    pub(super) original: Option<Original>,
    /// The fields that belong to the connection of the client, if the body may have trailers.
    pub(super) options: Options,
    /// The tunnel that the client asks for.
    pub(super) tunnel: Option<Box<Wanted>>,
    state: HomeCell<RefCell<State>>,
}

/// What a request begins with.
pub(super) struct Start {
    pub(super) kind: Kind,
    pub(super) head: OwnedRequestHead,
    pub(super) request_id: RequestId,
    pub(super) client: Option<IpAddr>,
    pub(super) original: Option<Original>,
    pub(super) options: Options,
    pub(super) most_body: u64,
    pub(super) body: Option<Body>,
    pub(super) back: DeferredResponse,
    pub(super) tries: Option<Tries>,
    pub(super) tunnel: Option<Box<Wanted>>,
    pub(super) began: u64,
    /// When the time of the request is over, in nanoseconds.
    pub(super) until: u64,
}

/// The request as plain data, and what the executor owns for it.
pub(super) struct State {
    pub(super) request: Request,
    pub(super) holds: Holds,
}

/// What the executor owns for a request.
#[derive(Default)]
pub(super) struct Holds {
    pub(super) wait: Wait,
    pub(super) back: Back,
    /// The body of the request, until its end.
    pub(super) body: Option<Body>,
    /// All that was read of the body, as long as it can be sent again.
    pub(super) kept: Option<Box<Kept>>,
    pub(super) tries: Option<Tries>,
    /// The server of the last attempt.
    pub(super) server: Option<Chosen>,
    /// Tells the time of the client from that of the server, for the attempts that need it.
    pub(super) watch: Option<Arc<Watch>>,
    /// The limits of the fallback and of the attempt.
    pub(super) limit: Option<CoarseTimer>,
    pub(super) attempt_limit: Option<CoarseTimer>,
}

/// What has to be stopped if the client leaves or the time is over.
#[derive(Default)]
pub(super) enum Wait {
    #[default]
    Nothing,
    /// A place in the queue of the command.
    Entry(PendingEntry),
    /// The pause before the next attempt.
    Pause(CoarseTimer),
    /// A connection that is looked for.
    Search(PendingExchange),
    Exchange(Exchange<Answer>),
}

impl Wait {
    /// Stops it, because of the client if `abandons`: a request that still waits for its admission then
    /// says nothing about its server.
    pub(super) fn stop(self, abandons: bool) {
        match self {
            Self::Entry(pending) if abandons => pending.abandon(),
            Self::Entry(pending) => drop(pending),
            Self::Pause(timer) => drop(timer.cancel()),
            Self::Search(pending) => drop(pending),
            Self::Exchange(exchange) => exchange.cancel(),
            Self::Nothing => {}
        }
    }
}

/// The response to the client.
#[derive(Default)]
pub(super) enum Back {
    Owed(DeferredResponse),
    Streaming(ResponseStream),
    /// All of it was sent, or is being sent.
    #[default]
    Sent,
}

impl Holds {
    /// Returns `true` if nothing has to be stopped but the connection to the server, which has sent its
    /// whole response.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.back, Back::Sent)
            && self.body.is_none()
            && self.tries.is_none()
            && self.limit.is_none()
            && self.attempt_limit.is_none()
    }

    /// Cancels the timers.
    pub(super) fn cancel_timers(&mut self) {
        let timers = [self.limit.take(), self.attempt_limit.take()];
        for timer in timers.into_iter().flatten() {
            timer.cancel();
        }
    }
}

impl Flight {
    /// Creates a request that asks for its admission. Its time begins with the request.
    // So that its parts are moved once.
    #[inline(always)]
    pub(super) fn begin(
        proxy: &Arc<ProxyRoute>,
        flights: &Arc<Flights<FlightData>>,
        start: Start,
    ) -> Self {
        let upload = match start.body {
            None => Upload::None,
            Some(_) if start.head.as_head().expects_continue() => Upload::Held,
            Some(_) => Upload::Flowing { blocked: false },
        };
        let terms = Terms {
            kind: start.kind,
            retries: start.tries.is_some(),
            // An upgrade would be a tunnel beside the limit of tunnels.
            fallback: proxy.fallback_route().is_some() && start.tunnel.is_none(),
            fallback_nanos: proxy.fallback_nanos,
            most_body: start.most_body,
        };
        Self::new(FlightData {
            flights: Arc::clone(flights),
            proxy: Arc::clone(proxy),
            home: flights.home(),
            head: start.head,
            request_id: start.request_id,
            client: start.client,
            original: start.original,
            options: start.options,
            tunnel: start.tunnel,
            state: HomeCell::here(RefCell::new(State {
                request: Request::new(terms, upload, start.began, start.until),
                holds: Holds {
                    wait: Wait::Nothing,
                    back: Back::Owed(start.back),
                    kept: start.body.is_some().then(Box::default),
                    body: start.body,
                    tries: start.tries,
                    server: None,
                    watch: None,
                    limit: None,
                    attempt_limit: None,
                },
            })),
        })
    }

    /// Takes a step, on the loop: carries out what is to be done. `of` is the attempt whose event it is,
    /// unless it is one of the request as a whole.
    pub(super) fn handle(&self, of: Option<u32>, event: Event) {
        let actions = step(&mut self.state().request, of, event, || self.now());
        self.act(actions);
    }

    /// Takes a step from any thread: now, if this is the loop's. The request of a loop that is ending
    /// ends with its connection.
    pub(super) fn later(self, of: Option<u32>, event: Event) {
        let gate = Arc::clone(self.gate());
        gate.on_loop(self.home, move || self.handle(of, event));
    }

    /// Carries out what is to be done, except for what only the caller can do: it holds what these actions
    /// need.
    pub(super) fn act(&self, actions: Actions) {
        self.act_one(actions.attempt, actions.first);
        self.act_one(actions.attempt, actions.then);
    }

    fn act_one(&self, attempt: u32, action: Action) {
        match action {
            Action::None => {}
            Action::Admit => self.admit(attempt),
            Action::Resend => self.resend(),
            Action::Pump => self.pump(),
            Action::Expect => self.expect_continue(attempt),
            Action::Limit(nanos) => self.limit_attempt(attempt, nanos),
            Action::Blame(side) => self.blame(side),
            Action::Retry(reason) => self.retry(attempt, reason),
            Action::Stop => self.stop_attempt(),
            Action::Free(pause) => self.free(attempt, pause),
            Action::Pause(pause) => self.pause(attempt, pause),
            Action::Turn(problem, left) => self.turn(attempt, problem, left),
            Action::Resume => self.resume(),
            Action::End(ending) => self.end(ending, None),
            // The caller has a connection, a part of a body or a head for them, or drops it.
            Action::Late | Action::Pick | Action::Search | Action::Replace | Action::Begin => {}
            Action::Write | Action::Inform | Action::Respond | Action::PassOn | Action::Switch => {}
        }
    }

    /// Borrows the state, on the loop.
    #[inline]
    pub(super) fn state(&self) -> RefMut<'_, State> {
        let state = self.state.get();
        state
            .expect("a request is reached on its loop only")
            .borrow_mut()
    }

    /// Stops the attempt that is over. The next one begins with nothing.
    fn stop_attempt(&self) {
        let mut state = self.state();
        let wait = std::mem::take(&mut state.holds.wait);
        drop(state);
        wait.stop(false);
    }

    /// Returns the id of the request, for its response.
    pub(super) fn shown(&self) -> Shown<'_> {
        (&self.gate().ids, &self.request_id)
    }

    /// Returns what a route has besides its action.
    pub(super) fn route(&self) -> &RouteBasis {
        &self.proxy.route
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.proxy.route.gate
    }

    pub(super) fn now(&self) -> u64 {
        self.gate().now(self.home)
    }
}

impl Recycled for FlightData {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn forget(&self, is_it: impl Fn(&WeakHandle<Self>) -> bool) -> bool {
        self.flights.forget(is_it)
    }

    /// More of the body was received.
    fn wake(flight: Flight) {
        let gate = Arc::clone(flight.gate());
        gate.on_loop(flight.home, move || flight.pump());
    }
}

impl Watched for FlightData {
    fn until(flight: &Flight) -> u64 {
        flight.state().request.until()
    }

    fn time_out(flight: &Flight) {
        let state = flight.state();
        let used = state.holds.watch.as_ref().map_or(0, |watch| watch.used());
        drop(state);
        flight.handle(None, Event::TimedOut { used });
    }

    fn abandon(flight: &Flight, why: Option<Reason>) {
        // The connection may have ended because of the body, before the request was told.
        let refused = flight.state().holds.body_refusal();
        flight.handle(None, refused.map_or(Event::Left(why), Event::BodyRefused));
    }
}
