//! Runs the demo: starts everything, draws the table, does what keys and signals ask for.

use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate::isolate::{Isolation, Properties};
use tidegate::loops::Quiet;
use tidegate::net::NetGroup;
use tidegate::signal;

use super::keys::Wish;
use super::settings::{FILE, Settings};
use super::switches::Switches;
use super::table::summary;
use super::upstreams::{NAMES, Upstreams};
use super::view::View;
use crate::config::{ConfigFile, show_duration};
use crate::fields::Ids;
use crate::load::{Dispatch, Lane, LaneSettings, Shape, Target, nanos};
use crate::notify::Notifier;
use crate::reports::Reports;
use crate::resolver::Resolver;
use crate::screen::{KeyMode, Size};
use crate::serve::{Operation, OperationParts};
use crate::signals;

/// The requests per second on each route. A build without optimisation copes with fewer.
const RATE: u32 = if cfg!(debug_assertions) { 100 } else { 400 };
/// The connections of the client, for all routes together.
const CONNECTIONS: usize = 64;
/// How long a request waits for a connection, and how long it takes at most.
const PATIENCE: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(2);
/// A success after this time is slow.
const WITHIN: Duration = Duration::from_millis(300);
/// The time between two tables in a terminal, and elsewhere.
const LIVE: Duration = Duration::from_millis(500);
const PLAIN: Duration = Duration::from_secs(2);
/// The usual ports of the gateway and of the page.
const PORTS: (u16, u16) = (8080, 9090);
/// How long the loops may take to end.
const END: Duration = Duration::from_secs(1);

/// What the demo waits for.
enum Event {
    Key(u8),
    Signal,
}

/// Runs the demo until the user ends it, or for a time. Returns the status of the process.
pub(crate) fn demo(duration: Option<Duration>, out: &mut dyn Write) -> u8 {
    // Before the mode of the terminal is changed, so that no signal leaves it changed.
    let (send, events) = channel();
    for signal in [signal::interrupt(), signal::terminate(), signal::hangup()] {
        let send = send.clone();
        signals::each(signal, move || send.send(Event::Signal).is_ok());
    }
    let demo = match Demo::start(duration) {
        Ok(demo) => demo,
        Err(why) => {
            let _ = writeln!(out, "the demo cannot start: {why}");
            return 1;
        }
    };
    // A reader that has left ends the demo, and is not a failure.
    let shown = demo.show(&events, send, out);
    let lines = demo.end();
    if shown.is_ok() {
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }
    0
}

/// The gateway of the demo.
struct Front {
    switches: Arc<Switches>,
    operation: Arc<Operation>,
    parts: OperationParts,
}

impl Front {
    /// Starts the upstreams and the gateway on these ports; 0 is any port that is free.
    fn start(ports: (u16, u16)) -> tidegate::Result<Self> {
        let upstreams = Upstreams::start()?;
        let ids = Ids::new();
        let settings = Arc::new(Settings {
            ports,
            token: format!("{:016x}{:016x}", ids.next(), ids.next()),
            upstreams: upstreams.addresses(),
            has_bulkheads: AtomicBool::new(true),
        });
        let switches = Arc::new(Switches {
            upstreams,
            settings: Arc::clone(&settings),
            operation: OnceLock::new(),
        });
        let properties = Properties::new();
        let group = tidegate::net::pinned("gateway", 1)?;
        let reports = Reports::new(group.loops().next().clock().clone());
        let isolation = Isolation::builder().properties(properties.clone());
        let parts = OperationParts {
            own: tidegate::net::pinned("operate", 1)?,
            isolation: reports.events.observe(isolation, &reports.wall).build()?,
            properties,
            reports,
            resolver: Resolver::system(),
            notifier: Arc::new(Notifier::new(None)),
            group,
        };
        let (disk, variables) = (Arc::clone(&settings), settings);
        let variable = move |name: &str| variables.variable(name);
        let file = ConfigFile::new(FILE, disk, Arc::new(variable));
        let operation = Arc::new(Operation::start(file, parts.clone())?);
        // It is set here only.
        let _ = switches.operation.set(Arc::downgrade(&operation));
        let knobs = Arc::downgrade(&switches);
        operation.show_knobs(knobs);
        Ok(Self {
            switches,
            operation,
            parts,
        })
    }

    /// Returns the address of a listener.
    fn address(&self, wanted: &str) -> String {
        let mut all = self.operation.addresses().into_iter();
        let found = all.find(|(name, _)| name == wanted);
        found.map_or(String::new(), |(_, address)| address)
    }
}

/// Everything that runs.
struct Demo {
    duration: Option<Duration>,
    front: Front,
    lane: Arc<Lane>,
    /// The loop of the load.
    load: NetGroup,
    start: u64,
}

impl Demo {
    fn start(duration: Option<Duration>) -> tidegate::Result<Self> {
        let front = Front::start((port(PORTS.0), port(PORTS.1)));
        // A port may have been taken in between.
        let front = front.or_else(|_| Front::start((0, 0)))?;
        let load = tidegate::net::pinned("load", 1)?;
        let home = load.loops().next().clone();
        let gateway = front.address("http");
        let target = |name| Target::new(&format!("http://{gateway}/{name}"), "GET", &[], b"");
        let settings = LaneSettings {
            targets: NAMES.into_iter().map(target).collect::<Result<_, _>>()?,
            address: gateway.parse()?,
            connections: CONNECTIONS,
            timeout: TIMEOUT,
            within: WITHIN,
        };
        let rate = f64::from(RATE) * NAMES.len() as f64;
        let start = home.clock().nanos();
        let end = duration.map_or(u64::MAX, |time| start.saturating_add(nanos(time)));
        let dispatch = Dispatch::new(Shape::Rate(rate), (0, 1), start, end, PATIENCE);
        let lane = Lane::start(settings, dispatch, &load, &home, Box::new(|| {}));
        Ok(Self {
            duration,
            front,
            lane,
            load,
            start,
        })
    }

    /// Shows the table until the end.
    fn show(
        &self,
        events: &Receiver<Event>,
        send: Sender<Event>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let is_live = Size::of_output().is_some();
        let press = move |key| drop(send.send(Event::Key(key)));
        // The terminal gets its mode back when this is dropped.
        let keys = is_live.then(|| KeyMode::start(press)).flatten();
        out.write_all(self.heading(keys.is_some()).as_bytes())?;
        out.flush()?;
        let mut view = View::new(keys.is_some());
        let (mut drawn, mut note) = (self.start, None);
        loop {
            let period = if is_live { LIVE } else { PLAIN };
            let next = drawn.saturating_add(nanos(period)).min(self.until());
            let pause = Duration::from_nanos(next.saturating_sub(self.now()));
            match events.recv_timeout(pause) {
                Ok(Event::Signal) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Event::Key(key)) => match view.keys.pressed(key) {
                    Some(Wish::Quit) => return Ok(()),
                    Some(wish) => note = self.front.switches.grant(wish).err(),
                    None => {}
                },
                Err(RecvTimeoutError::Timeout) if self.now() >= self.until() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.now();
                    let since = Duration::from_nanos(now - drawn);
                    view.sample(&self.lane, &self.front.parts.isolation, since);
                    drawn = now;
                }
            }
            view.draw(&self.front.switches, note.as_deref(), out)?;
        }
    }

    /// Returns the first lines.
    fn heading(&self, has_keys: bool) -> String {
        let routes = NAMES.map(|name| format!("/{name}")).join(" ");
        let end = match (self.duration, has_keys) {
            (Some(time), _) => format!("for {}", show_duration(time)),
            (None, true) => "press q to stop".to_owned(),
            (None, false) => "Ctrl-C stops it".to_owned(),
        };
        format!(
            "dashboard  http://{}/#token={}\ngateway    http://{}/   routes: {routes}\n\
             load       {RATE} req/s on each route; {end}\n\n",
            self.front.address("admin"),
            self.front.switches.settings.token,
            self.front.address("http"),
        )
    }

    /// Ends everything and returns the summary.
    fn end(self) -> String {
        let elapsed = self.now().min(self.until()) - self.start;
        self.lane.close();
        let tallies = self.lane.tallies();
        let rows: Vec<_> = NAMES.into_iter().zip(&tallies).collect();
        let text = summary(&rows, elapsed as f64 / 1e9).join("\n");
        let operation = self.front.operation;
        // What does not end in time ends with the process.
        let _ = operation.drain().wait_timeout(END);
        operation.close();
        drop(self.load.loops().shutdown(Quiet::none(END)));
        format!("{text}\n")
    }

    fn until(&self) -> u64 {
        let end = self
            .duration
            .map(|time| self.start.saturating_add(nanos(time)));
        end.unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        self.load.loops().next().clock().nanos()
    }
}

/// Returns a port if it is free, and otherwise 0: any other.
fn port(usual: u16) -> u16 {
    TcpListener::bind(("127.0.0.1", usual)).map_or(0, |_| usual)
}
