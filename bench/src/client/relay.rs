//! A relay between two channels of one loop, beside an echo.
//!
//! The relay has a connection to a server for each of its clients. A message there and back is
//! received twice and sent twice, so it is compared with two echoes. The server behind the relay is
//! a bare epoll loop in the process of the load generator, on its CPU.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{
    Blocking, Channel, Client, Inbound, InboundContext, NetGroup, Nothing, Server, UserEvent,
};
use tidegate_promise::Outcome as Ended;

use super::{CONNECTIONS, WORK};
use crate::cpus::pin;
use crate::echo::{MESSAGE, raw_echo};
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings};
use crate::served::{Ours, Running, ServerProcess};

/// The name of the relay on the command line, before the address of the server behind it.
const RELAY: &str = "relay-to-";

pub(super) fn run(settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("client, {CONNECTIONS} pairs of neighbours, relay"),
        unit: "server CPU ns/message",
        better: Better::Less,
        side: Some("messages/s"),
        ratios: vec![Ratio::new("relay_over_echo", Role::Peer)],
    };
    let settings = Settings {
        rounds: Some(settings.rounds.unwrap_or(101)),
        span: Some(Duration::from_millis(60)),
        ..settings.clone()
    };
    let relay = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let behind = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            pin(1);
            raw_echo(&listener);
        });
        format!("{RELAY}{behind}")
    };
    let lineup = vec![
        entry("ours, there and back", Role::Ours, 1.0, relay),
        entry("ours, two echoes", Role::Peer, 2.0, || "ours".to_owned()),
    ];
    rounds::race(heading, WORK, lineup, &settings)
}

/// Returns a contestant whose CPU time counts so many times.
fn entry(name: &str, role: Role, times: f64, server: impl Fn() -> String + 'static) -> Entry {
    let mut started: Option<(ServerProcess, Load)> = None;
    Entry::new(name, role, move |messages| {
        let (server, load) = started.get_or_insert_with(|| {
            let server = ServerProcess::start(&server()).expect("the server starts");
            let load = Load::connect(server.address, CONNECTIONS as usize, MESSAGE);
            (server, load)
        });
        let before = server.cpu().expect("the server still runs");
        let result = load.run(messages);
        let cpu = server.cpu().expect("the server still runs") - before;
        let messages = result.messages as f64;
        Outcome {
            elapsed: result.elapsed,
            sample: Sample {
                value: times * cpu.as_nanos() as f64 / messages,
                side: Some(messages / result.elapsed.as_secs_f64()),
            },
        }
    })
}

/// Starts the relay on the first CPU.
pub(super) fn start_by_name(name: &str) -> Option<Running> {
    let behind: SocketAddr = name.strip_prefix(RELAY)?.parse().ok()?;
    pin(0);
    let group = tidegate_net::pinned("relay", 1).expect("a poller");
    let loops = group.clone();
    let server = Server::builder(&group).pipeline(move |p| {
        let end = End {
            other: None,
            connects: Some((loops.clone(), behind)),
        };
        p.add("relay", end)
    });
    let server = server.bind("127.0.0.1:0").wait().expect("a free port");
    Some(Running::ours(server.local_addr(), Ours::Pinned(group)))
}

/// One end of a pair: writes what it reads to the other one.
struct End {
    other: Option<Channel>,
    /// Where the other end connects to, if it is not connected yet.
    connects: Option<(NetGroup, SocketAddr)>,
}

impl Inbound for End {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some((group, to)) = self.connects.take() else {
            return;
        };
        ctx.set_auto_read(false);
        let (me, back) = (ctx.channel(), ctx.channel());
        let client = Client::builder(&group).pipeline(move |p| {
            let (other, connects) = (Some(back.clone()), None);
            p.add("relay", End { other, connects })
        });
        client.connect(to).finally(move |outcome| match outcome {
            Ended::Success(other) => {
                me.fire_event(other.clone());
                me.set_auto_read(true);
            }
            _ => drop(me.abort()),
        });
    }

    fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
        self.other = event.downcast::<Channel>().ok();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if let Some(other) = &self.other {
            ctx.neighbour(other).write(bytes);
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if let Some(other) = &self.other {
            ctx.neighbour(other).flush();
        }
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        if let Some(other) = &self.other {
            drop(other.close());
        }
    }
}
