//! The reactor of a roaming loop: poller, ready sources, updates; makes a task of each event.
//!
//! It lies in the loop's core and moves with it between threads. Nothing else reaches it:
//! whatever others want of it is an update.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Clock, Sleeper, Task, as_nanos, contain};
use tidegate_loop::{Driver, Health};

use super::super::batch::receive_ahead;
use super::super::care::Care;
use super::super::poll_driver::IoWatch;
use super::super::source::{Next, SourceHandle, watch};
use super::trip::Trip;
use super::updates::{MakeTraveller, OnRegistered, Roam, Traveller, Update};
use crate::errors::clone_io_error;
use crate::events::{Arrivals, Slab, Taken};
use crate::metrics::Counters;
use crate::sys::{Poller, Readiness, Ready, Token};

/// How long a loop whose pool took no more waits before it asks again.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Empty trips that are kept for the next ones.
const SPARE_TRIPS: usize = 64;

/// What a roaming loop with I/O waits on.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_loop::{Crew, EventLoop};
/// use tidegate_pool::WorkerPool;
/// use tidegate_net::RoamDriver;
/// use tidegate_net::sys::MioPoller;
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let driver = RoamDriver::new(MioPoller::new()?);
/// let home = EventLoop::builder("io").build_over(driver, &Crew::of(pool))?;
/// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RoamDriver {
    poller: Box<dyn Poller>,
    waker: Arc<dyn Sleeper>,
    arrivals: Arrivals,
    /// Who found no thread; asked again when one may be free.
    refused: Vec<Ready>,
    pub(super) sources: Slab<Traveller>,
    /// The handles of the sources that have one, at home or away.
    handles: HashMap<u64, Arc<dyn SourceHandle>>,
    /// Sources that are on a trip.
    pub(super) away: usize,
    #[expect(clippy::vec_box, reason = "they move between here and tasks")]
    trips: Vec<Box<Trip>>,
    roam: Arc<Roam>,
    updates: Vec<Update>,
    counters: Arc<Counters>,
    care: Care,
    /// How often the poller has begun anew, and how many of those who were absent then still are.
    epoch: u32,
    strangers: usize,
    /// The loop closes: nobody is told anything more.
    closing: bool,
}

impl RoamDriver {
    /// A driver that asks `poller`.
    pub fn new(poller: impl Poller) -> Self {
        let waker = poller.waker();
        Self {
            roam: Roam::new(Arc::clone(&waker)),
            poller: Box::new(poller),
            waker,
            arrivals: Arrivals::new(),
            refused: Vec::new(),
            sources: Slab::new(1),
            handles: HashMap::new(),
            away: 0,
            trips: Vec::new(),
            updates: Vec::new(),
            counters: Arc::default(),
            care: Care::default(),
            epoch: 0,
            strangers: 0,
            closing: false,
        }
    }

    /// A view of this driver's counters, for after it has been given to a loop.
    pub fn watch(&self) -> IoWatch {
        IoWatch::of_roaming(Arc::clone(&self.counters), Arc::clone(&self.roam))
    }

    pub(crate) fn roam(&self) -> &Arc<Roam> {
        &self.roam
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        let polled = self
            .arrivals
            .poll(&mut *self.poller, timeout, &self.counters);
        match polled {
            Ok(_) => self.care.worked(),
            Err(why) => {
                if self.care.failed(&why, &self.counters) {
                    self.renew();
                }
            }
        }
    }

    /// Puts a fresh poller in the place of this one. Who is at home is moved at once, and closed if
    /// that cannot be; who is away when it comes home.
    #[cold]
    fn renew(&mut self) {
        let homes = self.sources.homes_mut();
        let watched = homes.filter_map(|(token, source)| Some((token, source.io()?)));
        // If there is none to be had the old one goes on, and is asked again.
        let Ok(lost) = self.poller.renew(watched.collect()) else {
            return;
        };
        self.counters.fresh_pollers.add(1);
        self.epoch += 1;
        self.strangers = self.away;
        if self.strangers == 0 {
            self.poller.forget();
        }
        for token in lost {
            self.close_home(token);
        }
    }

    /// Has a source watched that was away when the poller began anew; false if that cannot be.
    #[cold]
    fn adopt(&mut self, token: Token, source: Option<&mut Traveller>) -> bool {
        let adopted = match source.and_then(|source| source.io()) {
            Some(io) => self.poller.adopt(io, token).is_ok(),
            None => true,
        };
        self.strangers = self.strangers.saturating_sub(1);
        if self.strangers == 0 {
            self.poller.forget();
        }
        adopted
    }

    /// The next event to tell. Who is told of it may have received before, unless others run what
    /// this loop finds: they receive where they are, all at once.
    #[inline]
    fn next_ready(&mut self) -> Option<Ready> {
        if let Some(group) = self.arrivals.group()
            && self.away == 0
            && let Some(trip) = self.trips.last_mut()
        {
            receive_ahead(group, &mut self.sources, &mut trip.desk, false);
        }
        self.arrivals.next()
    }

    /// Does what others asked for; true if there was any.
    fn take_updates(&mut self) -> bool {
        let mut updates = std::mem::take(&mut self.updates);
        self.roam.take(&mut updates);
        let any = !updates.is_empty();
        for update in updates.drain(..) {
            self.update(update);
        }
        self.updates = updates;
        any
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::Register(make, done) => self.register(make, done),
            Update::Tell(token, readiness) => self.arrivals.push_due(token, readiness),
            Update::Mail(token) => self.mail(token),
            Update::Home(trip, next) => {
                self.home(trip, next);
                // Somebody has become free.
                self.ask_refused_again();
            }
            Update::Refused(trip) => {
                let ready = Ready {
                    token: trip.token,
                    readiness: trip.readiness,
                };
                self.home(trip, Next::Stay);
                self.refused.push(ready);
            }
            Update::Handles(hear) => hear(self.handles.values().cloned().collect()),
        }
    }

    fn register(&mut self, make: MakeTraveller, done: OnRegistered) {
        if self.closing {
            return done(Err(io::ErrorKind::NotConnected.into()));
        }
        let token = self.sources.reserve();
        let mut source = make(token);
        let watched = match source.io() {
            Some(io) => self.poller.register(io, token),
            None => Ok(()),
        };
        if let Err(why) = watched {
            self.sources.remove(token);
            source.watched(Err(clone_io_error(&why)));
            drop(source);
            return done(Err(why));
        }
        if let Some(handle) = source.handle() {
            self.handles.insert(token.bits(), handle);
        }
        let _ = self.sources.put(token, source);
        self.count();
        done(Ok(()));
        self.arrivals.push_due(token, Readiness::MAIL);
    }

    /// A channel has mail. One that is gone has none: it refused all of it when it closed.
    fn mail(&mut self, token: Token) {
        if self.sources.slot_exists(token) {
            self.arrivals.push_due(token, Readiness::MAIL);
        }
    }

    /// Takes a source back.
    fn home(&mut self, mut trip: Box<Trip>, next: Next) {
        self.away -= 1;
        let token = trip.token;
        if trip.epoch != self.epoch && !self.adopt(token, trip.source.as_mut()) || self.closing {
            trip.close();
        }
        match trip.source.take() {
            None => self.forget(token),
            Some(source) => {
                if let Ok(mut missed) = self.sources.put(token, source) {
                    if let Next::Again(readiness) = next {
                        missed |= readiness;
                        self.counters.again.add(1);
                    }
                    if let Next::Watch(yes) = next
                        && let Some(source) = self.sources.get_mut(token)
                    {
                        watch(&mut *self.poller, &mut **source, token, yes);
                        missed |= Readiness::MAIL;
                    }
                    if !missed.is_none() {
                        let readiness = missed;
                        self.arrivals.push_again(Ready { token, readiness });
                    }
                }
            }
        }
        if self.trips.len() < SPARE_TRIPS {
            self.trips.push(trip);
        }
    }

    fn ask_refused_again(&mut self) {
        for ready in self.refused.drain(..) {
            self.arrivals.push_again(ready);
        }
    }

    fn forget(&mut self, token: Token) {
        self.sources.remove(token);
        self.handles.remove(&token.bits());
        self.count();
    }

    /// The peer of the connection that `token` names.
    fn called(&self, token: Token) -> String {
        let handle = self.handles.get(&token.bits());
        let peer = handle.and_then(|handle| handle.peer_addr());
        peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string())
    }

    fn count(&self) {
        self.counters.registered.set(self.sources.len() as u64);
    }

    /// Says goodbye for everybody who is at home.
    fn close_homes(&mut self) {
        for token in self.sources.tokens() {
            self.close_home(token);
        }
    }

    fn close_home(&mut self, token: Token) {
        let Taken::Home(source) = self.sources.take(token, Readiness::NONE) else {
            return;
        };
        let mut trip = self.trips.pop().unwrap_or_else(|| Trip::new(&self.roam));
        trip.source = Some(source);
        trip.close();
        self.trips.push(trip);
        self.forget(token);
    }
}

impl Driver for RoamDriver {
    const LOOKS_ON: bool = false;

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        let any = self.take_updates();
        if self.closing && any {
            // Whoever waits for the last one to come home has to look again.
            return;
        }
        if self.arrivals.len() > 0 || !self.roam.fall_asleep() {
            return self.poll(Some(Duration::ZERO));
        }
        let pause = (!self.refused.is_empty()).then(|| clock.nanos() + as_nanos(REFUSED_PAUSE));
        let deadline = deadline.into_iter().chain(pause).min();
        let waker = Arc::clone(&self.waker);
        clock.sleep_until(&waker, deadline, |timeout| self.poll(timeout));
        self.roam.wake_up();
        let ready = self.arrivals.said() > 0;
        if self.care.waited(ready, &*waker, clock, deadline) {
            self.renew();
        }
        self.ask_refused_again();
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    fn health(&self) -> Health {
        self.care.health()
    }

    #[inline]
    fn next_task(&mut self) -> Option<Task> {
        self.take_updates();
        while !self.closing {
            let ready = self.next_ready()?;
            match self.sources.take(ready.token, ready.readiness) {
                Taken::Home(source) => {
                    let kind = source.blocking();
                    let mut trip = self.trips.pop().unwrap_or_else(|| Trip::new(&self.roam));
                    trip.token = ready.token;
                    trip.epoch = self.epoch;
                    trip.readiness = ready.readiness;
                    trip.source = Some(source);
                    self.away += 1;
                    return Some(trip.task(kind));
                }
                Taken::Away => {}
                Taken::Stale => self.counters.stale.add(1),
            }
        }
        None
    }

    fn look(&mut self) {
        self.take_updates();
        self.poll(Some(Duration::ZERO));
    }

    fn backlog(&self) -> usize {
        self.arrivals.len()
    }

    fn is_idle(&self) -> bool {
        self.sources.len() == 0 && self.roam.is_empty()
    }

    fn wind_up(&mut self) -> bool {
        self.closing = true;
        self.take_updates();
        let _ = contain(|| self.close_homes());
        self.away == 0
    }

    fn absent(&self) -> Vec<String> {
        let away = |token: &Token| self.sources.peek(*token).is_none();
        let tokens = self.sources.tokens().into_iter().filter(away);
        tokens.map(|token| self.called(token)).collect()
    }

    fn close(&mut self) {
        self.wind_up();
        for update in self.roam.close() {
            self.update(update);
        }
    }
}

impl Drop for RoamDriver {
    /// Dropped before its loop came to an end: who is home is closed, and who comes home later
    /// finds nobody and ends there, instead of lying in an inbox that it keeps alive itself.
    fn drop(&mut self) {
        let _ = contain(|| self.close());
    }
}

impl fmt::Debug for RoamDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoamDriver")
            .field("sources", &self.sources.len())
            .field("away", &self.away)
            .finish_non_exhaustive()
    }
}
