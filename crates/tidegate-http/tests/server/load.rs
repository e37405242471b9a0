//! Many connections at once; clients that disappear.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_http::serve;
use tidegate_testkit::until;

use super::{Client, get};

#[test]
fn every_request_of_many_connections_gets_its_own_response() {
    let group = tidegate_net::pinned("web", 2).unwrap();
    let server = serve(&group, "127.0.0.1:0", |request, response| {
        response.body(request.path().to_owned());
    });
    let server = server.wait().unwrap();
    let address = server.local_addr();
    let clients = (0..4).map(|thread| {
        std::thread::spawn(move || {
            for round in 0..20 {
                let mut client = Client::connect(address);
                let paths: Vec<_> = (0..16).map(|n| format!("/{thread}/{round}/{n}")).collect();
                client.send(paths.iter().map(|path| get(path)).collect::<String>());
                for path in paths {
                    assert_eq!(client.response(), (200, path));
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    assert_eq!(server.metrics().requests, 4 * 20 * 16);
    until("all connections are closed", || {
        server.metrics().connections == 0
    });
}

#[test]
fn clients_that_disappear_leave_nothing_behind() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let bodies = Arc::new(AtomicU64::new(0));
    let ended = Arc::clone(&bodies);
    let server = serve(&group, "127.0.0.1:0", move |request, response| {
        let (later, ended) = (response.defer(), Arc::clone(&ended));
        request.collect(1 << 20).finally(move |_| {
            ended.fetch_add(1, Ordering::Relaxed);
            later.body("received");
        });
    });
    let server = server.wait().unwrap();
    let message = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf of it";
    for cut in 0..message.len() {
        let mut client = Client::connect(server.local_addr());
        client.send(&message[..cut]);
    }
    let mut last = Client::connect(server.local_addr());
    last.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(last.response(), (200, "received".to_owned()));
    until("only one connection is left", || {
        server.metrics().connections == 1
    });
    assert_eq!(bodies.load(Ordering::Relaxed), server.metrics().requests);
}
