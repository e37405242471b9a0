//! The listener for operators over pairs of channels within the process, and over Unix sockets, on a
//! clock that the test moves.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod api;
mod flood;
mod pages;
mod refuses;
mod secrets;
mod streams;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use tidegate::isolate::{Command, Isolation, Properties};
use tidegate::metrics::Exporter;
use tidegate::net::NetGroup;
use tidegate::{Dump, ManualClock};
use tidegate_gateway::admin::{
    AdminError, AdminListener, AdminParts, Controls, Events, Knob, ServerReport, SetError,
    SettingReport, UpstreamReport, WallTime,
};
use tidegate_gateway::balance::ServerState;
use tidegate_gateway::config::types::Admin;
use tidegate_gateway::config::{Address, RealDisk, Secret};
use tidegate_gateway::problem::Problems;
use tidegate_net::internal::{LocalNetwork, LocalSocket};
/// The network of all tests.
static NETWORK: LazyLock<LocalNetwork> = LazyLock::new(LocalNetwork::new);
/// How long a client waits for bytes before its test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The path of the one setting.
const PATH: &str = "route.cart.limit.max";
/// The time of all events.
const NOW: Duration = Duration::from_millis(1_700_000_000_123);

/// A gateway with one route and one server.
struct Gateway {
    isolation: Isolation,
    properties: Properties,
    server: ServerState,
    /// The one setting; 0 if it is not set.
    limit: Mutex<u32>,
    is_ready: AtomicBool,
    reloads: Mutex<Result<Vec<String>, String>>,
    knob: Mutex<Knob>,
    /// A dump waits for it.
    dumps: Mutex<()>,
}

impl Gateway {
    fn new(events: &Events) -> (Arc<Self>, Command) {
        let properties = Properties::new();
        let isolation = Isolation::builder().properties(properties.clone());
        let isolation = events.observe(isolation, &wall()).build().unwrap();
        let cart = Command::builder("cart").group("shop").permits(7);
        let cart = cart.build(&isolation).unwrap();
        let gateway = Self {
            isolation,
            properties,
            server: ServerState::new(2, None),
            limit: Mutex::default(),
            is_ready: AtomicBool::new(true),
            reloads: Mutex::new(Ok(Vec::new())),
            dumps: Mutex::default(),
            knob: Mutex::new(Knob {
                name: "flaky".to_owned(),
                title: "upstream flaky".to_owned(),
                choices: vec!["normal".to_owned(), "dead".to_owned()],
                value: "normal".to_owned(),
            }),
        };
        (Arc::new(gateway), cart)
    }
}

impl Controls for Gateway {
    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn settings(&self, route: Option<&str>) -> Vec<SettingReport> {
        let one = SettingReport {
            path: PATH.to_owned(),
            value: self.limit.lock().unwrap().to_string(),
            origin: SettingReport::OPERATOR.to_owned(),
            without_effect: None,
        };
        let has = route.is_none_or(|route| route == "cart");
        has.then_some(one).into_iter().collect()
    }

    fn set(&self, path: &str, value: Option<&str>) -> Result<(), SetError> {
        let mut limit = self.limit.lock().unwrap();
        *limit = match value.map(str::parse) {
            _ if path == "busy" => return Err(SetError::Busy),
            Some(Ok(value)) if path == PATH => value,
            Some(_) => return Err(SetError::Refused(format!("`{path}` is wrong"))),
            None if *limit == 0 => return Err(SetError::NotSet),
            None => 0,
        };
        Ok(())
    }

    fn upstreams(&self) -> Vec<UpstreamReport> {
        let server = ServerReport {
            address: "10.0.0.1:80".to_owned(),
            weight: 2,
            in_flight: self.server.in_flight(),
            calls: self.server.calls(),
            is_up: self.server.is_up(),
            is_found: true,
            is_draining: self.server.is_draining(),
        };
        vec![UpstreamReport {
            name: "shop".to_owned(),
            servers: vec![server],
        }]
    }

    fn knobs(&self) -> Vec<Knob> {
        vec![self.knob.lock().unwrap().clone()]
    }

    fn turn(&self, knob: &str, choice: &str) -> Result<String, String> {
        let mut own = self.knob.lock().unwrap();
        if knob != own.name || !own.choices.iter().any(|one| one == choice) {
            return Err("there is no such choice".to_owned());
        }
        own.value = choice.to_owned();
        Ok(format!("{knob} is {choice}"))
    }

    fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        let is_known = (upstream, server) == ("shop", "10.0.0.1:80");
        if is_known {
            self.server.set_draining(draining);
        }
        is_known
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        self.reloads.lock().unwrap().clone()
    }

    fn dump(&self) -> Dump {
        drop(self.dumps.lock().unwrap());
        self.isolation.dump()
    }
}

/// A listener, its gateway and its clock.
struct World {
    admin: AdminListener,
    gateway: Arc<Gateway>,
    events: Arc<Events>,
    clock: ManualClock,
    cart: Command,
    group: NetGroup,
}

/// Returns the time of all events.
fn wall() -> WallTime {
    Arc::new(|| SystemTime::UNIX_EPOCH + NOW)
}

/// Returns the settings of a listener on a loopback address, with both tokens.
fn settings() -> Admin {
    Admin {
        at: Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port: 0,
        },
        token: Some(Secret::Value("full-token".to_owned())),
        read_token: None,
        hosts: Vec::new(),
    }
}

impl World {
    fn new() -> Self {
        Self::with(&settings()).unwrap()
    }

    fn with(settings: &Admin) -> Result<Self, AdminError> {
        let clock = ManualClock::new();
        let group = NetGroup::builder("admin").loops(1).clock(&clock);
        let group = group.local_network(&NETWORK);
        let group = group.on_unhandled(|_, _| ()).build().unwrap();
        let events = Arc::new(Events::default());
        let (gateway, cart) = Gateway::new(&events);
        let exporter = Exporter::new();
        exporter.add(gateway.isolation.clone());
        let parts = AdminParts {
            controls: Arc::clone(&gateway) as Arc<dyn Controls>,
            exporter,
            events: Arc::clone(&events),
            problems: Arc::new(Problems::new((&clock).into())),
            wall: wall(),
        };
        let admin = AdminListener::start(settings, &RealDisk, parts, &group)?;
        Ok(Self {
            admin,
            gateway,
            events,
            clock,
            cart,
            group,
        })
    }

    fn connect(&self) -> LocalSocket {
        let stream = NETWORK.connect(self.admin.local_addr()).unwrap();
        stream.set_timeout(Some(PATIENCE));
        stream
    }

    /// Sends a request with fields and returns the whole response.
    fn request(&self, line: &str, fields: &str, body: &str) -> String {
        let mut stream = self.connect();
        let length = body.len();
        let host = match fields.contains("Host:") {
            true => "",
            false => "Host: localhost\r\n",
        };
        let head =
            format!("{line} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n");
        stream
            .write_all(format!("{head}{fields}\r\n{body}").as_bytes())
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Sends a request without a token.
    fn get(&self, path: &str) -> String {
        self.request(&format!("GET {path}"), "", "")
    }

    /// Sends a change with the token for everything.
    fn change(&self, line: &str, body: &str) -> String {
        self.request(line, "Authorization: Bearer full-token\r\n", body)
    }
}

/// Returns the status of a response.
fn status(response: &str) -> u16 {
    response[9..12].parse().unwrap()
}

/// Asserts that a response has this status.
#[track_caller]
fn has_status(response: &str, expected: u16) {
    assert_eq!(status(response), expected, "{response}");
}

/// Returns the body of a response.
fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").unwrap().1
}
