//! A server in a process without free descriptors. The test is alone in its process, because it
//! lowers the limit.
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tidegate_core::ManualClock;
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::{Log, has};

#[path = "it/echo.rs"]
mod echo;

use self::echo::Echo;

#[test]
fn out_of_descriptors_accepting_pauses_and_goes_on() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let clock = ManualClock::new();
    let (log, received) = Log::pair();
    let loops = NetGroup::builder("io").loops(1).clock(&clock);
    let loops = loops.on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut fillers: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fillers.pop();
    // There is no descriptor to accept the connection, so it waits: it is not closed.
    let mut waits = TcpStream::connect(server.local_addr()).unwrap();
    log.wait_for(1);
    assert_eq!(group.io_metrics()[0].accept_pauses, 1);
    let received = log.take().remove(0);
    let address = server.local_addr().to_string();
    has(&received, ["for 1s", &address]);
    // The spare one is free for others meanwhile. Once they have it, the pause goes on.
    let last = File::open("/dev/null").unwrap();
    assert!(File::open("/dev/null").is_err());
    clock.advance(Duration::from_secs(1));
    log.wait_for(1);
    assert_eq!(group.io_metrics()[0].accept_pauses, 2);
    drop((fillers, last));
    waits.write_all(b"x").unwrap();
    clock.advance(Duration::from_millis(999));
    group.next().settle();
    assert_eq!(server.accepted(), 0, "it pauses");
    clock.advance(Duration::from_millis(1));
    let mut back = [0; 1];
    waits.read_exact(&mut back).unwrap();
    assert_eq!((&back, server.accepted()), (b"x", 1));
}
