//! Services and clients that do what they should not, through the public names and real sockets.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tidegate_http::{HttpServer, Limits, Request, Response, serve};
use tidegate_net::pinned;
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, Log, until};

use super::leaves::in_one_turn;
use super::{Client, get, start, start_on};

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// Counts the requests that were served, failed or given up: each one exactly once.
fn settled(server: &HttpServer) -> u64 {
    let metrics = server.metrics();
    metrics.responses.iter().sum::<u64>() + metrics.unanswered
}

/// Reads to the end. A connection whose requests were not accepted may be reset.
fn whole_or_reset(mut client: Client) -> String {
    let mut text = Vec::new();
    let read = client.stream.read_to_end(&mut text);
    if let Err(why) = read {
        assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_client_of_http_1_0_does_not_take_a_part_for_the_whole() {
    let server = start(|_, response| {
        let mut stream = response.stream();
        stream.write("part");
        drop(stream);
    });
    let mut client = Client::of(&server);
    client.send("GET / HTTP/1.0\r\n\r\n");
    let why = client.stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_service_drains_its_own_server() {
    for roaming in [false, true] {
        let pool = WorkerPool::builder("workers").max(4).build().unwrap();
        let own: Arc<OnceLock<HttpServer>> = Arc::default();
        let inside = Arc::downgrade(&own);
        let respond = move |request: tidegate_http::Request<'_>,
                            response: tidegate_http::Response<'_>| {
            if request.path() == "/stop" {
                let own = inside.upgrade().unwrap();
                drop(own.get().unwrap().drain(Duration::from_secs(3600)));
            }
            response.body("done");
        };
        let server = match roaming {
            true => serve(
                &tidegate_net::roaming("web", 1, &pool).unwrap(),
                "127.0.0.1:0",
                respond,
            )
            .wait(),
            false => serve(
                &tidegate_net::pinned("web", 1).unwrap(),
                "127.0.0.1:0",
                respond,
            )
            .wait(),
        }
        .unwrap();
        own.set(server.clone()).unwrap();
        let mut idle = Client::of(&server);
        idle.ask("/", "done");
        let mut client = Client::of(&server);
        client.send(get("/a") + &get("/stop") + &get("/never"));
        let text = client.rest();
        assert_eq!(count(&text, "HTTP/1.1 200"), 2, "{text}");
        assert_eq!(count(&text, "Connection: close"), 1, "{text}");
        assert_eq!(idle.rest(), "");
        server.closed().wait().unwrap();
    }
}

#[test]
fn a_panic_at_each_point_costs_its_own_connection_only() {
    let server = start(|request, response| {
        let point = request.path().to_owned();
        match &point[..] {
            "/before" => panic!("told to"),
            "/status" => {
                let _response = response.status(201).field("a", "b");
                panic!("told to");
            }
            "/after" => {
                response.body("x".repeat(100_000));
                panic!("told to");
            }
            "/deferred" => {
                let _later = response.defer();
                panic!("told to");
            }
            "/stream" => {
                let mut stream = response.stream();
                stream.write("part");
                panic!("told to");
            }
            "/finished" => {
                let mut stream = response.stream();
                stream.write("whole");
                stream.finish();
                panic!("told to");
            }
            "/body" => {
                let _body = request.into_body();
                panic!("told to");
            }
            "/collect" => {
                let later = response.defer();
                request.collect(100).finally(move |_| {
                    let _later = later;
                    panic!("told to");
                });
            }
            _ => response.body("fine"),
        }
    });
    let mut witness = Client::of(&server);
    let points = [
        ("/before", "HTTP/1.1 500"),
        ("/status", "HTTP/1.1 500"),
        ("/after", "HTTP/1.1 200"),
        ("/deferred", "HTTP/1.1 500"),
        ("/stream", "HTTP/1.1 200"),
        ("/finished", "0\r\n\r\n"),
        ("/body", "HTTP/1.1 500"),
        ("/collect", "HTTP/1.1 500"),
    ];
    for (path, expected) in points {
        let mut client = Client::of(&server);
        let body = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        client.send(get("/fine") + &body + &get("/never"));
        let text = client.rest();
        assert_eq!(count(&text, "HTTP/1.1 "), 2, "{path}: {text}");
        assert!(text.contains(expected), "{path}: {text}");
        witness.ask("/witness", "fine");
    }
    server.drain(Duration::from_secs(3600)).wait().unwrap();
    assert_eq!(settled(&server), server.metrics().requests);
}

#[test]
fn limits_at_their_extremes() {
    let zero = Limits::default()
        .max_request_line(0)
        .max_head(0)
        .max_fields(0)
        .max_body(0)
        .max_outstanding(0);
    let times = Limits::default()
        .head_time(Duration::ZERO)
        .body_time(Duration::ZERO)
        .send_time(Duration::ZERO)
        .idle(Duration::ZERO);
    let most = Limits::default()
        .max_request_line(u16::MAX)
        .max_head(u16::MAX)
        .max_fields(u8::MAX)
        .max_body(u64::MAX)
        .head_time(Duration::MAX)
        .body_time(Duration::MAX)
        .send_time(Duration::MAX)
        .idle(Duration::MAX)
        .max_outstanding(usize::MAX);
    let group = tidegate_net::pinned("web", 1).unwrap();
    let start = |limits| {
        let builder = HttpServer::builder(&group).limits(limits);
        builder
            .serve("127.0.0.1:0", |_, response| response.defer().body("ok"))
            .wait()
            .unwrap()
    };
    let server = start(zero);
    let mut client = Client::of(&server);
    client.send(get("/"));
    assert!(client.rest().starts_with("HTTP/1.1 4"));
    // Without any time nothing hangs, whatever the client gets.
    let server = start(times);
    drop(Client::of(&server).rest());
    let mut client = Client::of(&server);
    client.send("GET / HT");
    let text = client.rest();
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 408"),
        "{text}"
    );
    until("all are closed", || server.metrics().connections == 0);
    let server = start(most);
    let mut client = Client::of(&server);
    let target = "a".repeat(60_000);
    client.send(get(&format!("/{target}")));
    assert_eq!(client.response(), (200, "ok".to_owned()));
    client.send(get(&format!("/{}", "a".repeat(70_000))));
    assert!(client.rest().starts_with("HTTP/1.1 4"));
    let mut client = Client::of(&server);
    client.send((0..1_000).map(|_| get("/")).collect::<String>());
    for _ in 0..1_000 {
        assert_eq!(client.response(), (200, "ok".to_owned()));
    }
    server.drain(Duration::from_secs(3600)).wait().unwrap();
}

#[test]
fn a_connection_that_is_kept_alive_counts_until_it_ends() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let server = HttpServer::builder(&group)
        .configure(|server| server.max_connections(2))
        .serve("127.0.0.1:0", |_, response| response.body("ok"))
        .wait()
        .unwrap();
    let mut clients: Vec<_> = (0..2).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        client.ask("/", "ok");
    }
    let mut third = Client::of(&server);
    let _ = third.stream.write_all(get("/").as_bytes());
    drop(clients.pop());
    drop(clients.pop());
    until("they are gone", || {
        server.metrics().connections == 0 || third.stream.peek(&mut [0]).is_ok()
    });
    drop(third);
    until("a place is free", || {
        let mut client = Client::of(&server);
        let mut byte = [0];
        client.stream.write_all(get("/").as_bytes()).is_ok()
            && client.stream.peek(&mut byte).is_ok_and(|read| read == 1)
    });
}

#[test]
fn a_blocked_roaming_service_and_a_drain_answer_what_was_accepted() {
    let pool = WorkerPool::builder("workers")
        .core(8)
        .max(8)
        .build()
        .unwrap();
    let group = tidegate_net::roaming("web", 1, &pool).unwrap();
    let (gate, inside) = (Arc::new(Gate::new()), Arc::new(Mutex::new(0)));
    let (wait, entered) = (Arc::clone(&gate), Arc::clone(&inside));
    let server = serve(&group, "127.0.0.1:0", move |_, response| {
        *entered.lock().unwrap() += 1;
        wait.wait();
        response.body("done");
    })
    .wait()
    .unwrap();
    let mut clients: Vec<_> = (0..4).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        client.send(get("/a") + &get("/b"));
    }
    until("all block", || *inside.lock().unwrap() == 4);
    let drained = server.drain(Duration::from_secs(3600));
    gate.open();
    for client in clients {
        let text = client.rest();
        assert!(text.contains("Connection: close"), "{text}");
        assert!(text.ends_with("done"), "{text}");
    }
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn drains_at_random_moments_answer_each_accepted_request_once() {
    let pool = WorkerPool::builder("workers")
        .core(4)
        .max(4)
        .build()
        .unwrap();
    for round in 0..20 {
        let workers = pool.clone();
        let server = start_on(2, move |request, response| {
            let path = request.path().to_owned();
            let later = response.defer();
            let _ = workers.submit(move || match path.len() % 2 {
                0 => later.body(path),
                _ => {
                    let mut stream = later.stream();
                    stream.write(path);
                    stream.finish();
                }
            });
        });
        let mut clients: Vec<_> = (0..4).map(|_| Client::of(&server)).collect();
        for client in &mut clients {
            client.send((0..12).map(|n| get(&"/".repeat(n + 1))).collect::<String>());
        }
        until("some are served", || settled(&server) >= round * 2);
        let report = server.drain(Duration::from_secs(3600)).wait().unwrap();
        assert!(report.closed_at_deadline.is_empty(), "{report}");
        let texts: Vec<_> = clients.into_iter().map(whole_or_reset).collect();
        let answered: usize = texts.iter().map(|text| count(text, "HTTP/1.1 200")).sum();
        let metrics = server.metrics();
        assert_eq!(answered as u64, metrics.requests, "{metrics}");
        for text in texts {
            assert!(count(&text, "Connection: close") <= 1, "{text}");
        }
    }
}

#[test]
fn a_response_before_one_that_is_cut_is_not_lost_with_requests_that_wait() {
    let (group, begun) = (pinned("web", 1).unwrap(), Log::new());
    let own = begun.clone();
    let limits = Limits::default().max_outstanding(2);
    let server = HttpServer::builder(&group).limits(limits);
    let service = move |_: Request<'_>, response: Response<'_>| own.push(response.defer());
    let server = server.serve("127.0.0.1:0", service).wait().unwrap();
    let mut client = Client::of(&server);
    client.send(get("/a") + &get("/b") + &get("/c"));
    begun.wait_for(2);
    // They stay in the socket: the connection has stopped reading.
    client.send(get("/d").repeat(100));
    let mut both = begun.take().into_iter();
    let (first, second) = (both.next().unwrap(), both.next().unwrap());
    in_one_turn(&group, || {
        drop(second.stream());
        // The system holds most of it until the client reads.
        first.body("x".repeat(500_000));
    });
    assert_eq!(client.response().1.len(), 500_000);
    let rest = client.rest();
    assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{rest}");
    assert_eq!(server.metrics().requests, 2);
}
