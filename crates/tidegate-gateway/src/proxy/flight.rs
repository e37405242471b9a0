//! One request that is passed on, from its head to the last byte of its response.
//!
//! ```text
//!               a place is free         connection
//!   Admitting ──▶ Queued ──▶ Connecting ──▶ Exchanging ──▶ Ended
//!       ▲                        │              │
//!       └──── Pausing ◀──────────┴──────────────┘ failed, safe, within the budget
//! ```
//!
//! Each stage owns what has to be stopped if the client leaves or the time is over. The entry of the
//! command and the place at the server belong to the [`Answer`](super::answer::Answer), which the
//! connection to the server holds: they are returned after the last byte of the response, or when
//! that connection is closed.
//!
//! # Invariants
//!
//! * The client gets one response: what sends it takes `back` out of the state.
//! * Each step names its attempt. A late step of an earlier attempt changes nothing.
//! * All steps run on one loop, so no step waits for another. Commands, their listeners and the drops
//!   of entries run while the state is not borrowed.

use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::LocalKey;
use std::time::Duration;

use tidegate::http::client::{Exchange, PendingExchange, Upstream};
use tidegate::http::codec::OwnedRequestHead;
use tidegate::http::{Body, DeferredResponse, ResponseStream};
use tidegate::isolate::{Attempts, PendingEntry};
use tidegate::loops::CoarseTimer;
use tidegate_core::internal::{HomeCell, Spares};

use super::answer::Answer;
use super::flights::{Flights, Watched};
use super::gate::Gate;
use super::handle::{Handle, KEPT, Recycled, Spare, WeakHandle};
use super::held::{Side, Upload, Wanted};
use super::kept::Kept;
use super::live::{Fallback, ProxyRoute, RouteBasis};
use super::logged::{Done, End, Original, own_length};
use super::reply::{self, Reply as _, Shown};
use super::times::Times;
use super::upstream::Chosen;
use crate::access::Outcome;
use crate::command::{Problem, Reason};
use crate::fields::{Options, RequestId};

/// The attempts of a request whose route has retries.
pub(super) type Tries = Attempts<(), Infallible>;

/// The state of a request, borrowed for one step.
pub(super) type Locked<'a> = RefMut<'a, State>;

thread_local! {
    static SPARE: Spare<FlightData> = const { Spares::new(KEPT) };
}

/// The handle of one request that is passed on. Each step is a method of it.
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
    /// The largest body that the request may have.
    pub(super) most_body: u64,
    /// The tunnel that the client asks for.
    pub(super) tunnel: Option<Box<Wanted>>,
    state: HomeCell<RefCell<State>>,
}

/// What a request begins with.
pub(super) struct Start {
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

/// Where a request is.
pub(super) enum Stage {
    /// It asks its command for admission, or a server for a place.
    Admitting,
    /// It waits in the queue of its command.
    Queued(PendingEntry),
    /// It waits before the next attempt.
    Pausing(Option<CoarseTimer>),
    /// It waits for a connection.
    Connecting(PendingExchange),
    /// It is sent, and its response is received.
    Exchanging(Exchange<Answer>),
    /// The client has its response, or has left.
    Ended,
}

impl Stage {
    /// Stops what the stage waits for.
    pub(super) fn stop(self) {
        match self {
            Self::Pausing(Some(timer)) => drop(timer.cancel()),
            Self::Exchanging(exchange) => exchange.cancel(),
            Self::Queued(pending) => drop(pending),
            Self::Connecting(pending) => drop(pending),
            Self::Admitting | Self::Pausing(None) | Self::Ended => {}
        }
    }
}

/// The response to the client.
pub(super) enum Back {
    /// It has not begun.
    Waiting(DeferredResponse),
    /// Its head was sent.
    Streaming(ResponseStream),
    /// All of it was sent.
    Sent,
}

/// The state of a request.
pub(super) struct State {
    pub(super) stage: Stage,
    /// The number of the attempt in progress.
    pub(super) attempt: u32,
    /// The number of the last attempt whose connection was replaced, or zero.
    pub(super) replaced: u32,
    /// How many attempts had a server.
    pub(super) tried: u32,
    /// Some of the request was sent in an attempt that has ended.
    pub(super) was_sent: bool,
    /// `None` once the request has ended.
    pub(super) back: Option<Back>,
    /// The body of the request, until its end.
    pub(super) body: Option<Body>,
    /// All that was read of the body, as long as it can be sent again.
    pub(super) kept: Option<Box<Kept>>,
    /// How many bytes of the body were read.
    pub(super) body_bytes: u64,
    /// When the body was sent, or when the server last took no more of it; 0 before, and for a request
    /// without one.
    pub(super) body_sent: u64,
    /// Tells the time of the client from that of the server, for the attempts that need it.
    pub(super) upload: Option<Arc<Upload>>,
    /// How many bytes of the response's body were sent.
    pub(super) sent: u64,
    /// The status of the response; 0 if it has not begun.
    pub(super) status: u16,
    /// The server takes no more of the body for now.
    pub(super) blocked: bool,
    /// The client and the server have agreed that the body is sent.
    pub(super) continued: bool,
    pub(super) tries: Option<Tries>,
    /// The server of the last attempt.
    pub(super) server: Option<Chosen>,
    /// Why the last attempt has failed that was made before the one in progress.
    failed: Option<Reason>,
    /// Why the request goes to the upstream of the fallback, if it does.
    pub(super) fell_back: Option<Reason>,
    /// The upstream of the fallback has admitted no more requests.
    pub(super) fallback_refused: bool,
    /// When the time of the request is over, in nanoseconds.
    pub(super) until: u64,
    /// The limits of the fallback and of the attempt.
    pub(super) limit: Option<CoarseTimer>,
    pub(super) attempt_limit: Option<CoarseTimer>,
    pub(super) times: Times,
}

impl State {
    /// Returns `true` if the attempt is the one in progress.
    pub(super) fn is_at(&self, attempt: u32) -> bool {
        self.attempt == attempt && !matches!(self.stage, Stage::Ended)
    }

    /// Returns the connections to the server of the last attempt.
    pub(super) fn server_target(&self) -> Option<Upstream<Answer>> {
        let server = self.server.as_ref();
        server.map(|chosen| chosen.target().clone())
    }

    /// Returns `true` if the request can be sent again: no byte of its body was read, or what was read
    /// is kept.
    pub(super) fn can_repeat(&self) -> bool {
        self.body_bytes == 0 || self.kept.is_some()
    }

    /// Notes which side has used up the time of the attempt. Returns `true` if the client has still
    /// not sent its body, although the server would take it.
    pub(super) fn blame(&self, now: u64) -> bool {
        let side = self.late_side(now);
        if let Some(upload) = &self.upload {
            upload.set_late(side, now);
        }
        let waits = side == Side::Client && self.body.is_some() && self.continued;
        waits && self.is_unanswered()
    }

    /// Notes that the server has used up the time of the attempt.
    pub(super) fn blame_server(&self, now: u64) {
        if let Some(upload) = &self.upload {
            upload.set_late(Side::Server, now);
        }
    }

    /// Returns what an attempt has left of its time when its timer expires, if the client has used up
    /// the rest: the time does not run while the client sends the body, and begins anew with the last
    /// byte, or when the server takes no more.
    pub(super) fn attempt_left(&self, now: u64, limit: Duration) -> Option<Duration> {
        if self.waits_for_client() {
            return Some(limit);
        }
        let used = now.saturating_sub(self.body_sent);
        let left = limit.checked_sub(Duration::from_nanos(used))?;
        (!left.is_zero() && self.body_sent > self.times.admitted).then_some(left)
    }

    /// A server whose client has used more than half of the time is not to blame: otherwise clients that
    /// send their bodies slowly could open its breaker.
    fn late_side(&self, now: u64) -> Side {
        let is_sent = matches!(self.stage, Stage::Exchanging(_));
        let used = self.upload.as_ref().map_or(0, |upload| upload.used());
        let is_client = match self.body {
            _ if !is_sent => false,
            Some(_) => self.waits_for_client(),
            None => used > now.saturating_sub(self.times.connected) / 2,
        };
        if is_client {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Notes why an attempt has failed, before the next one.
    pub(super) fn note_failed(&mut self, reason: Reason) {
        if self.failed.is_none() || !reason.is_refusal() {
            self.failed = Some(reason);
        }
    }

    /// Returns the problem that the client gets. A request of which an attempt was made is not refused
    /// any more: what is refused is only the next attempt.
    fn problem_shown(&self, problem: Problem) -> Problem {
        let failed = self.failed.filter(|_| problem.reason.is_refusal());
        failed.map_or(problem, Problem::from)
    }

    /// Returns `true` if nothing of the response was sent.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.back, Some(Back::Waiting(_)))
    }

    /// Ends a request whose response was sent as a whole, and that has nothing else to stop. Returns
    /// its stage, to be dropped outside of the lock, and its last server. Returns `None` for others,
    /// which end by [`end`](Self::end).
    pub(super) fn end_sent(&mut self) -> Option<(Stage, Option<Chosen>)> {
        let is_plain = matches!(self.back, Some(Back::Sent))
            && self.body.is_none()
            && self.tries.is_none()
            && self.limit.is_none()
            && self.attempt_limit.is_none();
        is_plain.then(|| {
            self.back = None;
            let stage = std::mem::replace(&mut self.stage, Stage::Ended);
            (stage, self.server.take())
        })
    }

    /// Returns what the request has done up to now.
    pub(super) fn done(&self) -> Done {
        Done {
            attempts: self.tried,
            fell_back: self.fell_back,
            fallback: self.fallback_refused.then_some(Outcome::Refused),
            times: self.times,
            received: self.body_bytes,
            sent: self.sent,
            status: self.status,
            is_whole: matches!(self.back, Some(Back::Sent)),
        }
    }

    /// Ends the request. Returns what is left of it, to be dropped outside of the lock.
    pub(super) fn end(&mut self) -> Rest {
        let done = self.done();
        let is_running = !matches!(self.stage, Stage::Ended);
        let server = self.server.take();
        Rest {
            ended: is_running.then_some(Ended { done, server }),
            stage: std::mem::replace(&mut self.stage, Stage::Ended),
            back: self.back.take(),
            body: self.body.take(),
            tries: self.tries.take(),
            timers: [self.limit.take(), self.attempt_limit.take()],
        }
    }
}

/// What a request has done, and its last server.
pub(super) struct Ended {
    pub(super) done: Done,
    pub(super) server: Option<Chosen>,
}

/// What is left of a request that has ended.
#[must_use = "it has to be stopped"]
pub(super) struct Rest {
    /// What the request has done, unless it had ended before.
    pub(super) ended: Option<Ended>,
    stage: Stage,
    back: Option<Back>,
    body: Option<Body>,
    tries: Option<Tries>,
    timers: [Option<CoarseTimer>; 2],
}

impl Rest {
    /// Releases everything after the end of the response. The connection to the server stays.
    /// Returns the response.
    pub(super) fn let_go(&mut self) -> Option<Back> {
        for timer in self.timers.iter_mut().filter_map(Option::take) {
            timer.cancel();
        }
        self.stage = Stage::Ended;
        (self.body, self.tries) = (None, None);
        self.back.take()
    }

    /// Stops everything because of the client. A request that still waits for its admission says
    /// nothing about its server.
    pub(super) fn abandon(mut self) -> Option<DeferredResponse> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Queued(pending) => pending.abandon(),
            other => self.stage = other,
        }
        self.stop()
    }

    /// Stops everything. Returns the response if it has not begun; one that has begun is cut.
    pub(super) fn stop(self) -> Option<DeferredResponse> {
        for timer in self.timers.into_iter().flatten() {
            timer.cancel();
        }
        self.stage.stop();
        drop((self.body, self.tries));
        match self.back {
            Some(Back::Waiting(back)) => Some(back),
            // Dropping a stream before its end closes the connection: the client does not take the
            // part for the whole.
            Some(Back::Streaming(_) | Back::Sent) | None => None,
        }
    }
}

impl Flight {
    /// Creates a request at the stage `Admitting`. Its time begins with the request.
    // So that its parts are moved once.
    #[inline(always)]
    pub(super) fn begin(
        proxy: &Arc<ProxyRoute>,
        flights: &Arc<Flights<FlightData>>,
        start: Start,
    ) -> Self {
        let continued = !start.head.as_head().expects_continue();
        let kept = start.body.is_some().then(Box::default);
        Self::new(FlightData {
            flights: Arc::clone(flights),
            proxy: Arc::clone(proxy),
            home: flights.home(),
            head: start.head,
            request_id: start.request_id,
            client: start.client,
            original: start.original,
            options: start.options,
            most_body: start.most_body,
            tunnel: start.tunnel,
            state: HomeCell::here(RefCell::new(State {
                stage: Stage::Admitting,
                attempt: 1,
                replaced: 0,
                tried: 0,
                was_sent: false,
                back: Some(Back::Waiting(start.back)),
                body: start.body,
                kept,
                body_bytes: 0,
                body_sent: 0,
                upload: None,
                sent: 0,
                status: 0,
                blocked: false,
                continued,
                tries: start.tries,
                server: None,
                failed: None,
                fell_back: None,
                fallback_refused: false,
                until: start.until,
                limit: None,
                attempt_limit: None,
                times: Times {
                    began: start.began,
                    ..Times::default()
                },
            })),
        })
    }

    /// Ends the request because its body has not come in time.
    pub(super) fn refuse_late_body(&self) {
        self.refuse_client(408, "the body did not come in time\n");
    }

    /// Ends the request because the connection of its client has ended: for this reason, or because the
    /// client has left. Nothing more begins for it.
    pub(super) fn abandon(&self, why: Option<Reason>) {
        // The connection may have ended because of the body, before the request was told.
        let refused = self.lock().and_then(|mut state| state.body_refusal());
        let refused = refused.map(|why| End::Refused(why.word(), why.status()));
        let ended = || why.map_or_else(|| self.left(), End::Cut);
        self.end_without_response(refused.unwrap_or_else(ended));
    }

    /// Returns why the connection of the client has ended.
    pub(super) fn left(&self) -> End {
        End::left(self.gate(), self.home)
    }

    /// Ends the request to which nothing can be responded. Nothing more begins for it.
    pub(super) fn end_without_response(&self, end: End) {
        let Some(mut rest) = self.leave() else { return };
        let ended = rest.ended.take();
        // There is no client to respond to.
        drop(rest.abandon());
        self.log(ended, end);
    }

    /// Ends the request without a response of its upstream: with the fallback of its route, or with
    /// the problem. A response that has begun is cut.
    pub(super) fn give_up(&self, problem: Problem) {
        let Some(state) = self.lock() else { return };
        let problem = state.problem_shown(problem);
        drop(state);
        if self.fall_back(problem.reason) {
            return;
        }
        let Some(mut state) = self.lock() else { return };
        let mut rest = state.end();
        drop(state);
        let mut ended = rest.ended.take();
        let (reason, name) = (problem.reason, &self.route().name);
        let mut status = reason.status();
        let length = match (rest.stop(), &self.proxy.fallback) {
            (None, _) => None,
            (Some(back), Some(Fallback::Fixed(fixed))) => {
                status = fixed.status;
                if let Some(ended) = &mut ended {
                    ended.done.fell_back = Some(reason);
                }
                Some(fixed.send_for(problem, name, self.shown(), back))
            }
            (Some(back), _) => Some(reply::refuse(problem, name, self.shown(), back)),
        };
        self.note_sent(&mut ended, status, length);
        self.log(ended, End::Problem(reason, status));
    }

    /// Ends the request with a status because of what the client has sent.
    pub(super) fn refuse_client(&self, status: u16, text: &'static str) {
        let Some(mut rest) = self.leave() else { return };
        let mut ended = rest.ended.take();
        if let Some(back) = rest.abandon() {
            // The rest of the body may still come, or never.
            let back = back.status(status).id(self.shown());
            back.field("Connection", "close").body(text);
            self.note_sent(&mut ended, status, Some(text.len()));
        }
        self.log(ended, End::Refused("body", status));
    }

    /// Notes the length of a response of the gateway itself.
    fn note_sent(&self, ended: &mut Option<Ended>, status: u16, length: Option<usize>) {
        if let (Some(ended), Some(length)) = (ended, length) {
            let method = self.head.as_head().method();
            ended.done.sent = own_length(method.as_str(), status, length);
        }
    }

    /// Returns the id of the request, for a response of the gateway itself.
    fn shown(&self) -> Shown<'_> {
        (&self.gate().ids, &self.request_id)
    }

    /// Returns what a route has besides its action.
    pub(super) fn route(&self) -> &RouteBasis {
        &self.proxy.route
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.proxy.route.gate
    }

    /// Ends the request because of its client, outside of the lock: a probe that ends so says nothing
    /// about its server.
    fn leave(&self) -> Option<Rest> {
        self.lock().map(|mut state| {
            if let Some(upload) = &state.upload {
                upload.leave();
            }
            state.end()
        })
    }

    /// Borrows the state. `None` on any thread but the loop's: a step that runs there has no effect,
    /// and the request ends when its last handle is dropped.
    #[inline]
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        let state = self
            .state
            .get()
            .and_then(|state| state.try_borrow_mut().ok());
        debug_assert!(state.is_some(), "each step runs on the loop, one at a time");
        state
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

    fn wake(flight: Flight) {
        flight.wake_body();
    }
}

impl Watched for FlightData {
    fn until(flight: &Flight) -> u64 {
        let state = flight.lock();
        state.map_or(u64::MAX, |state| match state.stage {
            Stage::Ended => u64::MAX,
            _ => state.until,
        })
    }

    fn time_out(flight: &Flight) {
        let Some(state) = flight.lock() else { return };
        let waits_for_client = state.blame(flight.now());
        drop(state);
        match waits_for_client {
            true => flight.refuse_late_body(),
            false => flight.give_up(Reason::Timeout.into()),
        }
    }

    fn abandon(flight: &Flight, why: Option<Reason>) {
        flight.abandon(why);
    }
}
