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

mod writing;

pub(super) use self::writing::Writing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{Channel, HandlerContext};
use tidegate_promise::{Completion, Failure, Outcome, Promise};

use super::body::{BodyShared, BodySource, ResponseBody};
use super::connection::{Flow, Receiver};
use super::error::{ClientError, Kind, Phase};
use super::failure::{ExchangeError, ExchangeFailure, is_handshake};
use super::host::Host;
use super::pool::{Acquired, Grant, Lease, Ticket};
use super::response::Response;
use super::slot::{Begun, Link, Signal};
use crate::codec::{BodyFraming, ResponseHead};

/// Sends the next request of a call, which has taken this time so far. The response arrives at the
/// promise.
pub(super) type Next = Box<dyn FnOnce(Promise<Response>, Duration) + Send>;

/// Returns the next request for a status and a `Location`.
pub(super) type Follow = dyn Fn(u16, &[u8]) -> Option<Next> + Send + Sync;

/// How many bytes of the body of a redirect are read.
const MOST_IGNORED: usize = 64 * 1024;

/// A request that is ready to be sent, more than once if need be.
pub(super) struct Prepared {
    /// Method and URL, for errors.
    pub(super) label: String,
    /// The head, with the body behind it if that is short.
    pub(super) head: Bytes,
    /// A body that is sent in a piece of its own.
    pub(super) body: Option<Bytes>,
    pub(super) is_head: bool,
    pub(super) idempotent: bool,
    /// The body follows in pieces.
    pub(super) streams: bool,
    /// How redirects are followed, if they are.
    pub(super) redirect: Option<Box<Follow>>,
}

/// One call.
pub(super) struct Call {
    host: Arc<Host<CallReceiver>>,
    request: Prepared,
    /// The number of the call's loop.
    at: usize,
    id: u64,
    /// When it began, in nanoseconds, if it follows redirects.
    began: u64,
    state: Mutex<State>,
}

struct State {
    promise: Option<Promise<Response>>,
    body: Option<Arc<BodyShared>>,
    stage: Stage,
    attempt: u8,
    /// A piece of a streamed body was written, so there is no second attempt.
    streamed: bool,
    /// The request that follows a redirect, once its body has ended.
    next: Option<Next>,
    /// How many bytes of the body of a redirect were read.
    ignored: usize,
    /// The connection to which the head was written, so that pieces of the body can follow.
    writing: Option<Link<CallReceiver>>,
    /// What waits to write the next piece of the request's body.
    writer: Option<Waker>,
    /// The timers of the wait and of the whole call.
    timers: Vec<Completion<()>>,
}

enum Stage {
    Starting,
    Waiting(Ticket),
    /// The connect, once it is known.
    Connecting(Option<Completion<Channel>>),
    Running(Link<CallReceiver>),
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
        host: Arc<Host<CallReceiver>>,
        request: Prepared,
        (at, id): (usize, u64),
        timeout: Option<Duration>,
        promise: Promise<Response>,
    ) -> Arc<Self> {
        let began = request.redirect.as_ref().map_or(0, |_| host.now(at));
        let call = Arc::new(Self {
            began,
            host,
            request,
            at,
            id,
            state: Mutex::new(State {
                promise: None,
                body: None,
                stage: Stage::Starting,
                attempt: 0,
                streamed: false,
                next: None,
                ignored: 0,
                writing: None,
                writer: None,
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
        call
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
    fn granted(self: &Arc<Self>, attempt: u8, grant: Grant<Link<CallReceiver>>) {
        let mut state = self.lock();
        let wanted = state.attempt == attempt && !matches!(state.stage, Stage::Ended);
        match grant {
            Grant::Reused(idle) if wanted => {
                let link = idle.connection.clone();
                state.stage = Stage::Running(link.clone());
                drop(state);
                self.host.counts.reused();
                self.begin(&link, None);
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

    fn connect(self: &Arc<Self>, attempt: u8, mut lease: Lease<Link<CallReceiver>>) {
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

    fn connected(
        self: &Arc<Self>,
        attempt: u8,
        channel: &Channel,
        lease: Lease<Link<CallReceiver>>,
    ) {
        let link = Link::of(channel);
        let mut state = self.lock();
        let wanted = state.attempt == attempt && matches!(state.stage, Stage::Connecting(_));
        match link {
            Some(link) if wanted => {
                state.stage = Stage::Running(link.clone());
                drop(state);
                self.host.counts.fresh();
                self.begin(&link, Some(lease));
            }
            // The handler of every connection stores its slot when it is added.
            _ => {
                drop(state);
                // In this order, so that the limit of connections is exact.
                channel.close().on_complete(move |_| drop(lease));
            }
        }
    }

    fn begin(
        self: &Arc<Self>,
        link: &Link<CallReceiver>,
        lease: Option<Lease<Link<CallReceiver>>>,
    ) {
        let begun = Begun {
            id: self.id,
            is_head: self.request.is_head,
            receiver: CallReceiver {
                call: Some(Arc::clone(self)),
            },
            lease,
        };
        let complete = !self.request.streams;
        if let Err(refused) = link.slot.begin(begun, complete, self.host.now(self.at)) {
            return self.not_begun(refused);
        }
        match &self.request.body {
            None => link.channel.write_and_flush(self.request.head.clone()),
            Some(body) => {
                link.channel.write(self.request.head.clone());
                link.channel.write_and_flush(body.clone());
            }
        }
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended) {
            // The cancel may have come to the connection before the exchange began.
            drop(state);
            return link.channel.fire_event(Signal::Cancel(self.id));
        }
        // Unless this attempt has failed already.
        let same = |now: &Link<_>| Arc::ptr_eq(&now.slot, &link.slot);
        if !matches!(&state.stage, Stage::Running(now) if same(now)) {
            return;
        }
        state.writing = Some(link.clone());
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Handles a connection that ended before the exchange could begin.
    fn not_begun(self: &Arc<Self>, mut refused: Begun<CallReceiver>) {
        let reused = refused.lease.is_none();
        // The next attempt may need the permit.
        drop(refused.lease.take());
        // This function reports the end, not its drop.
        drop(refused.receiver.call.take());
        self.failed(ExchangeError::not_begun(reused));
    }

    /// Returns the request that follows a redirect, if `head` is one that the call follows.
    fn next_request(&self, head: &ResponseHead<'_>) -> Option<Next> {
        let redirect = self.request.redirect.as_ref()?;
        redirect(head.status(), head.get("location")?)
    }

    /// Sends the request that follows a redirect. Returns `false` if there is none.
    fn follow(&self) -> bool {
        let Some(next) = self.lock().next.take() else {
            return false;
        };
        if let Some((_, waiting)) = self.end()
            && let Some(promise) = waiting.promise
        {
            let took = self.host.now(self.at).saturating_sub(self.began);
            next(promise, Duration::from_nanos(took));
        }
        true
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
        let mut state = self.lock();
        // A piece of a streamed body cannot be sent again.
        let safe = ended && !state.streamed && (!why.sent || unanswered);
        if safe && state.attempt == 0 && state.promise.is_some() {
            state.attempt = 1;
            state.stage = Stage::Starting;
            state.writing = None;
            drop(state);
            return self.acquire(1, true);
        }
        let phase = match state.promise {
            Some(_) => Phase::Head,
            None => Phase::Body,
        };
        drop(state);
        let kind = why.cause.into_kind();
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
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
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
            Stage::Running(link) => link.channel.fire_event(Signal::Cancel(self.id)),
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

impl BodySource for Call {
    fn resume(&self) {
        let link = match &self.lock().stage {
            Stage::Running(link) => Some(link.clone()),
            _ => None,
        };
        if let Some(link) = link {
            link.channel.fire_event(Signal::Resume(self.id));
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
    fn head(&mut self, head: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {
        let Some(call) = &self.call else {
            return;
        };
        let next = call.next_request(&head);
        let shared = Arc::new(BodyShared::default());
        let mut state = call.lock();
        if matches!(state.stage, Stage::Ended) {
            return;
        }
        if next.is_some() {
            // After the body of this response, so that the next request finds the connection.
            state.next = next;
            return;
        }
        let promise = state.promise.take();
        state.body = Some(Arc::clone(&shared));
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            // The rest of the request is not wanted.
            writer.wake();
        }
        let source: Arc<dyn BodySource> = Arc::<Call>::clone(call);
        let response = Response::new(head.to_owned(), ResponseBody::new(shared, source));
        if let Some(promise) = promise {
            // If the caller has cancelled, dropping the response ends the call.
            drop(promise.succeed(response));
        }
    }

    fn data(&mut self, bytes: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        let Some(call) = &self.call else {
            return Flow::Gone;
        };
        let mut state = call.lock();
        if state.next.is_some() {
            state.ignored += bytes.len();
            // Reading a short body is cheaper than another connection.
            if state.ignored <= MOST_IGNORED {
                return Flow::More;
            }
            drop(state);
            call.follow();
            return Flow::Gone;
        }
        let body = state.body.clone();
        drop(state);
        match body {
            Some(body) => body.data(bytes, &**call),
            None => Flow::Gone,
        }
    }

    fn trailers(&mut self, lines: Bytes, _: &mut HandlerContext<'_>) {
        let body = self.call.as_ref().and_then(|call| call.lock().body.clone());
        if let Some(body) = body {
            body.trailers(lines);
        }
    }

    fn end(mut self, _: &mut HandlerContext<'_>) {
        if let Some(call) = self.call.take()
            && !call.follow()
            && let Some((_, waiting)) = call.end()
            && let Some(body) = waiting.body
        {
            body.finish(Ok(()));
        }
    }

    fn fail(mut self, why: ExchangeError, _: &mut HandlerContext<'_>) {
        if let Some(call) = self.call.take()
            && !call.follow()
        {
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
