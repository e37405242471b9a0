//! The drain of many idle connections.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_http::serve;
use tidegate_testkit::{short_or_long, until};

use super::{Client, connections, turn};

/// The variable with the address and the number of connections for [`holds_connections`].
const HOLD: &str = "TIDEGATE_HOLD";

/// Not a test by itself: the clients of the test below in a process of their own, because a process
/// may have only so many descriptors.
#[test]
fn holds_connections() {
    let Ok(order) = std::env::var(HOLD) else {
        return;
    };
    let (address, number) = order.split_once(' ').unwrap();
    let address = address.parse().unwrap();
    let number: usize = number.parse().unwrap();
    let clients: Vec<_> = (0..number)
        .map(|_| {
            let mut client = Client::connect(address);
            client.hello();
            client
        })
        .collect();
    for mut client in clients {
        // The end of the connection, without a response.
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_drain_closes_idle_connections_at_once() {
    let _turn = turn();
    // With the system's clock, since the time is measured.
    let group = tidegate_net::pinned("web", 1).unwrap();
    let server = serve(&group, "127.0.0.1:0", |_, response| response.body("hello"));
    let server = server.wait().unwrap();
    let number = 2 * connections(short_or_long(250, 5000));
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", "drain::holds_connections"])
        .env(HOLD, format!("{} {number}", server.local_addr()))
        .stdout(Stdio::null());
    let mut clients = program.spawn().unwrap();
    until("all connections are idle", || {
        let metrics = server.metrics();
        metrics.connections == number as u64 && metrics.responses[0] == number as u64
    });
    let began = Instant::now();
    let report = server.drain(Duration::from_secs(3600));
    let report = report.wait().unwrap();
    println!(
        "{number} idle connections were drained in {:?}",
        began.elapsed()
    );
    assert_eq!(report.open, number);
    assert!(report.closed_at_deadline.is_empty(), "{report}");
    assert_eq!(report.still_running, 0);
    assert!(clients.wait().unwrap().success());
    until("all connections are closed", || {
        server.metrics().connections == 0
    });
}
