//! The event of a failed accept. The test is alone in its process, because it lowers the limit of
//! descriptors.
use std::fs::File;
use std::io::Read;
use std::net::TcpStream;

use rustix::process::{Resource, getrlimit, setrlimit};
use tidegate_core::ManualClock;
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::Recorder;
use tracing::Level;
use tracing::subscriber::set_global_default;

#[path = "it/echo.rs"]
mod echo;

use self::echo::Echo;

#[test]
fn a_failed_accept_is_an_event_with_the_address_and_the_error() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let recorder = Recorder::new();
    set_global_default(recorder.clone()).unwrap();
    let clock = ManualClock::new();
    let loops = NetGroup::builder("io").loops(1).clock(&clock);
    let group = loops.on_unhandled(|_, _| ()).build().unwrap();
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut fillers: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fillers.pop();
    let mut refused = TcpStream::connect(server.local_addr()).unwrap();
    // There is no descriptor to accept the connection: the spare one is used to close it.
    assert_eq!(refused.read(&mut [0; 1]).unwrap(), 0);
    group.next().settle();
    let events = recorder.events("accept_failed");
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].target, events[0].level),
        ("tidegate::net", Level::WARN)
    );
    let address = server.local_addr().to_string();
    assert_eq!(events[0].field("address"), Some(address.as_str()));
    assert!(events[0].field("error").is_some());
    assert_eq!(events[0].field("left_out"), Some("0"));
    drop((fillers, refused));
}
