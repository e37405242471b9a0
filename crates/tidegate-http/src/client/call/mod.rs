//! One call: waits for a connection, uses it, and makes one new attempt where that is safe.
//!
//! ```text
//!   Starting ──▶ Searching ──▶ Running ──▶ Ended
//!                    ▲            │
//!                    └────────────┘ closed before a response, safe, first attempt
//! ```
//!
//! The state is under one lock, which is never held while a promise is completed, a channel is used
//! or the pool is called. Each step names the attempt that it belongs to, so that a late step of
//! the first attempt does not disturb the second. `Ended` is final, and whichever of success,
//! failure, cancel and timeout comes first sets it.
//!
//! | file | contents |
//! |---|---|
//! | this one | the state, and the way to a connection |
//! | `ends` | how a call ends |
//! | `receiver` | receives the response |
//! | `writing` | the body of the request: streamed, or held until the server asks for it |

mod ends;
mod receiver;
mod writing;

pub(super) use self::receiver::CallReceiver;
pub(super) use self::writing::Writing;

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::internal::lock;
use tidegate_net::Neighbour;
use tidegate_promise::{Completion, Promise};

use super::body::{BodyPieces, BodySource};
use super::error::{ClientError, Kind, Phase};
use super::failure::Terms;
use super::host::Host;
use super::pool::Lease;
use super::response::Response;
use super::search::{Found, Search};
use super::slot::{Begun, Link, Signal};
use crate::codec::Method;
use crate::wakers::wake;

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
    pub(super) label: Arc<str>,
    /// The head, with the body behind it if that is short.
    pub(super) head: Bytes,
    /// A body that is sent in a piece of its own.
    pub(super) body: Option<Bytes>,
    /// The method by which the response is read.
    pub(super) method: Method<'static>,
    pub(super) idempotent: bool,
    /// The server may change the protocol.
    pub(super) switches: bool,
    /// The body waits until the server asks for it, for this time at most.
    pub(super) expects: Option<Duration>,
    /// The body follows in pieces.
    pub(super) streams: bool,
    /// How redirects are followed, if they are.
    pub(super) redirect: Option<Box<Follow>>,
}

/// Where a call runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of its loop.
    pub(super) at: usize,
    /// The call began on that loop, so a connection of that loop is better than another one.
    pub(super) is_current: bool,
    /// The number of the call, which is not zero.
    pub(super) id: u64,
}

/// One call.
pub(super) struct Call {
    host: Arc<Host<CallReceiver>>,
    request: Prepared,
    at: usize,
    is_current: bool,
    id: u64,
    /// When it began, in nanoseconds, if it follows redirects.
    began: u64,
    state: Mutex<State>,
}

struct State {
    promise: Option<Promise<Response>>,
    body: Option<Arc<BodyPieces>>,
    stage: Stage,
    attempt: u8,
    /// A piece of a streamed body was written, so there is no second attempt.
    streamed: bool,
    /// The body of the request waits until the server asks for it.
    held: bool,
    /// The request that follows a redirect, once its body has ended.
    next: Option<Next>,
    /// How many bytes of the body of a redirect were read.
    ignored: usize,
    /// The connection to which the head was written, so that pieces of the body can follow.
    writing: Option<Link<CallReceiver>>,
    /// What waits to write the next piece of the request's body.
    writer: Option<Waker>,
    /// The timers of the call.
    timers: Vec<Completion<()>>,
}

enum Stage {
    Starting,
    Searching(Arc<Search<CallReceiver>>),
    Running(Link<CallReceiver>),
    Ended,
}

impl Call {
    /// Starts a call on loop `at`. The result arrives at `promise`.
    pub(super) fn start(
        host: Arc<Host<CallReceiver>>,
        request: Prepared,
        Place { at, is_current, id }: Place,
        timeout: Option<Duration>,
        promise: Promise<Response>,
    ) -> Arc<Self> {
        let began = request.redirect.as_ref().map_or(0, |_| host.now(at));
        let call = Arc::new(Self {
            began,
            host,
            request,
            at,
            is_current,
            id,
            state: Mutex::new(State {
                promise: None,
                body: None,
                stage: Stage::Starting,
                attempt: 0,
                streamed: false,
                held: false,
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
        let at = self.is_current.then_some(self.at);
        let free = (!fresh).then(|| self.host.pool.try_free(at)).flatten();
        if let Some(free) = free {
            return self.found(attempt, Found::Reused(free));
        }
        let call = Arc::clone(self);
        let host = Arc::clone(&self.host);
        let search = Search::new(host, self.at, self.is_current, move |found| match found {
            Ok(found) => call.found(attempt, found),
            // The connection has ended already.
            Err((Kind::Closed(_), _)) => call.failed(call.terms().not_begun("")),
            Err((kind, phase)) => call.end_with(call.error(kind, phase, false, true)),
        });
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended) {
            return;
        }
        state.stage = Stage::Searching(Arc::clone(&search));
        drop(state);
        search.start(fresh);
    }

    /// Uses a connection.
    fn found(self: &Arc<Self>, attempt: u8, found: Found<CallReceiver>) {
        let mut state = self.lock();
        if state.attempt != attempt || matches!(state.stage, Stage::Ended) {
            drop(state);
            return found.put_back(&self.host);
        }
        let (link, lease, at) = match found {
            Found::Reused(free) => (free.connection, None, free.place.at()),
            Found::New(link, lease) => {
                let at = lease.at();
                (link, Some(lease), at)
            }
        };
        let home = link.slot.is_home().then_some(at);
        self.host.counts.add(home, lease.is_none());
        state.stage = Stage::Running(link.clone());
        drop(state);
        self.begin(attempt, &link, lease);
    }

    fn begin(
        self: &Arc<Self>,
        attempt: u8,
        link: &Link<CallReceiver>,
        lease: Option<Lease<Link<CallReceiver>>>,
    ) {
        let begun = Begun {
            id: self.id,
            method: self.request.method,
            receiver: CallReceiver {
                call: Some(Arc::clone(self)),
                attempt,
            },
            terms: self.terms(),
            lease,
            shared: !self.is_current,
        };
        let holds = self.request.expects.is_some();
        self.lock().held = holds;
        let complete = !self.request.streams && !holds;
        if let Err(refused) = link.slot.begin(begun, complete, self.host.now(self.at)) {
            return self.not_begun(refused);
        }
        self.write(link);
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
        wake(writer);
        if let Some(wait) = self.request.expects {
            // A server may not know `Expect`.
            self.limit(wait, move |call| call.send_body(attempt));
        }
    }

    /// Writes the request, or the part of it that does not wait. On the loop of the connection, the
    /// bytes go directly into its write queue.
    fn write(&self, link: &Link<CallReceiver>) {
        let (head, connection) = (self.request.head.clone(), Neighbour::of(&link.channel));
        match &self.request.body {
            Some(body) if self.request.expects.is_none() => {
                connection.write(head);
                connection.write_and_flush(body.clone());
            }
            _ => connection.write_and_flush(head),
        }
    }

    /// Handles a connection that ended before the exchange could begin.
    fn not_begun(self: &Arc<Self>, mut refused: Begun<CallReceiver>) {
        // The next attempt may need the permit.
        drop(refused.lease.take());
        // This function reports the end, not its drop.
        drop(refused.receiver.call.take());
        self.failed(refused.terms.not_begun(""));
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

    /// Returns what the errors of its exchanges say.
    fn terms(&self) -> Terms {
        Terms {
            label: Some(Arc::clone(&self.request.label)),
            idempotent: self.request.idempotent,
        }
    }

    fn error(&self, kind: Kind, phase: Phase, sent: bool, retry: bool) -> ClientError {
        ClientError::new(&self.request.label, kind, phase, sent, retry)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under this lock.
        lock(&self.state)
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
