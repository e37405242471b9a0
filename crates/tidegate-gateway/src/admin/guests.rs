//! The connections of the listener, and which of them makes room for another one.
//!
//! Probes of an orchestrator have no token, and neither has a client that opens connections and
//! sends nothing, or reads none of its responses. So there is always a place: if all are taken, one of the
//! others is closed.
//!
//! * *Kept*: it waits for a response that a thread prepares, or reads a stream. It is never closed.
//! * *Stalled*: its client does not read a response. Nothing more is read from it, so its last request
//!   says since when.
//! * *Idle*: all others.
//!
//! The connection that is idle for longest is closed, or, if too few are idle, the one that is stalled for
//! longest.
//!
//! # Invariants
//!
//! * At most [`PLACES`] connections are open, and a few more that are being closed.
//! * At least [`FREE`] of the places are for connections that are idle: so many can be new before
//!   one that has just come is closed. An event loop accepts fewer at a time than that.
//! * A new connection never makes room for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate::net::{Bytes, Channel, Inbound, InboundContext, Nothing};
use tidegate_core::internal::lock;

/// The number of connections.
pub(super) const PLACES: usize = 256;
/// How many places are never kept.
const FREE: usize = 64;
/// How long the first request of a connection may take.
pub(super) const FIRST_TIME: Duration = Duration::from_secs(5);

/// The connections of a listener.
#[derive(Debug, Default)]
pub(super) struct Guests {
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    /// The number of the next connection, and of the next request.
    next: u64,
    taken: HashMap<u64, Seat>,
}

#[derive(Debug)]
struct Seat {
    channel: Channel,
    /// Grows with each request of any connection.
    used: u64,
    has_asked: bool,
    /// How many responses keep the connection.
    kept: usize,
}

/// The number of a connection, as an attribute of its channel.
#[derive(Clone, Copy, Debug)]
struct Number(u64);

impl Guests {
    /// Notes that a connection has sent a whole request.
    pub(super) fn asks(&self, channel: &Channel) {
        let number = channel.attribute::<Number>();
        let mut seats = self.lock();
        let now = seats.step();
        if let Some(seat) = number.and_then(|Number(number)| seats.taken.get_mut(&number)) {
            (seat.used, seat.has_asked) = (now, true);
        }
    }

    /// Keeps a connection until the value is dropped. If too many are kept already, it has no effect.
    pub(super) fn keep(self: &Arc<Self>, channel: &Channel) -> Kept {
        let number = channel.attribute::<Number>();
        let mut seats = self.lock();
        let kept = seats.taken.values().filter(|seat| seat.kept > 0).count();
        let has_place = kept < PLACES - FREE;
        let seat = number.and_then(|Number(number)| seats.taken.get_mut(&number));
        let Some(seat) = seat.filter(|seat| has_place || seat.kept > 0) else {
            return Kept(None);
        };
        seat.kept += 1;
        Kept(number.map(|Number(number)| (Arc::clone(self), number)))
    }

    /// Takes a place for a connection. Returns its number, and the connection that makes room.
    fn enter(&self, channel: &Channel) -> (u64, Option<Channel>) {
        let mut seats = self.lock();
        let number = seats.step();
        // Before the new one is there: it may be a probe.
        let left = match seats.taken.len() < PLACES {
            true => None,
            false => seats.make_room(),
        };
        let seat = Seat {
            channel: channel.clone(),
            used: number,
            has_asked: false,
            kept: 0,
        };
        seats.taken.insert(number, seat);
        (number, left.map(|seat| seat.channel))
    }

    fn leave(&self, number: u64) {
        let left = self.lock().taken.remove(&number);
        // Not under the lock.
        drop(left);
    }

    fn has_asked(&self, number: u64) -> bool {
        let seats = self.lock();
        seats.taken.get(&number).is_some_and(|seat| seat.has_asked)
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        lock(&self.seats)
    }
}

impl Seats {
    fn step(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Removes the connection that makes room for another one.
    fn make_room(&mut self) -> Option<Seat> {
        let others = self.taken.iter().filter(|(_, seat)| seat.kept == 0);
        let others = others.map(|(number, seat)| (seat.is_stalled(), seat.used, *number));
        let others: Vec<_> = others.collect();
        let idle = others.iter().filter(|(is_stalled, ..)| !is_stalled).count();
        let too_few_idle = idle < FREE;
        let left = others
            .iter()
            .min_by_key(|(is_stalled, used, _)| (*is_stalled != too_few_idle, *used));
        left.and_then(|(_, _, number)| self.taken.remove(number))
    }
}

impl Seat {
    /// Returns `true` if the client has not read a response that was made.
    fn is_stalled(&self) -> bool {
        self.channel.pending_bytes() > 0
    }
}

/// Keeps a connection until it is dropped.
#[derive(Debug)]
pub(super) struct Kept(Option<(Arc<Guests>, u64)>);

impl Drop for Kept {
    fn drop(&mut self) {
        let Some((guests, number)) = self.0.take() else {
            return;
        };
        let mut seats = guests.lock();
        let now = seats.step();
        if let Some(seat) = seats.taken.get_mut(&number) {
            seat.kept -= 1;
            seat.used = now;
        }
    }
}

/// Gives each connection its place, and closes one whose first request does not come in time.
#[derive(Debug)]
pub(super) struct Usher {
    guests: Arc<Guests>,
    number: Option<u64>,
}

impl Usher {
    pub(super) fn new(guests: &Arc<Guests>) -> Self {
        Self {
            guests: Arc::clone(guests),
            number: None,
        }
    }
}

impl Inbound for Usher {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let channel = ctx.channel();
        let (number, left) = self.guests.enter(&channel);
        self.number = Some(number);
        channel.set_attribute(Number(number));
        ctx.deadline(0, FIRST_TIME);
        ctx.fire_active();
        if let Some(left) = left {
            drop(left.close());
        }
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if let Some(number) = self.number.take() {
            self.guests.leave(number);
        }
        ctx.fire_inactive();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        if self
            .number
            .is_some_and(|number| !self.guests.has_asked(number))
        {
            ctx.close();
        }
    }
}

/// A connection that ends without its last event gives its place back, too.
impl Drop for Usher {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.guests.leave(number);
        }
    }
}
