//! What one client of a stream has seen, and the events for it.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tidegate_isolate::{Isolation, Key, RequestContext};

use super::{samples, sisters};

/// The event streams of Hystrix for one client: `hystrix.stream`, which the Hystrix dashboard and
/// Turbine read, and its sister streams.
///
/// It only makes the text. Any HTTP server can serve it: write a [`sample`](HystrixStream::sample)
/// every [`PERIOD`](HystrixStream::PERIOD), with the content type
/// [`CONTENT_TYPE`](HystrixStream::CONTENT_TYPE) and without a content length.
///
/// ```
/// use std::time::SystemTime;
/// use tidegate_isolate::{Command, Isolation};
/// use tidegate_metrics::HystrixStream;
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// prices.run(|_| Ok(1)).unwrap();
///
/// let mut stream = HystrixStream::new(&isolation); // one for each client
/// let sample = stream.sample(SystemTime::now());
/// assert!(sample.starts_with(r#"data: {"type":"HystrixCommand","name":"prices","group":"catalog""#));
/// assert!(sample.ends_with("}\n\n"));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
///
/// A client that reads slowly delays nothing but itself: take a sample when it can be written, and
/// leave out the others.
pub struct HystrixStream {
    isolation: Isolation,
    commands: BTreeSet<Key>,
    pools: BTreeSet<Key>,
}

impl HystrixStream {
    /// The content type of every stream.
    pub const CONTENT_TYPE: &str = "text/event-stream;charset=UTF-8";
    /// The header `Cache-Control` of every stream.
    pub const CACHE_CONTROL: &str = "no-cache, no-store, max-age=0, must-revalidate";
    /// The time between two samples, as in Hystrix.
    pub const PERIOD: Duration = Duration::from_millis(500);
    /// A line that readers ignore. It keeps a connection open that has nothing else to send.
    pub const PING: &str = "ping: \n\n";

    /// Creates the streams of a client that has seen nothing yet.
    pub fn new(isolation: &Isolation) -> Self {
        Self {
            isolation: isolation.clone(),
            commands: BTreeSet::new(),
            pools: BTreeSet::new(),
        }
    }

    /// Returns the events of a sample of `hystrix.stream`: all commands, then all pools, then the
    /// removal of those that the client has seen and that exist no more. Returns
    /// [`PING`](HystrixStream::PING) if there is nothing to tell. `time` is the wall-clock time.
    pub fn sample(&mut self, time: SystemTime) -> String {
        let time = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let commands = self.isolation.snapshots();
        let pools = self.isolation.pool_snapshots();
        let mut text = String::new();
        for one in &commands {
            text += &event(&samples::command(one, time));
        }
        for one in &pools {
            text += &event(&samples::pool(one, time));
        }
        let known = commands.into_iter().map(|one| one.key).collect();
        let gone = std::mem::replace(&mut self.commands, known);
        for key in gone.difference(&self.commands) {
            text += &event(&samples::removal("HystrixCommand", key.as_str()));
        }
        let known = pools.into_iter().map(|one| one.key).collect();
        let gone = std::mem::replace(&mut self.pools, known);
        for key in gone.difference(&self.pools) {
            text += &event(&samples::removal("HystrixThreadPool", key.as_str()));
        }
        if text.is_empty() {
            text += Self::PING;
        }
        text
    }

    /// Returns an event with the settings of all commands and pools, for `config.stream`.
    pub fn config(&self) -> String {
        let isolation = &self.isolation;
        event(&sisters::config(
            &isolation.snapshots(),
            &isolation.pool_snapshots(),
        ))
    }

    /// Returns an event with the number of active calls of all commands and pools, for
    /// `utilization.stream`.
    pub fn utilization(&self) -> String {
        let isolation = &self.isolation;
        event(&sisters::utilization(
            &isolation.snapshots(),
            &isolation.pool_snapshots(),
        ))
    }

    /// Returns an event with the calls of a finished request, for `request.stream`.
    pub fn request(request: &RequestContext) -> String {
        event(&sisters::request(&request.log()))
    }
}

tidegate_core::debug_fields!(HystrixStream, this => commands: this.commands.len(), pools: this.pools.len());

/// Returns one event. The JSON has no line ends: they are escaped.
fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}
