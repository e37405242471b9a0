//! The event of a failed accept, also if the subscriber panics or uses the server. The test is alone in
//! its process, because it lowers the limit of descriptors.
use std::fs::File;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit, setrlimit};
use tidegate_core::ManualClock;
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::{Log, Recorder, until};
use tracing::Level;
use tracing::subscriber::set_global_default;

#[path = "it/echo.rs"]
mod echo;

use self::echo::Echo;

/// The server that the subscriber uses, if it should.
static REENTERS: Mutex<Option<Server>> = Mutex::new(None);
static REENTERED: AtomicUsize = AtomicUsize::new(0);

/// Uses the server from within its event, in each way that does not wait.
fn reenter() {
    let Some(server) = REENTERS.lock().expect("no panic").take() else {
        return;
    };
    REENTERED.fetch_add(1, Ordering::Relaxed);
    server.pause_accepting();
    drop((server.metrics(), server.dump()));
    server.resume_accepting();
    drop(server.stop_accepting());
}

/// Makes a server of this group fail to accept a connection. Returns the address of the server. The
/// subscriber uses the server if it `reenters`.
fn fail_to_accept(group: &NetGroup, reenters: bool) -> String {
    let server = Server::builder(group)
        .pipeline(|p| p.add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()
        .expect("the port is free");
    *REENTERS.lock().expect("no panic") = reenters.then(|| server.clone());
    let mut fillers: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fillers.pop();
    let pauses = || group.io_metrics()[0].accept_pauses;
    let before = pauses();
    // There is no descriptor to accept the connection: it waits.
    let waits = TcpStream::connect(server.local_addr()).expect("it listens");
    until("accepting pauses", || pauses() > before);
    group.next().settle();
    drop((fillers, waits));
    server.local_addr().to_string()
}

#[test]
fn a_failed_accept_is_one_event_whatever_the_subscriber_does() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let recorder = Recorder::new();
    recorder.on_call(|method| {
        if method == "event" {
            reenter();
        }
    });
    set_global_default(recorder.clone()).unwrap();
    let clock = ManualClock::new();
    let loops = || NetGroup::builder("io").loops(1).clock(&clock);

    let group = loops().build().unwrap();
    let address = fail_to_accept(&group, false);
    let events = recorder.events("accept_failed");
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].target, events[0].level),
        ("tidegate::net", Level::WARN)
    );
    assert_eq!(events[0].field("address"), Some(address.as_str()));
    assert!(events[0].field("error").is_some());
    assert_eq!(events[0].field("left_out"), Some("0"));
    let again = recorder.events("unhandled_error");
    assert!(again.is_empty(), "the default hook knows of the event");

    let (log, received) = Log::pair();
    let group = loops()
        .on_unhandled(move |_, what| received.push(what.to_string()))
        .build()
        .unwrap();
    let address = fail_to_accept(&group, false);
    assert_eq!(recorder.events("accept_failed").len(), 2);
    log.wait_for(1);
    let received = log.take();
    assert_eq!(received.len(), 1, "a hook of the program has no events");
    assert!(received[0].contains(&address), "{received:?}");

    recorder.set_panics(true);
    let address = fail_to_accept(&group, false);
    recorder.set_panics(false);
    assert_eq!(recorder.events("accept_failed").len(), 2);
    log.wait_for(1);
    assert!(log.take()[0].contains(&address));

    fail_to_accept(&group, true);
    assert_eq!(REENTERED.load(Ordering::Relaxed), 1);
    assert_eq!(recorder.events("accept_failed").len(), 3);
    log.wait_for(1);
    fail_to_accept(&group, false);
    assert_eq!(recorder.events("accept_failed").len(), 4, "others accept");
}
