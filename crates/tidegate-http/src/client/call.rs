//! One call: waits for a connection, uses it, and makes one new attempt where that is safe.
//!
//! ```text
//!   Starting ──▶ Waiting ──▶ Connecting ──▶ Running ──▶ Ended
//!       │            │                         ▲ │
//!       │            └── an idle connection ───┤ │ closed before a response,
//!       └── an idle connection ────────────────┘ │ safe, first attempt
//!       ▲                                        │
//!       └────────────────────────────────────────┘
//! ```
//!
//! The state is under one lock, which is never held while a promise is completed, a channel is used
//! or the pool is called. Each step names the attempt that it belongs to, so that a late step of
//! the first attempt does not disturb the second. `Ended` is final, and whichever of success,
//! failure, cancel and timeout comes first sets it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::Channel;
use tidegate_promise::{Completion, Failure, Outcome, Promise};

use super::body::{BodyShared, BodySource, ResponseBody};
use super::error::{ClientError, Kind, Phase};
use super::exchange::{Exchange, ExchangeError, ExchangeFailure, Flow, Receiver};
use super::handler::Order;
use super::host::Host;
use super::pool::{Acquired, Grant, Lease, Ticket};
use super::response::Response;
use crate::codec::{BodyFraming, ResponseHead};

/// A request that is ready to be sent, more than once if need be.
pub(super) struct Prepared {
    /// Method and URL, for errors.
    pub(super) label: String,
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    pub(super) is_head: bool,
    pub(super) idempotent: bool,
}

/// One call.
pub(super) struct Call {
    host: Arc<Host>,
    request: Prepared,
    /// The number of the call's loop.
    at: usize,
    id: u64,
    state: Mutex<State>,
}

struct State {
    promise: Option<Promise<Response>>,
    body: Option<Arc<BodyShared>>,
    stage: Stage,
    attempt: u8,
    /// The timers of the wait and of the whole call.
    timers: Vec<Completion<()>>,
}

enum Stage {
    Starting,
    Waiting(Ticket),
    /// The connect, once it is known.
    Connecting(Option<Completion<Channel>>),
    Running(Channel),
    Ended,
}

/// What waits for the result of a call: its promise, or after the head its body.
struct Waiting {
    promise: Option<Promise<Response>>,
    body: Option<Arc<BodyShared>>,
}

impl Waiting {
    fn fail(self, why: ClientError) {
        match (self.promise, self.body) {
            (Some(promise), _) => drop(promise.fail(Failure::new(why))),
            (None, Some(body)) => drop(body.finish(Err(why))),
            (None, None) => {}
        }
    }
}

impl Call {
    /// Starts a call on loop `at`. The result arrives at `promise`.
    pub(super) fn start(
        host: Arc<Host>,
        request: Prepared,
        (at, id): (usize, u64),
        timeout: Option<Duration>,
        promise: Promise<Response>,
    ) {
        let call = Arc::new(Self {
            host,
            request,
            at,
            id,
            state: Mutex::new(State {
                promise: None,
                body: None,
                stage: Stage::Starting,
                attempt: 0,
                timers: Vec::new(),
            }),
        });
        let weak = Arc::downgrade(&call);
        promise.on_cancel(move || {
            if let Some(call) = weak.upgrade() {
                call.abandon();
            }
        });
        call.lock().promise = Some(promise);
        if let Some(after) = timeout {
            call.limit(after, move |call| call.time_out(Kind::CallTimeout(after)));
        }
        call.acquire(0, false);
    }

    /// Looks for a connection.
    fn acquire(self: &Arc<Self>, attempt: u8, fresh: bool) {
        let then = Arc::clone(self);
        let acquired = self
            .host
            .pool
            .acquire(self.at, fresh, move |grant| then.granted(attempt, grant));
        match acquired {
            Acquired::Now(grant) => self.granted(attempt, grant),
            Acquired::Full => {
                let kind = Kind::PoolFull(self.host.max_waiting);
                self.end_with(self.error(kind, Phase::Wait, false, true));
            }
            Acquired::Later(ticket) => {
                let mut state = self.lock();
                match state.stage {
                    // The connection may have come already.
                    Stage::Starting if state.attempt == attempt => {
                        state.stage = Stage::Waiting(ticket);
                    }
                    Stage::Ended => {
                        drop(state);
                        self.host.pool.leave(ticket);
                        return;
                    }
                    _ => return,
                }
                drop(state);
                let after = self.host.wait_timeout;
                self.limit(after, move |call| {
                    if matches!(call.lock().stage, Stage::Waiting(_)) {
                        call.time_out(Kind::WaitTimeout(after));
                    }
                });
            }
        }
    }

    /// Uses what the pool has granted.
    fn granted(self: &Arc<Self>, attempt: u8, grant: Grant<Channel>) {
        let mut state = self.lock();
        let wanted = state.attempt == attempt && !matches!(state.stage, Stage::Ended);
        match grant {
            Grant::Reused(idle) if wanted => {
                let channel = idle.connection.clone();
                state.stage = Stage::Running(channel.clone());
                drop(state);
                self.begin(&channel, None);
            }
            Grant::Reused(idle) => {
                drop(state);
                self.host.pool.give_back(idle);
            }
            Grant::New(lease) if wanted => {
                state.stage = Stage::Connecting(None);
                drop(state);
                self.connect(attempt, lease);
            }
            Grant::New(lease) => {
                drop(state);
                drop(lease);
            }
        }
    }

    fn connect(self: &Arc<Self>, attempt: u8, mut lease: Lease<Channel>) {
        lease.set_loop(self.at);
        let connecting = self.host.connect(self.at);
        let call = Arc::clone(self);
        let listener = connecting.on_complete(move |outcome| match outcome {
            Outcome::Success(channel) => call.connected(attempt, channel, lease),
            Outcome::Failure(why) => {
                drop(lease);
                let error = call.error(Kind::Connect(why.clone()), Phase::Connect, false, true);
                call.end_with(error);
            }
            Outcome::Cancelled => drop(lease),
        });
        drop(listener);
        let mut state = self.lock();
        match &mut state.stage {
            Stage::Connecting(none @ None) => *none = Some(connecting),
            Stage::Ended => {
                drop(state);
                connecting.cancel();
            }
            _ => {}
        }
    }

    fn connected(self: &Arc<Self>, attempt: u8, channel: &Channel, lease: Lease<Channel>) {
        let mut state = self.lock();
        let wanted = state.attempt == attempt && matches!(state.stage, Stage::Connecting(_));
        if wanted {
            state.stage = Stage::Running(channel.clone());
            drop(state);
            self.begin(channel, Some(lease));
        } else {
            drop(state);
            drop(lease);
            drop(channel.close());
        }
    }

    fn begin(self: &Arc<Self>, channel: &Channel, lease: Option<Lease<Channel>>) {
        let receiver = CallReceiver {
            call: Some(Arc::clone(self)),
        };
        channel.write_and_flush(Order::Begin(Box::new(Exchange {
            id: self.id,
            head: self.request.head.clone(),
            body: self.request.body.clone(),
            is_head: self.request.is_head,
            receiver,
            lease,
        })));
    }

    /// Handles a failed exchange: begins the second attempt, or ends the call.
    fn failed(self: &Arc<Self>, why: ExchangeError) {
        if let ExchangeFailure::Closed(Some(cause)) = &why.cause
            && is_handshake(cause)
        {
            let kind = Kind::Connect(cause.clone());
            return self.end_with(self.error(kind, Phase::Connect, false, true));
        }
        let ended = matches!(why.cause, ExchangeFailure::Closed(_));
        let unanswered = why.reused && !why.responded && self.request.idempotent;
        let safe = ended && (!why.sent || unanswered);
        let mut state = self.lock();
        if safe && state.attempt == 0 && state.promise.is_some() {
            state.attempt = 1;
            state.stage = Stage::Starting;
            drop(state);
            return self.acquire(1, true);
        }
        let phase = match state.promise {
            Some(_) => Phase::Head,
            None => Phase::Body,
        };
        drop(state);
        let kind = match why.cause {
            ExchangeFailure::Closed(why) => Kind::Closed(why),
            ExchangeFailure::Truncated => Kind::Truncated,
            ExchangeFailure::BadResponse(reason) => Kind::BadResponse(reason),
            ExchangeFailure::Unexpected(what) => Kind::Unexpected(what),
            ExchangeFailure::HeadTimeout(after) | ExchangeFailure::BodyTimeout(after) => {
                Kind::Timeout(after)
            }
        };
        self.end_with(self.error(kind, phase, why.sent, safe));
    }

    /// Ends the call with an error, unless it has ended.
    fn end_with(&self, why: ClientError) {
        if let Some((_, waiting)) = self.end() {
            waiting.fail(why);
        }
    }

    /// Ends the call because its time is over.
    fn time_out(&self, kind: Kind) {
        let (phase, sent) = {
            let state = self.lock();
            match &state.stage {
                Stage::Starting | Stage::Waiting(_) => (Phase::Wait, false),
                Stage::Connecting(_) => (Phase::Connect, false),
                Stage::Running(_) if state.promise.is_some() => (Phase::Head, true),
                Stage::Running(_) | Stage::Ended => (Phase::Body, true),
            }
        };
        let why = self.error(kind, phase, sent, !sent);
        if let Some((stage, waiting)) = self.end() {
            self.undo(stage);
            waiting.fail(why);
        }
    }

    /// Sets the final stage. Returns the stage before, and what waits for the result; `None` if the
    /// call has ended before.
    fn end(&self) -> Option<(Stage, Waiting)> {
        let mut state = self.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Ended);
        if matches!(stage, Stage::Ended) {
            return None;
        }
        let timers = std::mem::take(&mut state.timers);
        let (promise, body) = (state.promise.take(), state.body.take());
        drop(state);
        for timer in timers {
            timer.cancel();
        }
        Some((stage, Waiting { promise, body }))
    }

    /// Stops what a call is doing.
    fn undo(&self, stage: Stage) {
        match stage {
            Stage::Waiting(ticket) => drop(self.host.pool.leave(ticket)),
            Stage::Connecting(Some(connecting)) => drop(connecting.cancel()),
            Stage::Running(channel) => {
                channel.write_and_flush(Order::<CallReceiver>::Cancel(self.id));
            }
            Stage::Starting | Stage::Connecting(None) | Stage::Ended => {}
        }
    }

    /// Calls `then` after this time, unless the call has ended.
    fn limit(self: &Arc<Self>, after: Duration, then: impl FnOnce(&Self) + Send + 'static) {
        let weak: Weak<Self> = Arc::downgrade(self);
        let timer = self.host.schedule(self.at, after, move || {
            if let Some(call) = weak.upgrade() {
                then(&call);
            }
        });
        if let Some(timer) = timer {
            let mut state = self.lock();
            match state.stage {
                Stage::Ended => {
                    drop(state);
                    timer.cancel();
                }
                _ => state.timers.push(timer),
            }
        }
    }

    fn error(&self, kind: Kind, phase: Phase, sent: bool, retry: bool) -> ClientError {
        ClientError::new(&self.request.label, kind, phase, sent, retry)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if a connection ended because it could not be encrypted: no request was sent.
fn is_handshake(why: &Failure) -> bool {
    #[cfg(feature = "tls")]
    {
        use tidegate_net::tls::TlsError::{ClosedInHandshake, Handshake, HandshakeTimeout};
        let why = why.downcast_ref();
        matches!(
            why,
            Some(Handshake(_) | HandshakeTimeout(_) | ClosedInHandshake)
        )
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = why;
        false
    }
}

impl BodySource for Call {
    fn resume(&self) {
        let channel = match &self.lock().stage {
            Stage::Running(channel) => Some(channel.clone()),
            _ => None,
        };
        if let Some(channel) = channel {
            channel.write_and_flush(Order::<CallReceiver>::Resume(self.id));
        }
    }

    /// Ends the call, because nothing waits for its result any more.
    fn abandon(&self) {
        if let Some((stage, waiting)) = self.end() {
            self.undo(stage);
            drop(waiting);
        }
    }

    fn too_large(&self, max: usize) -> ClientError {
        self.error(Kind::TooLarge { max }, Phase::Body, true, false)
    }
}

/// Receives the response on the connection's loop.
pub(super) struct CallReceiver {
    /// `None` once the exchange has ended.
    call: Option<Arc<Call>>,
}

impl Receiver for CallReceiver {
    fn head(&mut self, head: ResponseHead<'_>, _framing: BodyFraming) {
        let Some(call) = &self.call else {
            return;
        };
        let shared = Arc::new(BodyShared::default());
        let mut state = call.lock();
        if matches!(state.stage, Stage::Ended) {
            return;
        }
        let promise = state.promise.take();
        state.body = Some(Arc::clone(&shared));
        drop(state);
        let source: Arc<dyn BodySource> = Arc::<Call>::clone(call);
        let response = Response::new(head.to_owned(), ResponseBody::new(shared, source));
        if let Some(promise) = promise {
            // If the caller has cancelled, dropping the response ends the call.
            drop(promise.succeed(response));
        }
    }

    fn data(&mut self, bytes: Bytes) -> Flow {
        let Some(call) = &self.call else {
            return Flow::Gone;
        };
        let body = call.lock().body.clone();
        match body {
            Some(body) => body.data(bytes, &**call),
            None => Flow::Gone,
        }
    }

    fn trailers(&mut self, lines: Bytes) {
        let body = self.call.as_ref().and_then(|call| call.lock().body.clone());
        if let Some(body) = body {
            body.trailers(lines);
        }
    }

    fn end(mut self) {
        if let Some(call) = self.call.take()
            && let Some((_, waiting)) = call.end()
            && let Some(body) = waiting.body
        {
            body.finish(Ok(()));
        }
    }

    fn fail(mut self, why: ExchangeError) {
        if let Some(call) = self.call.take() {
            call.failed(why);
        }
    }
}

/// An exchange that is dropped without an end: the loop of its connection is gone, or the caller
/// has left.
impl Drop for CallReceiver {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let why = call.error(Kind::Closed(None), Phase::Head, true, false);
            call.end_with(why);
        }
    }
}
