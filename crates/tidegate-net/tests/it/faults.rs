//! Network faults, and what must keep working.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::{ChannelOptions, Client, Server};
use tidegate_testkit::{Log, model};

use crate::acts::Acts;
use crate::{Echo, dial, group_by, round_trip, serve};

#[test]
fn a_storm_of_connects_and_ends_leaves_nothing_behind() {
    let group = tidegate_net::pinned("io", 2).unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut steady = dial(&server);
    model(0..3, |rng| {
        for _ in 0..100 {
            let mut client = dial(&server);
            match rng.below(5) {
                // Half-open: connects and sends nothing.
                0 => {}
                // Resets the connection, with or without bytes in flight.
                1 => {
                    let _ = client.write_all(&[0; 100]);
                    reset(&client);
                }
                2 => reset(&client),
                // Writes and closes without reading the answer.
                3 => client.write_all(&[1; 10_000]).unwrap(),
                // Behaves correctly.
                _ => assert_eq!(round_trip(&mut client, b"hello"), b"hello"),
            }
        }
        assert_eq!(round_trip(&mut steady, b"unhurt"), b"unhurt");
    });
    let alone = (0..1_000_000).find(|_| {
        group.iter().for_each(|one| one.settle());
        server.connections() == 1
    });
    assert!(alone.is_some(), "{} are left", server.connections());
    drop(steady);
}

fn reset(client: &TcpStream) {
    socket2::SockRef::from(client)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

#[test]
fn every_write_completes_once_when_the_peer_vanishes() {
    /// Writes many times and logs the outcome of each write.
    fn pours(log: Log<bool>) -> Acts {
        Acts::on_read(move |_, ctx| {
            for _ in 0..100 {
                let log = log.clone();
                ctx.write_with(vec![0; 100_000]).finally(move |outcome| {
                    log.push(matches!(outcome, tidegate_promise::Outcome::Success(_)));
                });
                ctx.flush();
            }
        })
        .on_error(|_, _| ())
    }
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| p.add("pours", pours(own.clone())));
    let mut client = dial(&server);
    client.write_all(b"go").unwrap();
    client.read_exact(&mut [0; 1000]).unwrap();
    reset(&client);
    drop(client);
    log.wait_for(100);
    group.iter().for_each(|one| one.settle());
    let ended = log.take();
    assert_eq!(ended.len(), 100);
    assert!(ended.contains(&false), "some could not be sent");
}

#[test]
fn waiting_for_a_channel_inside_a_handler_is_refused() {
    fn waits(log: Log<String>) -> Acts {
        Acts::on_read(move |_, ctx| {
            let sent = ctx.write_with("x");
            log.push(sent.wait().unwrap_err().to_string());
            log.push(ctx.channel().closed().wait().unwrap_err().to_string());
        })
    }
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| p.add("waits", waits(own.clone())));
    dial(&server).write_all(b"go").unwrap();
    log.wait_for(2);
    for refused in log.take() {
        assert!(refused.contains("io-0"), "{refused}");
    }
}

#[test]
fn a_connect_without_a_timeout_works() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let options = ChannelOptions {
        connect_timeout: Duration::ZERO,
        ..ChannelOptions::default()
    };
    let client = Client::builder(&group).options(options).build();
    let channel = client.connect(server.local_addr()).wait().unwrap();
    assert!(channel.is_active());
}

#[test]
fn several_servers_share_a_port() {
    let group = tidegate_net::pinned("io", 2).unwrap();
    let bind = |address: std::net::SocketAddr| {
        Server::builder(&group)
            .reuse_port(true)
            .pipeline(|p| p.add("echo", Echo))
            .bind(address)
            .wait()
            .unwrap()
    };
    let first = bind("127.0.0.1:0".parse().unwrap());
    let second = bind(first.local_addr());
    for _ in 0..20 {
        assert_eq!(round_trip(&mut dial(&first), b"x"), b"x");
    }
    assert_eq!(first.accepted() + second.accepted(), 20);
}

#[test]
fn a_message_costs_a_receive_a_send_and_a_share_of_a_poll() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    for _ in 0..10 {
        assert_eq!(round_trip(&mut client, &[7; 100]), [7; 100]);
    }
    group.next().settle();
    let before = group.io_metrics()[0];
    for _ in 0..100 {
        assert_eq!(round_trip(&mut client, &[7; 100]), [7; 100]);
    }
    group.next().settle();
    let after = group.io_metrics()[0];
    assert_eq!(after.writes - before.writes, 100);
    // A read that fills its buffer is followed by another one; that is rare.
    assert!(after.reads - before.reads <= 120);
    assert!(after.polls - before.polls <= 110);
}

#[test]
fn a_listener_that_fails_for_good_is_left_alone_for_a_while_too() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let same = listener.try_clone().unwrap();
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.serve(listener).wait().unwrap();
    // From now on every accept fails, but not for lack of descriptors.
    socket2::SockRef::from(&same)
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    let pauses = || group.io_metrics()[0].accept_pauses;
    let paused = (0..10_000_000).any(|_| pauses() == 1);
    assert!(paused, "it tries again and again");
    group.next().settle();
    clock.advance(Duration::from_secs(1));
    group.next().settle();
    assert_eq!(pauses(), 2, "once a second");
    server.stop_accepting().wait().unwrap();
}
