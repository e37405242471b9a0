//! A gateway that is only simulated, for `cargo xtask page`: routes with load, servers, loops, knobs.
//!
//!   page ADDRESS ROUTES [steps]
//!
//! Prints `page http://ADDRESS/` and runs until its input ends. The token is `page-token`. With `steps`
//! its time stands still, except that the knob `clock` moves it by one sample, so that an hour of
//! frames can be played fast.
#![expect(
    clippy::unwrap_used,
    reason = "a program for tests: an unwrap is an assertion"
)]

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tidegate::isolate::{
    AdaptiveLimit, BreakerConfig, Command, Entry, Event, Isolation, PermitConfig, Properties,
    PropertySource as _,
};
use tidegate::metrics::Exporter;
use tidegate::net::NetGroup;
use tidegate::{Clock, Dump, ManualClock};
use tidegate_gateway::admin::{
    AdminListener, AdminParts, Controls, Events, Knob, LoopReport, RouteReport, ServerReport,
    SetError, SettingReport, UpstreamReport, WallTime,
};
use tidegate_gateway::balance::ServerState;
use tidegate_gateway::config::types::Admin;
use tidegate_gateway::config::{Address, RealDisk, Secret};
use tidegate_gateway::problem::Problems;

/// The time between two turns of the load.
const TURN: Duration = Duration::from_millis(20);
/// A name that a careless page would take for its own script.
const NASTY: &str = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>\r\n\u{2028}";

/// The turns of a sample.
const TURNS: u32 = 25;

struct Simulated {
    /// Moves with the knob, if time stands still.
    clock: Option<ManualClock>,
    load: Mutex<Load>,
    isolation: Isolation,
    properties: Properties,
    servers: Vec<ServerState>,
    group: NetGroup,
    flaky: Mutex<String>,
}

/// A call that is in flight.
struct Call {
    entry: Entry,
    ends: u64,
    works: bool,
}

/// A route with load.
struct Route {
    command: Command,
    /// Calls in each turn.
    calls: f64,
    owed: f64,
    /// How many turns a call takes, at least and at most.
    turns: (u64, u64),
    is_flaky: bool,
}

struct Load {
    routes: Vec<Route>,
    calls: Vec<Call>,
    turn: u64,
    random: u64,
}

impl Load {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    /// Ends calls that are due and begins others. `is_failing` is about the flaky route.
    fn step(&mut self, is_failing: bool) {
        self.turn += 1;
        let turn = self.turn;
        for call in self.calls.extract_if(.., |call| call.ends <= turn) {
            call.entry.verdict(call.works);
        }
        let many = self.routes.len() > 100;
        for at in 0..self.routes.len() {
            // With many routes, a tenth of them has calls in each turn.
            if many && self.random(10) != 0 {
                continue;
            }
            // A wave, so that there is something to see.
            let wave = 1.0 + 0.4 * ((turn as f64 / 400.0) + at as f64).sin();
            let route = &mut self.routes[at];
            route.owed += route.calls * wave;
            let count = route.owed.floor();
            route.owed -= count;
            let (least, most) = route.turns;
            let (is_flaky, command) = (route.is_flaky, route.command.clone());
            for _ in 0..count as u64 {
                let Ok(entry) = command.admit() else {
                    continue;
                };
                let ends = turn + least + self.random(most - least + 1);
                let works =
                    !(is_flaky && is_failing && self.random(10) < 8) && self.random(500) != 0;
                self.calls.push(Call { entry, ends, works });
            }
        }
    }
}

impl Controls for Simulated {
    fn is_ready(&self) -> bool {
        true
    }

    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Each route has one setting: its limit.
    fn settings(&self, route: Option<&str>) -> Vec<SettingReport> {
        let all = self.isolation.snapshots().into_iter();
        let own = all.filter(|one| route.is_none_or(|route| one.key.as_str() == route));
        let reports = own.map(|one| SettingReport {
            path: format!("route.{}.limit.max", one.key),
            value: one.limit.to_string(),
            origin: match self.properties.get(&limit_of(one.key.as_str())) {
                Some(_) => SettingReport::OPERATOR.to_owned(),
                None => "default".to_owned(),
            },
            without_effect: None,
        });
        reports.collect()
    }

    fn set(&self, path: &str, value: Option<&str>) -> Result<(), SetError> {
        let key = path.strip_prefix("route.");
        let key = key.and_then(|rest| rest.strip_suffix(".limit.max"));
        let limit = limit_of(key.unwrap_or_default());
        let set = match value {
            Some(value) => self.properties.set(&limit, value),
            None => self.properties.remove(&limit),
        };
        set.map_err(|why| SetError::Refused(why.to_string()))
    }

    fn upstreams(&self) -> Vec<UpstreamReport> {
        let mut all = self.isolation.snapshots().into_iter();
        let found = all.find(|one| one.key.as_str() == "slow").unwrap();
        let (slow, calls) = (found.active, found.totals[Event::Success]);
        let servers = self
            .servers
            .iter()
            .enumerate()
            .map(|(at, server)| ServerReport {
                address: format!("10.0.0.{}:80", at + 1),
                weight: 1 + at as u32,
                in_flight: if at == 1 { slow - slow / 8 } else { slow / 16 },
                calls: if at == 1 { calls / 2 } else { calls / 4 },
                is_up: server.is_up(),
                is_found: true,
                is_draining: server.is_draining(),
            });
        vec![UpstreamReport {
            name: "catalog".to_owned(),
            servers: servers.collect(),
        }]
    }

    fn routes(&self) -> Vec<RouteReport> {
        vec![RouteReport {
            name: "slow".to_owned(),
            upstream: Some("catalog".to_owned()),
            budget_left: Some(12),
            reasons: Vec::new(),
        }]
    }

    fn loops(&self) -> Vec<LoopReport> {
        let loops = self.group.loops().iter().enumerate();
        let report = loops.map(|(at, one)| {
            let metrics = one.metrics();
            LoopReport {
                name: format!("page-{at}"),
                busy: metrics.busy,
                late_mean: metrics.lateness_mean,
                late_max: metrics.lateness_max,
                longest: metrics.longest,
                longest_task: metrics.longest_task.map(str::to_owned),
                stalls: 0,
            }
        });
        report.collect()
    }

    fn knobs(&self) -> Vec<Knob> {
        vec![Knob {
            name: "flaky".to_owned(),
            title: "upstream flaky".to_owned(),
            choices: ["normal", "failing"].map(str::to_owned).to_vec(),
            value: self.flaky.lock().unwrap().clone(),
        }]
    }

    fn turn(&self, knob: &str, choice: &str) -> Result<String, String> {
        if let ("clock", "step", Some(clock)) = (knob, choice, &self.clock) {
            for _ in 0..TURNS {
                self.step();
            }
            clock.advance(TURN * TURNS);
            return Ok("one sample later".to_owned());
        }
        if knob != "flaky" || !["normal", "failing"].contains(&choice) {
            return Err(format!("there is no knob `{knob}` with `{choice}`"));
        }
        choice.clone_into(&mut self.flaky.lock().unwrap());
        Ok(format!("upstream flaky: {choice}"))
    }

    fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        let mut all = self.servers.iter().enumerate();
        let found = all.find(|(at, _)| server == format!("10.0.0.{}:80", at + 1));
        match found {
            Some((_, found)) if upstream == "catalog" => found.set_draining(draining),
            _ => return false,
        }
        true
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        Ok(vec![
            "tidegate.toml:2:6: listen.admin: it changes with the next start".to_owned(),
        ])
    }

    fn dump(&self) -> Dump {
        self.isolation.dump()
    }
}

impl Simulated {
    fn step(&self) {
        let is_failing = *self.flaky.lock().unwrap() == "failing";
        self.load.lock().unwrap().step(is_failing);
    }
}

/// Returns the routes: some with a story, and others.
fn routes(isolation: &Isolation, count: usize) -> Vec<Route> {
    let breaker = BreakerConfig {
        sleep: Duration::from_secs(2),
        ramp: Some(Duration::from_secs(3)),
        ..BreakerConfig::default()
    };
    let waiting = PermitConfig {
        limit: 40,
        max_wait: Duration::from_millis(200),
        ..PermitConfig::default()
    };
    let command = |key: &str| {
        let builder = Command::builder(key).group("shop");
        builder.breaker(breaker.clone())
    };
    let mut commands = vec![
        (command("fast").permits(200), 6.0, (0, 1)),
        (command("slow").permits(waiting), 3.0, (8, 24)),
        (command("flaky").permits(100), 4.0, (1, 2)),
        (
            command("adaptive").adaptive(AdaptiveLimit::vegas()),
            5.0,
            (2, 9),
        ),
        (command(NASTY).permits(10), 0.2, (0, 1)),
    ];
    for number in commands.len()..count {
        let command = command(&format!("service-{number:04}")).permits(20);
        commands.push((command, 0.05 + (number % 17) as f64 / 40.0, (0, 4)));
    }
    let routes = commands.into_iter().enumerate();
    let routes = routes.map(|(at, (command, calls, turns))| Route {
        command: command.build(isolation).unwrap(),
        calls,
        owed: 0.0,
        turns,
        is_flaky: at == 2,
    });
    routes.collect()
}

/// Returns the time of day by a clock.
fn wall(clock: &Clock) -> WallTime {
    let (clock, start) = (clock.clone(), SystemTime::now());
    let begin = clock.nanos();
    Arc::new(move || start + Duration::from_nanos(clock.nanos() - begin))
}

/// Returns the property of the limit of a route.
fn limit_of(route: &str) -> String {
    format!("hystrix.command.{route}.execution.isolation.semaphore.maxConcurrentRequests")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let count = arguments.next().map_or(12, |count| count.parse().unwrap());
    let (host, port) = address.rsplit_once(':').unwrap();
    let manual = (arguments.next().as_deref() == Some("steps")).then(ManualClock::new);
    let clock = manual.as_ref().map_or_else(Clock::system, Clock::from);
    let wall = wall(&clock);
    let events = Arc::new(Events::default());
    let properties = Properties::new();
    let isolation = Isolation::builder().properties(properties.clone());
    let isolation = isolation.clock(clock.clone());
    let isolation = events.observe(isolation, &wall).build().unwrap();
    let group = NetGroup::builder("page").loops(2).clock(clock.clone());
    let group = group.build().unwrap();
    let simulated = Arc::new(Simulated {
        load: Mutex::new(Load {
            routes: routes(&isolation, count),
            calls: Vec::new(),
            turn: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }),
        clock: manual,
        isolation: isolation.clone(),
        properties,
        servers: (0..3).map(|_| ServerState::new(1, None)).collect(),
        group: group.clone(),
        flaky: Mutex::new("normal".to_owned()),
    });
    let exporter = Exporter::new();
    exporter.add(isolation);
    let settings = Admin {
        at: Address::Tcp {
            host: host.to_owned(),
            port: port.parse().unwrap(),
        },
        token: Some(Secret::Value("page-token".to_owned())),
        read_token: None,
        hosts: Vec::new(),
    };
    let parts = AdminParts {
        controls: Arc::clone(&simulated) as Arc<dyn Controls>,
        exporter,
        events,
        problems: Arc::new(Problems::new(clock)),
        wall,
    };
    let admin = AdminListener::start(&settings, &RealDisk, parts, &group).unwrap();
    let second = group.loops().iter().nth(1).unwrap().clone();
    let turns = second.schedule_at_fixed_rate(Duration::ZERO, TURN, move || {
        if simulated.clock.is_none() {
            simulated.step();
        }
    });
    let _turns = turns.unwrap();
    println!("page http://{}/", admin.local_addr());
    // Until the input ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
