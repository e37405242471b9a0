//! The end of a server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_http::{DeferredResponse, serve};
use tidegate_testkit::until;

use super::{Client, get};

#[test]
fn a_drain_ends_idle_connections_at_once_and_busy_ones_with_their_response() {
    let group = tidegate_net::pinned("web", 2).unwrap();
    let kept: Arc<Mutex<Option<DeferredResponse>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = serve(
        &group,
        "127.0.0.1:0",
        move |request, response| match request.path() {
            "/later" => *keep.lock().unwrap() = Some(response.defer()),
            _ => response.body("now"),
        },
    );
    let server = server.wait().unwrap();
    let mut idle: Vec<_> = (0..20)
        .map(|_| Client::connect(server.local_addr()))
        .collect();
    for client in &mut idle {
        client.send(get("/"));
        assert_eq!(client.response(), (200, "now".to_owned()));
    }
    let mut busy = Client::connect(server.local_addr());
    busy.send(get("/later"));
    until("the request is there", || kept.lock().unwrap().is_some());
    let drained = server.drain(Duration::from_secs(3600));
    for client in idle {
        assert_eq!(client.rest(), "");
    }
    kept.lock().unwrap().take().unwrap().body("later");
    let response = busy.rest();
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(response.ends_with("later"), "{response}");
    let report = drained.wait().unwrap();
    assert_eq!(report.open, 21);
    assert!(report.closed_at_deadline.is_empty(), "{report}");
}

#[test]
fn a_drain_cuts_connections_at_its_deadline() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let kept: Arc<Mutex<Vec<DeferredResponse>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = serve(&group, "127.0.0.1:0", move |_, response| {
        keep.lock().unwrap().push(response.defer());
    });
    let server = server.wait().unwrap();
    let mut busy = Client::connect(server.local_addr());
    busy.send(get("/never"));
    until("the request is there", || !kept.lock().unwrap().is_empty());
    let report = server.drain(Duration::ZERO).wait().unwrap();
    assert_eq!(report.closed_at_deadline.len(), 1);
    let late = kept.lock().unwrap().pop().unwrap();
    until("the response learns of it", || late.is_closed());
}
