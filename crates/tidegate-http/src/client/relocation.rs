//! An idle connection that moves to the loop of the call that takes it.
//!
//! ```text
//!   free on A ── taken by a call on B ──▶ its handler leaves ──▶ socket ──▶ adopted on B
//!       │ ending                              │ not free any more  │ bytes, end
//!       ▼                                     ▼                    ▼
//!     Ended                                 Instead              Instead
//! ```
//!
//! The pool has given the connection to this call alone. Its lease goes along: it is in the
//! connection on A, then with the socket, then in the connection on B, so the connection counts all
//! the time. Requests cost no extra system call; a move costs a few.
//!
//! Loop A may be busy. After [`MOVE_TIME`] the call looks for another connection. The one that moves
//! then stays on B, for the next call.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tidegate_promise::Outcome;

use super::exchange_handler::ExchangeHandler;
use super::host::Host;
use super::pool::{Free, Lease};
use super::slot::{Depart, Departure, Link};

/// How long a call waits for a connection that moves.
pub(super) const MOVE_TIME: Duration = Duration::from_millis(20);

/// Result of a move.
pub(super) enum Moved<R: ExchangeHandler> {
    /// The connection, on the wanted loop.
    Here(Free<Link<R>>),
    /// The connection has ended; this is its lease, for a new one.
    Instead(Lease<Link<R>>),
    /// The connection has ended, and its lease is back in the pool.
    Ended,
}

impl<R: ExchangeHandler> Host<R> {
    /// Moves an idle connection to loop `to`. `then` is called once: on that loop if the connection
    /// has moved, and on any thread otherwise.
    pub(super) fn relocate(
        self: &Arc<Self>,
        free: Free<Link<R>>,
        to: usize,
        then: impl FnOnce(Moved<R>) + Send + 'static,
    ) {
        let (host, from) = (Arc::clone(self), free.place.at());
        let then = Then(Some(Box::new(then)));
        let depart = Depart::new(move |departure| {
            let task = release(Arc::clone(&host), departure, to, then);
            // A loop that has ended drops it.
            drop(host.home(from).spawn(task));
        });
        free.connection.channel.fire_event(depart);
    }
}

/// Takes the socket off its loop and gives it to loop `to`.
async fn release<R: ExchangeHandler>(
    host: Arc<Host<R>>,
    departure: Departure<R>,
    to: usize,
    then: Then<R>,
) {
    let Departure {
        channel,
        lease,
        record,
    } = departure;
    let stream = match channel.release().await {
        Ok(stream) if is_quiet(&stream) => stream,
        Ok(stream) => {
            drop(stream);
            return then.end(Moved::Instead(lease));
        }
        Err(_) => {
            // The lease outlives the socket, so that the limit of connections is exact.
            drop(channel.close().await);
            return then.end(Moved::Instead(lease));
        }
    };
    let id = lease.id();
    let adopted = host.adopt(to, stream, lease, record);
    adopted.finally(move |outcome| {
        let link = match outcome {
            Outcome::Success(channel) => Link::of(channel),
            _ => None,
        };
        then.end(match link {
            Some(link) => Moved::Here(Free::new(id, link, to)),
            None => Moved::Ended,
        });
    });
}

/// Returns `true` if the server has neither sent anything nor ended its side.
fn is_quiet(stream: &TcpStream) -> bool {
    let looked = stream.peek(&mut [0]);
    matches!(looked, Err(why) if why.kind() == ErrorKind::WouldBlock)
}

/// What is called with the result. Dropping it, because the connection or its loop has ended, calls
/// it, too.
struct Then<R: ExchangeHandler>(Option<Box<dyn FnOnce(Moved<R>) + Send>>);

impl<R: ExchangeHandler> Then<R> {
    fn end(mut self, moved: Moved<R>) {
        if let Some(then) = self.0.take() {
            then(moved);
        }
    }
}

impl<R: ExchangeHandler> Drop for Then<R> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Moved::Ended);
        }
    }
}
