//! The limit of connections, and calls that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_http::client::Phase;
use tidegate_testkit::Counter;

use crate::*;

#[test]
fn a_full_pool_refuses_at_once() {
    let client = builder().max_connections(1).max_waiting(1).build();
    let upstream = Upstream::new();
    let running = client.get(upstream.url("/")).send();
    let waiting = client.get(upstream.url("/")).send();
    let why = error(client.get(upstream.url("/")).send());
    assert!(
        why.is_refused() && why.is_safe_to_retry() && !why.was_sent(),
        "{why}"
    );
    assert_eq!(why.phase(), Phase::Wait);
    let mut peer = upstream.accept();
    for call in [running, waiting] {
        peer.request();
        peer.respond(OK);
        assert_eq!(text(call), "ok");
    }
}

#[test]
fn the_limit_is_exact_over_all_loops_and_other_hosts_are_not_affected() {
    const LIMIT: usize = 3;
    const CALLS: usize = 60;
    let group = group(3);
    let client = Client::builder(&group).max_connections(LIMIT).build();
    let silent = Upstream::new();
    let stuck: Vec<_> = (0..LIMIT)
        .map(|_| client.get(silent.url("/")).send())
        .collect();
    let (open, most, served) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Counter::new(),
    );
    let upstream = Upstream::new();
    let url = upstream.url("/");
    let (now, peak, count) = (Arc::clone(&open), Arc::clone(&most), served.clone());
    std::thread::spawn(move || {
        loop {
            let mut peer = upstream.accept();
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (now, count) = (Arc::clone(&now), count.clone());
            std::thread::spawn(move || {
                // Every third response ends its connection. The count goes down before the client
                // can know of the end.
                for round in 0..3 {
                    peer.request();
                    count.hit();
                    let close = if round == 2 {
                        "Connection: close\r\n"
                    } else {
                        ""
                    };
                    if round == 2 {
                        now.fetch_sub(1, Ordering::SeqCst);
                    }
                    peer.respond(&format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{close}\r\nok"
                    ));
                }
            });
        }
    });
    let calls: Vec<_> = (0..CALLS).map(|_| client.get(&url).send()).collect();
    for call in calls {
        assert_eq!(text(call), "ok");
    }
    assert_eq!(served.count(), CALLS as u64);
    assert!(most.load(Ordering::SeqCst) <= LIMIT);
    assert!(stuck.iter().all(|call| !call.is_done()));
}
