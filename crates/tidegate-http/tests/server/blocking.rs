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
    let mut slow = Client::of(&server);
    slow.send(get("/slow"));
    for _ in 0..100 {
        let mut client = Client::of(&server);
        client.ask("/fast", "done");
    }
    gate.open();
    assert_eq!(slow.response(), (200, "done".to_owned()));
}
