//! The attempts to connect to the addresses of a name (RFC 8305): the next one begins when one has
//! failed, or after a short time; the first connection wins, and the other attempts end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::lock;
use tidegate_promise::{Completion, Failure, Outcome, Promise, promise_on};

use super::Client;
use crate::awaited::result;
use crate::channel::{Channel, TimedWork};
use crate::group::{ChannelPlacement, LoopTarget};

/// How long an attempt is alone before the next address is tried too.
const STAGGER: Duration = Duration::from_millis(250);

/// The attempts of one connect.
pub(super) struct Attempts<P: ChannelPlacement> {
    home: LoopTarget<P>,
    /// The name that was resolved.
    name: String,
    state: Mutex<State<P>>,
}

struct State<P: ChannelPlacement> {
    /// `None` once the connect has ended, also while the name is being resolved: what its handlers
    /// hold is dropped then.
    client: Option<Client<P>>,
    /// `None` once the connect has ended.
    promise: Option<Promise<Channel>>,
    /// The addresses that were not tried yet.
    addresses: VecDeque<SocketAddr>,
    attempts: Vec<Completion<Channel>>,
    /// How many attempts have not ended.
    outstanding: usize,
    /// Begins the next attempt.
    timer: Option<Completion<()>>,
}

impl<P: ChannelPlacement> Default for State<P> {
    fn default() -> Self {
        Self {
            client: None,
            promise: None,
            addresses: VecDeque::new(),
            attempts: Vec::new(),
            outstanding: 0,
            timer: None,
        }
    }
}

impl<P: ChannelPlacement> Attempts<P> {
    /// Creates the attempts of a connect whose result is `promise`. They begin when the name is
    /// resolved.
    pub(super) fn new(
        client: Client<P>,
        home: LoopTarget<P>,
        name: String,
        promise: &Promise<Channel>,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            home,
            name,
            state: Mutex::new(State {
                client: Some(client),
                ..State::default()
            }),
        });
        let weak = Arc::downgrade(&this);
        promise.on_cancel(move || {
            if let Some(attempts) = weak.upgrade() {
                drop(attempts.end());
            }
        });
        this
    }

    /// Connects to one of `found`, best first.
    pub(super) fn begin(self: &Arc<Self>, found: Vec<SocketAddr>, promise: Promise<Channel>) {
        let mut state = self.lock();
        if state.client.is_none() || promise.is_cancelled() {
            drop(state);
            return drop(promise);
        }
        state.addresses = by_turns(found);
        state.promise = Some(promise);
        drop(state);
        self.next();
    }

    /// Tries the next address, if there is one.
    fn next(self: &Arc<Self>) {
        let mut state = self.lock();
        let wanted = state
            .promise
            .as_ref()
            .is_some_and(|one| !one.is_cancelled());
        let Some(client) = state.client.clone().filter(|_| wanted) else {
            return;
        };
        let Some(address) = state.addresses.pop_front() else {
            return;
        };
        state.outstanding += 1;
        let is_last = state.addresses.is_empty();
        let old = state.timer.take();
        drop(state);
        if let Some(old) = old {
            old.cancel();
        }
        let (own, attempt) = promise_on(self.home.home.executor());
        let to = format!("`{}` ({address})", self.name);
        client.connect_address(&self.home, address, to, own);
        let this = Arc::clone(self);
        drop(attempt.on_complete(move |outcome| this.ended(outcome)));
        let timer = (!is_last).then(|| {
            let this = Arc::downgrade(self);
            let next: TimedWork = Box::new(move || {
                if let Some(this) = this.upgrade() {
                    this.next();
                }
            });
            self.home.home.timers().schedule(STAGGER, next)
        });
        let timer = timer.and_then(Result::ok);
        let mut state = self.lock();
        if state.promise.is_some() {
            state.attempts.push(attempt);
            // Another attempt may have begun meanwhile, with a timer of its own.
            let spare = match state.timer {
                None => std::mem::replace(&mut state.timer, timer),
                Some(_) => timer,
            };
            drop(state);
            if let Some(spare) = spare {
                spare.cancel();
            }
        } else {
            drop(state);
            attempt.cancel();
            if let Some(timer) = timer {
                timer.cancel();
            }
        }
    }

    fn ended(self: &Arc<Self>, outcome: Outcome<&Channel, &Failure>) {
        let why = match result(outcome) {
            Ok(channel) => {
                let promise = self.end();
                let taken = promise.map(|promise| promise.succeed(channel.clone()));
                if !matches!(taken, Some(Ok(_))) {
                    drop(channel.close());
                }
                return;
            }
            Err(why) => why,
        };
        let mut state = self.lock();
        // After the end nothing is outstanding.
        state.outstanding = state.outstanding.saturating_sub(1);
        let more = !state.addresses.is_empty();
        let over = state.outstanding == 0 && !more;
        drop(state);
        if more {
            self.next();
        } else if over && let Some(promise) = self.end() {
            // The error of the last attempt.
            drop(promise.fail(why));
        }
    }

    /// Ends the attempts. Returns the promise, once.
    fn end(&self) -> Option<Promise<Channel>> {
        let mut state = self.lock();
        let State {
            client,
            promise,
            attempts,
            timer,
            ..
        } = std::mem::take(&mut *state);
        drop(state);
        // Its handlers are made by user code, which may have a drop of its own.
        drop(client);
        for attempt in attempts {
            // Has no effect on one that has ended.
            attempt.cancel();
        }
        if let Some(timer) = timer {
            timer.cancel();
        }
        promise
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // No user code runs under this lock.
        lock(&self.state)
    }
}

/// Orders addresses so that the two families take turns, beginning with that of the first address.
/// Within a family the order stays.
fn by_turns(found: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second) = (VecDeque::new(), VecDeque::new());
    for one in found {
        match one.is_ipv6() == first_is_v6 {
            true => first.push_back(one),
            false => second.push_back(one),
        }
    }
    let mut ordered = VecDeque::with_capacity(first.len() + second.len());
    while !first.is_empty() || !second.is_empty() {
        ordered.extend(first.pop_front());
        ordered.extend(second.pop_front());
    }
    ordered
}

#[cfg(test)]
mod tests {
    //! The order of addresses.

    use super::*;

    #[test]
    fn the_families_take_turns() {
        let parse = |text: &str| -> Vec<SocketAddr> {
            let parts = text.split_whitespace();
            parts.map(|part| part.parse().unwrap()).collect()
        };
        let table = [
            ("", ""),
            ("1.1.1.1:1 1.1.1.2:1", "1.1.1.1:1 1.1.1.2:1"),
            (
                "[::1]:1 [::2]:1 [::3]:1 1.1.1.1:1",
                "[::1]:1 1.1.1.1:1 [::2]:1 [::3]:1",
            ),
            ("1.1.1.1:1 [::1]:1 [::2]:1", "1.1.1.1:1 [::1]:1 [::2]:1"),
        ];
        for (found, ordered) in table {
            assert_eq!(by_turns(parse(found)), parse(ordered), "{found}");
        }
    }
}
