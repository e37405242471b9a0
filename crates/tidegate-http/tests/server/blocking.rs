//! Services that block, on roaming loops; responses from a pool.

use std::sync::Arc;

use tidegate_http::serve;
use tidegate_pool::WorkerPool;
use tidegate_testkit::Gate;

use super::{Client, get};

#[test]
fn a_service_that_blocks_does_not_stop_the_others_of_a_roaming_loop() {
    let pool = WorkerPool::builder("workers")
        .core(8)
        .max(8)
        .build()
        .unwrap();
    let group = tidegate_net::roaming("web", 1, &pool).unwrap();
    let gate = Arc::new(Gate::new());
    let inside = Arc::clone(&gate);
    let server = serve(&group, "127.0.0.1:0", move |request, response| {
        if request.path() == "/slow" {
            inside.wait();
        }
        response.body("done");
    });
    let server = server.wait().unwrap();
    let mut slow = Client::connect(server.local_addr());
    slow.send(get("/slow"));
    for _ in 0..100 {
        let mut client = Client::connect(server.local_addr());
        client.send(get("/fast"));
        assert_eq!(client.response(), (200, "done".to_owned()));
    }
    gate.open();
    assert_eq!(slow.response(), (200, "done".to_owned()));
}

#[test]
fn a_pool_responds_in_the_order_of_the_requests() {
    let pool = WorkerPool::builder("workers")
        .core(4)
        .max(4)
        .build()
        .unwrap();
    let group = tidegate_net::pinned("web", 1).unwrap();
    let server = serve(&group, "127.0.0.1:0", move |request, response| {
        let path = request.path().to_owned();
        let later = response.defer();
        // A refused job drops the response, which becomes status 500.
        let _ = pool.execute(move || later.body(path));
    });
    let server = server.wait().unwrap();
    let mut client = Client::connect(server.local_addr());
    let requests: String = (0..200).map(|n| get(&format!("/{n}"))).collect();
    client.send(requests);
    for n in 0..200 {
        assert_eq!(client.response(), (200, format!("/{n}")));
    }
}
