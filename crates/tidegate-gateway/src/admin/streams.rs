//! `hystrix.stream`: its clients and their periods.
//!
//! A client gets a sample at once, then one for each period, and a line that readers ignore in
//! between. A client that reads slowly misses samples and delays nothing but itself.
//!
//! Invariant: at most [`MAX_CLIENTS`].

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidegate::http::{Response, ResponseStream};
use tidegate::isolate::Isolation;
use tidegate::loops::EventLoop;
use tidegate::metrics::HystrixStream;
use tidegate_core::internal::lock;
use tidegate_core::permits::{Permit, Permits};

use super::event::WallTime;
use super::guests::Kept;

/// The time between two lines that a client gets at least.
const PING_PERIOD: Duration = Duration::from_millis(500);
/// The periods that a client may wish.
const DELAYS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);

/// The most clients, of the stream and of the page each.
pub(super) const MAX_CLIENTS: usize = 5;

/// Returns the period that a client wishes with `delay=`, in milliseconds.
///
/// # Errors
///
/// The text is not a number. A number that is too small or too large becomes the nearest one.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    let millis: u64 = text
        .parse()
        .map_err(|_| "`delay` is not a number of milliseconds".to_owned())?;
    Ok(Duration::from_millis(millis).clamp(*DELAYS.start(), *DELAYS.end()))
}

/// The streams of a listener.
pub(super) struct Streams {
    home: EventLoop,
    isolation: Isolation,
    places: Permits,
    wall: WallTime,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    list: Vec<Weak<Slot>>,
    is_closed: bool,
}

/// A client, until its stream ends.
type Slot = Mutex<Option<Client>>;

struct Client {
    stream: ResponseStream,
    events: HystrixStream,
    period: Duration,
    /// When the next sample is due, by the clock of the loop.
    due: u64,
    _place: Permit,
    _kept: Kept,
}

impl Streams {
    pub(super) fn new(home: EventLoop, isolation: &Isolation, wall: WallTime) -> Arc<Self> {
        Arc::new(Self {
            home,
            isolation: isolation.clone(),
            places: Permits::new(MAX_CLIENTS),
            wall,
            clients: Mutex::default(),
        })
    }

    /// Begins a stream, or refuses it with status 503: too many clients, or the gateway ends.
    pub(super) fn begin(
        self: &Arc<Self>,
        delay: Option<Duration>,
        response: Response<'_>,
        kept: Kept,
    ) {
        self.forget_closed();
        let place = match self.is_closed() {
            true => None,
            false => self.places.try_acquire(),
        };
        let Some(place) = place else {
            let text =
                format!("at most {MAX_CLIENTS} clients read the stream, and none after the end\n");
            response.status(503).body(text);
            return;
        };
        let stream = response
            .field("Content-Type", HystrixStream::CONTENT_TYPE)
            .field("Cache-Control", HystrixStream::CACHE_CONTROL)
            .field("Pragma", "no-cache")
            .stream();
        let client = Client {
            stream,
            events: HystrixStream::new(&self.isolation),
            period: delay.unwrap_or(HystrixStream::PERIOD),
            due: 0,
            _place: place,
            _kept: kept,
        };
        let slot = Arc::new(Mutex::new(Some(client)));
        let mut clients = lock(&self.clients);
        let is_closed = clients.is_closed;
        clients.list.push(Arc::downgrade(&slot));
        drop(clients);
        match is_closed {
            true => finish(&slot),
            false => self.tick(&slot),
        }
    }

    /// Ends all streams. Later clients are refused.
    pub(super) fn close(&self) {
        let mut clients = lock(&self.clients);
        clients.is_closed = true;
        let list = std::mem::take(&mut clients.list);
        drop(clients);
        for slot in list.iter().filter_map(Weak::upgrade) {
            finish(&slot);
        }
    }

    /// Sends what is due to a client, and comes back. Runs on the loop.
    fn tick(self: &Arc<Self>, slot: &Arc<Slot>) {
        let now = self.home.clock().nanos();
        let mut held = lock(slot);
        let Some(client) = held.as_mut().filter(|client| !client.stream.is_closed()) else {
            let gone = held.take();
            drop(held);
            // Not under the lock.
            drop(gone);
            return;
        };
        if client.stream.is_writable() {
            let text = client.next(now, (self.wall)());
            client.stream.write(text);
        }
        // A sample that the client could not take is tried again with the next line.
        let left = Duration::from_nanos(client.due.saturating_sub(now));
        let pause = match left.is_zero() {
            true => PING_PERIOD,
            false => left.min(PING_PERIOD),
        };
        drop(held);
        let (streams, again) = (Arc::clone(self), Arc::clone(slot));
        let timer = self.home.schedule(pause, move || streams.tick(&again));
        if timer.is_err() {
            // The loop is ending.
            finish(slot);
        }
    }

    /// Forgets the clients that have left, so that their places are free at once.
    fn forget_closed(&self) {
        let mut clients = lock(&self.clients);
        clients.list.retain(|slot| slot.strong_count() > 0);
        let slots: Vec<_> = clients.list.iter().filter_map(Weak::upgrade).collect();
        drop(clients);
        for slot in slots {
            let mut held = lock(&slot);
            let gone = held.take_if(|client| client.stream.is_closed());
            drop(held);
            drop(gone);
        }
    }

    fn is_closed(&self) -> bool {
        lock(&self.clients).is_closed
    }
}

impl Client {
    /// Returns the next sample if it is due, and a line that readers ignore otherwise.
    fn next(&mut self, now: u64, time: std::time::SystemTime) -> String {
        if now < self.due {
            return HystrixStream::PING.to_owned();
        }
        self.due = now.saturating_add(self.period.as_nanos() as u64);
        self.events.sample(time)
    }
}

/// Ends a stream.
fn finish(slot: &Slot) {
    let client = lock(slot).take();
    if let Some(client) = client {
        client.stream.finish();
    }
}

#[cfg(test)]
mod tests {
    //! The period that a client wishes.

    use std::time::Duration;

    use super::delay;

    #[test]
    fn a_delay_is_a_number_within_bounds() {
        assert_eq!(delay("2000"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("0"), Ok(Duration::from_millis(100)));
        assert_eq!(delay("99999999"), Ok(Duration::from_secs(60)));
        assert!(delay("x").is_err());
    }
}
