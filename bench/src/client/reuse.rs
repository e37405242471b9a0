//! How often a request of a proxy finds a connection that was used before: with two loops, beside
//! one.
//!
//! Each of eight clients connects to the proxy, makes a few requests, and disconnects. The loops take
//! clients in turn, so a loop may have none while another one has many.

use std::time::{Duration, Instant};

use tidegate_core::{Collect as _, Metric, MetricVisitor};
use tidegate_http::HttpServer;
use tidegate_http::client::Client;
use tidegate_net::NetGroup;

use crate::exchange::{REQUEST, exchange};
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::ServerProcess;

const CLIENTS: usize = 8;
/// Requests of a client before it disconnects.
const FEW: u32 = 3;
/// Requests of a run. A run begins without a connection to the server.
const REQUESTS: u64 = 480;

pub(super) fn run(settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("client, {CLIENTS} clients of {FEW} requests each, reuse"),
        unit: "share of requests",
        better: Better::More,
        side: Some("requests/s"),
        ratios: vec![Ratio::new("reuse_two_over_one", Role::Peer)],
    };
    let lineup = vec![
        entry("ours, two loops", Role::Ours, 2),
        entry("ours, one loop", Role::Peer, 1),
    ];
    let work = Work {
        first: REQUESTS,
        most: REQUESTS,
    };
    rounds::race(heading, work, lineup, settings)
}

fn entry(name: &str, role: Role, loops: usize) -> Entry {
    let mut started: Option<(ServerProcess, NetGroup)> = None;
    Entry::new(name, role, move |requests| {
        let (behind, group) = started.get_or_insert_with(|| {
            let behind = ServerProcess::start("http-raw").expect("the server starts");
            (
                behind,
                tidegate_net::pinned("proxy", loops).expect("a poller"),
            )
        });
        let client = Client::builder(group).build();
        let proxy = start_proxy(group, &client, format!("http://{}/", behind.address));
        let address = proxy.local_addr();
        let mut first = std::net::TcpStream::connect(address).expect("the proxy listens");
        let reply = exchange(&mut first, REQUEST).expect("the proxy replies");
        let began = Instant::now();
        let load = Load::exchange(address, CLIENTS, REQUEST.to_vec(), reply);
        let done = load.short(FEW).run(requests).messages;
        let elapsed = began.elapsed();
        let mut counts = Counts::default();
        client.collect(&mut counts);
        drop(proxy.drain(Duration::from_secs(1)).wait());
        Outcome {
            elapsed,
            sample: Sample {
                value: counts.reused / (counts.reused + counts.new),
                side: Some(done as f64 / elapsed.as_secs_f64()),
            },
        }
    })
}

/// Starts a proxy that makes a call for each request, on the loop of the request.
fn start_proxy(group: &NetGroup, client: &Client, behind: String) -> HttpServer {
    let (client, loops) = (client.clone(), group.clone());
    let server = tidegate_http::serve(group, "127.0.0.1:0", move |_, response| {
        let back = response.defer();
        let call = client.get(&behind).send();
        let forward = async move {
            let response = call.await.expect("the server responds");
            back.body(response.collect(1024).await.expect("the whole body"));
        };
        let mut home = loops.loops().iter();
        let home = home.find(|home| home.is_current());
        let spawned = home.expect("a loop of the group").spawn_local(forward);
        drop(spawned.unwrap_or_else(|_| panic!("this is its thread")));
    });
    server.wait().expect("a free port")
}

/// Requests by connection.
#[derive(Default)]
struct Counts {
    reused: f64,
    new: f64,
}

impl MetricVisitor for Counts {
    fn counter(&mut self, _: Metric, labels: &[(&str, &str)], value: f64) {
        match labels {
            [("connection", "reused")] => self.reused += value,
            [("connection", "new")] => self.new += value,
            _ => {}
        }
    }

    fn gauge(&mut self, _: Metric, _: &[(&str, &str)], _: f64) {}

    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}
