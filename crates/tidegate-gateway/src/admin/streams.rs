//! `hystrix.stream` and its sister streams: their clients and their periods.
//!
//! A client gets a sample at once, then one for each period, and a line that readers ignore in
//! between. A client that reads slowly misses samples and delays nothing but itself.
//!
//! Invariant: at most as many clients as the settings say, over all streams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate::http::{Response, ResponseStream};
use tidegate::isolate::Isolation;
use tidegate::loops::EventLoop;
use tidegate::metrics::HystrixStream;
use tidegate_core::permits::{Permit, Permits};

use super::event::WallTime;
use super::guests::Kept;
use super::place::StreamKind;

/// The time between two lines that a client gets at least.
const PING_PERIOD: Duration = Duration::from_millis(500);
/// The periods that a client may wish.
const DELAYS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);

/// The periods of the streams, and the number of their clients, with the names of Hystrix. They
/// are read at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// `hystrix.stream.dashboard.intervalInMilliseconds`: the period of `hystrix.stream`.
    pub dashboard: Duration,
    /// `hystrix.stream.config.intervalInMilliseconds`: the period of `config.stream`.
    pub config: Duration,
    /// `hystrix.stream.utilization.intervalInMilliseconds`: the period of `utilization.stream`.
    pub utilization: Duration,
    /// `hystrix.config.stream.maxConcurrentConnections`: the most clients of all streams.
    pub max_clients: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            dashboard: HystrixStream::PERIOD,
            config: Duration::from_secs(5),
            utilization: HystrixStream::PERIOD,
            max_clients: 5,
        }
    }
}

impl StreamSettings {
    /// Reads the settings from properties. What is missing has its default.
    ///
    /// # Errors
    ///
    /// Which property is not a positive number.
    pub fn from_properties(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = Self::default();
        let periods = [
            (
                "hystrix.stream.dashboard.intervalInMilliseconds",
                &mut settings.dashboard,
            ),
            (
                "hystrix.stream.config.intervalInMilliseconds",
                &mut settings.config,
            ),
            (
                "hystrix.stream.utilization.intervalInMilliseconds",
                &mut settings.utilization,
            ),
        ];
        for (name, period) in periods {
            if let Some(millis) = number(name, get)? {
                *period = Duration::from_millis(millis);
            }
        }
        let name = "hystrix.config.stream.maxConcurrentConnections";
        if let Some(clients) = number(name, get)? {
            settings.max_clients = usize::try_from(clients).unwrap_or(usize::MAX);
        }
        Ok(settings)
    }

    fn period(&self, kind: StreamKind) -> Duration {
        match kind {
            StreamKind::Dashboard => self.dashboard,
            StreamKind::Config => self.config,
            StreamKind::Utilization => self.utilization,
        }
    }
}

fn number(name: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Option<u64>, String> {
    let Some(text) = get(name) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => Err(format!(
            "the property `{name}` is not a positive whole number"
        )),
    }
}

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
    settings: StreamSettings,
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
    kind: StreamKind,
    events: HystrixStream,
    period: Duration,
    /// When the next sample is due, by the clock of the loop.
    due: u64,
    _place: Permit,
    _kept: Kept,
}

impl Streams {
    pub(super) fn new(
        home: EventLoop,
        isolation: &Isolation,
        settings: StreamSettings,
        wall: WallTime,
    ) -> Arc<Self> {
        Arc::new(Self {
            home,
            isolation: isolation.clone(),
            settings,
            places: Permits::new(settings.max_clients),
            wall,
            clients: Mutex::default(),
        })
    }

    /// Begins a stream, or refuses it with status 503: too many clients, or the gateway ends.
    pub(super) fn begin(
        self: &Arc<Self>,
        kind: StreamKind,
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
            let most = self.settings.max_clients;
            let text = format!("at most {most} clients read the streams, and none after the end\n");
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
            kind,
            events: HystrixStream::new(&self.isolation),
            period: delay.unwrap_or(self.settings.period(kind)),
            due: 0,
            _place: place,
            _kept: kept,
        };
        let slot = Arc::new(Mutex::new(Some(client)));
        let mut clients = locked(&self.clients);
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
        let mut clients = locked(&self.clients);
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
        let mut held = locked(slot);
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
        let mut clients = locked(&self.clients);
        clients.list.retain(|slot| slot.strong_count() > 0);
        let slots: Vec<_> = clients.list.iter().filter_map(Weak::upgrade).collect();
        drop(clients);
        for slot in slots {
            let mut held = locked(&slot);
            let gone = held.take_if(|client| client.stream.is_closed());
            drop(held);
            drop(gone);
        }
    }

    fn is_closed(&self) -> bool {
        locked(&self.clients).is_closed
    }
}

impl Client {
    /// Returns the next sample if it is due, and a line that readers ignore otherwise.
    fn next(&mut self, now: u64, time: std::time::SystemTime) -> String {
        if now < self.due {
            return HystrixStream::PING.to_owned();
        }
        self.due = now.saturating_add(self.period.as_nanos() as u64);
        match self.kind {
            StreamKind::Dashboard => self.events.sample(time),
            StreamKind::Config => self.events.config(),
            StreamKind::Utilization => self.events.utilization(),
        }
    }
}

/// Ends a stream.
fn finish(slot: &Slot) {
    let client = locked(slot).take();
    if let Some(client) = client {
        client.stream.finish();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    //! The settings of streams.

    use std::time::Duration;

    use super::{StreamSettings, delay};

    #[test]
    fn the_settings_are_those_of_hystrix() {
        let defaults = StreamSettings::from_properties(&|_| None).unwrap();
        let millis = Duration::from_millis;
        assert_eq!((defaults.dashboard, defaults.max_clients), (millis(500), 5));
        assert_eq!(
            (defaults.config, defaults.utilization),
            (millis(5000), millis(500))
        );
        let set = StreamSettings::from_properties(&|name| {
            let value = match name {
                "hystrix.stream.dashboard.intervalInMilliseconds" => "250",
                "hystrix.stream.config.intervalInMilliseconds" => "1000",
                "hystrix.stream.utilization.intervalInMilliseconds" => "750",
                "hystrix.config.stream.maxConcurrentConnections" => "2",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let set = set.unwrap();
        assert_eq!((set.dashboard, set.config), (millis(250), millis(1000)));
        assert_eq!((set.utilization, set.max_clients), (millis(750), 2));
        for wrong in ["0", "-1", "fast"] {
            let error = StreamSettings::from_properties(&|_| Some(wrong.to_owned()));
            assert!(
                error
                    .unwrap_err()
                    .contains("dashboard.intervalInMilliseconds")
            );
        }
    }

    #[test]
    fn a_delay_is_a_number_within_bounds() {
        assert_eq!(delay("2000"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("0"), Ok(Duration::from_millis(100)));
        assert_eq!(delay("99999999"), Ok(Duration::from_secs(60)));
        assert!(delay("x").is_err());
    }
}
