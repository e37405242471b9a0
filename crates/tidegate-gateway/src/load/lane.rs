//! The connections of one loop, and the requests that are due on them.
//!
//! A connection that is free takes the next request that is due, or waits in the list of idle ones.
//! A timer wakes idle connections when requests become due. A woken connection asks for a request
//! again, so that none is lost if the connection ends at that moment.
//!
//! The state is under a lock, because handlers must be `Send`. It is locked by the loop, and now and
//! then by the thread that samples it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use tidegate::loops::EventLoop;
use tidegate::net::{Channel, Client, NetGroup};
use tidegate::promise::Outcome as Done;
use tidegate_core::internal::lock;

use super::caller::{Caller, Wake};
use super::schedule::{Dispatch, Due};
use super::tally::{Counts, Ended, Outcome, Tally};
use super::target::Target;

/// How often requests that have waited for too long are searched.
const HOUSEKEEPING: u64 = 20_000_000;
/// The pause after a failed connection: the first one, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Called once, on the loop, when the last request has ended.
pub type WhenDone = Box<dyn FnOnce() + Send>;

/// The connections of one loop to one server.
pub struct Lane {
    /// The requests, which take turns.
    targets: Vec<Target>,
    /// How long a request may take.
    pub(super) timeout: Duration,
    address: SocketAddr,
    home: EventLoop,
    client: OnceLock<Client>,
    state: Mutex<State>,
}

struct State {
    dispatch: Dispatch,
    idle: Vec<(u64, Channel)>,
    /// How many requests have been taken and have not ended.
    in_flight: u64,
    /// One for each target.
    tallies: Vec<Tally>,
    /// When the next timer rings.
    armed: u64,
    next_id: u64,
    done: Option<WhenDone>,
    is_over: bool,
}

/// The settings of a lane.
#[derive(Debug)]
pub struct LaneSettings {
    /// The requests, which take turns. There is at least one.
    pub targets: Vec<Target>,
    /// The server.
    pub address: SocketAddr,
    /// The number of connections.
    pub connections: usize,
    /// How long a request may take.
    pub timeout: Duration,
    /// Successes up to this time are good.
    pub within: Duration,
}

impl Lane {
    /// Makes the connections on a loop of `group` and sends the requests.
    pub fn start(
        settings: LaneSettings,
        dispatch: Dispatch,
        group: &NetGroup,
        home: &EventLoop,
        done: WhenDone,
    ) -> Arc<Self> {
        let lane = Arc::new(Self {
            timeout: settings.timeout,
            address: settings.address,
            home: home.clone(),
            client: OnceLock::new(),
            state: Mutex::new(State {
                dispatch,
                idle: Vec::new(),
                in_flight: 0,
                tallies: vec![Tally::new(settings.within); settings.targets.len()],
                armed: u64::MAX,
                next_id: 0,
                done: Some(done),
                is_over: false,
            }),
            targets: settings.targets,
        });
        let weak = Arc::downgrade(&lane);
        let client = Client::builder(group)
            .pipeline(move |pipeline| pipeline.add("caller", Caller::new(weak.clone())))
            .build();
        // It is set here only.
        let _ = lane.client.set(client);
        for _ in 0..settings.connections {
            lane.connect(PAUSE.0);
        }
        lane.arm(lane.now());
        lane
    }

    /// Plans no more requests. Those that are due still end.
    pub(crate) fn stop(self: &Arc<Self>) {
        let now = self.now();
        self.lock().dispatch.stop(now);
        self.arm(now);
    }

    /// Ends all connections and leaves what is due.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.dispatch.stop(0);
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for (_, channel) in idle {
            drop(channel.close());
        }
    }

    /// Takes what has ended since the last call, for each target.
    pub fn take_recent(&self) -> Vec<Counts> {
        let mut state = self.lock();
        state.tallies.iter_mut().map(Tally::take_recent).collect()
    }

    /// Returns what has ended so far, for each target.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.lock().tallies.clone()
    }

    /// Returns the target of a request.
    pub(super) fn target(&self, due: Due) -> &Target {
        &self.targets[turn(due, self.targets.len())]
    }

    /// Returns an id for a connection.
    pub(super) fn new_id(&self) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        state.next_id
    }

    /// Takes a request for a connection that is free. Without one, the connection is idle.
    /// `was_idle` says that it was idle until now: what it takes is late by our fault.
    pub(super) fn next(
        &self,
        id: u64,
        now: u64,
        was_idle: bool,
        channel: impl FnOnce() -> Channel,
    ) -> Next {
        let mut state = self.lock();
        let next = state.next(id, now, channel);
        if let (Next::Send(due), true) = (next, was_idle) {
            state.tally(due).late.saturating_record(now - due.planned);
        }
        next
    }

    /// Counts a request that has ended, and takes the next one as [`next`](Self::next) does.
    pub(super) fn ended_and_next(
        &self,
        id: u64,
        ended: &Ended,
        channel: impl FnOnce() -> Channel,
    ) -> Next {
        let mut state = self.lock();
        state.ended(ended);
        state.next(id, ended.now, channel)
    }

    /// Counts a request whose connection ends with it.
    pub(super) fn ended(self: &Arc<Self>, ended: &Ended) {
        self.lock().ended(ended);
        self.arm(ended.now);
    }

    /// Replaces a connection that has ended.
    pub(super) fn lost(self: &Arc<Self>, id: u64) {
        let mut state = self.lock();
        state.idle.retain(|(other, _)| *other != id);
        let is_over = state.is_over;
        drop(state);
        if !is_over {
            self.connect(PAUSE.0);
        }
    }

    /// Sets the timer, if it would ring later than it should.
    pub(super) fn arm(self: &Arc<Self>, at: u64) {
        let now = self.now();
        let at = at.max(now);
        let mut state = self.lock();
        if at >= state.armed || state.is_over {
            return;
        }
        state.armed = at;
        drop(state);
        let lane = Arc::downgrade(self);
        let ring = move || {
            if let Some(lane) = lane.upgrade() {
                lane.ring(at);
            }
        };
        // Refused only if the loop ends.
        let _ = self.home.schedule(Duration::from_nanos(at - now), ring);
    }

    /// Wakes as many idle connections as requests are due.
    fn ring(self: &Arc<Self>, at: u64) {
        let now = self.now();
        let mut state = self.lock();
        if state.armed != at {
            // A later timer was replaced by this one, or the other way round.
            return;
        }
        state.armed = u64::MAX;
        state.give_up(now);
        let due = state.dispatch.due(now, state.idle.len());
        let left = state.idle.len() - due;
        let woken = state.idle.split_off(left);
        let next = match left {
            0 => now + HOUSEKEEPING,
            _ => {
                let next = state.dispatch.next_at().unwrap_or(u64::MAX);
                next.min(now + HOUSEKEEPING)
            }
        };
        let done = state.is_done(now).then(|| state.done.take()).flatten();
        let is_over = state.is_over;
        drop(state);
        for (_, channel) in woken {
            channel.fire_event(Wake);
        }
        match done {
            Some(done) => {
                self.close();
                done();
            }
            None if is_over => {}
            None => self.arm(next.max(now + 1)),
        }
    }

    /// Makes a connection. After a failure, tries again after a pause.
    fn connect(self: &Arc<Self>, pause: Duration) {
        let Some(client) = self.client.get() else {
            return;
        };
        let lane = Arc::downgrade(self);
        let connected = client.connect_on(&self.home, self.address);
        connected.finally(move |outcome| {
            if let (Done::Failure(why), Some(lane)) = (outcome, lane.upgrade()) {
                lane.connect_later(why.to_string(), pause);
            }
        });
    }

    fn connect_later(self: &Arc<Self>, why: String, pause: Duration) {
        let mut state = self.lock();
        state.tallies[0].connect_failures += 1;
        state.tallies[0].connect_failure = Some(why);
        let is_over = state.is_over;
        drop(state);
        if is_over {
            return;
        }
        let lane: Weak<Self> = Arc::downgrade(self);
        let again = move || {
            if let Some(lane) = lane.upgrade() {
                lane.connect((pause * 2).min(PAUSE.1));
            }
        };
        // Refused only if the loop ends.
        let _ = self.home.schedule(pause, again);
    }

    fn now(&self) -> u64 {
        self.home.clock().nanos()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Sends a request.
    Send(Due),
    /// Waits, at least until this time if one is known.
    Wait(Option<u64>),
    /// Closes, because the run is over.
    Close,
}

impl State {
    fn next(&mut self, id: u64, now: u64, channel: impl FnOnce() -> Channel) -> Next {
        if self.is_over {
            return Next::Close;
        }
        match self.dispatch.take(now) {
            Some(due) => {
                self.in_flight += 1;
                Next::Send(due)
            }
            None => {
                self.idle.push((id, channel()));
                let at = match self.is_done(now) {
                    true => Some(now),
                    false => self.dispatch.next_at(),
                };
                Next::Wait(at.filter(|at| *at < self.armed))
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match self.dispatch.is_after(ended.now) {
            true => self.tally(ended.due).record_after(ended),
            false => self.tally(ended.due).record(ended),
        }
    }

    fn tally(&mut self, due: Due) -> &mut Tally {
        let at = turn(due, self.tallies.len());
        &mut self.tallies[at]
    }

    /// Counts the requests that have waited for too long.
    fn give_up(&mut self, now: u64) {
        while let Some(due) = self.dispatch.expire(now) {
            self.tally(due).record(&Ended {
                due,
                sent: now,
                now,
                outcome: Outcome::Unsent,
                bytes: 0,
            });
        }
    }

    fn is_done(&self, now: u64) -> bool {
        self.in_flight == 0 && self.dispatch.is_over(now)
    }
}

/// Returns whose turn it is.
fn turn(due: Due, targets: usize) -> usize {
    usize::try_from(due.number).unwrap_or(0) % targets
}

tidegate_core::debug_fields!(Lane, this => address: this.address);
