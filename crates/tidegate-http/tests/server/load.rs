//! Many connections at once; clients that disappear.

use tidegate_testkit::until;

use super::{Client, get, start_on};

#[test]
fn every_request_of_many_connections_gets_its_own_response() {
    let server = start_on(2, |request, response| {
        response.body(request.path().to_owned());
    });
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
