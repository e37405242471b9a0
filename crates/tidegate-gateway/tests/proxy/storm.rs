//! Everything at once, by seeds: reloads, drained servers, forced breakers, retries and fallbacks,
//! hostile servers, clients that leave, tunnels. Each request has one end, and nothing stays taken.
//!
//! Each request has a number in its path. Servers send it back, so that a client notices a response
//! that is not its own, and they count the requests with a body, which must not be repeated.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tidegate_testkit::{Rng, begins, model, short_or_long};

use crate::operation::{World, operated};
use crate::*;

/// How many servers, clients and requests of a client there are.
const SERVERS: usize = 3;
const CLIENTS: usize = 6;
const REQUESTS: usize = 30;
/// A request to which the gateway itself responds.
const LAST: &str = "GET /fixed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn start<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().spawn(run).unwrap()
}

/// What the servers have seen.
#[derive(Default)]
struct Seen {
    /// How often each request with a body has come.
    posts: Mutex<HashMap<u64, u32>>,
    connections: AtomicU64,
}

/// A message as a server or a client reads it: tolerant, since the other side may do anything.
struct Whole {
    head: String,
    body: Vec<u8>,
}

/// Reads a head and a body of a declared length, in chunks, or to the end of the connection. An end or
/// a reset is `None`.
fn read(peer: &mut Peer, has_body: impl Fn(&str) -> bool) -> Option<Whole> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(byte(peer)?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut body = Vec::new();
    if !has_body(&head) {
        return Some(Whole { head, body });
    }
    if let Some(length) = field(&head, "content-length") {
        for _ in 0..length.parse::<usize>().ok()? {
            body.push(byte(peer)?);
        }
    } else if field(&head, "transfer-encoding").is_some() {
        while !body.ends_with(b"0\r\n\r\n") {
            body.push(byte(peer)?);
        }
    } else if head.starts_with("HTTP/") {
        while let Some(byte) = byte(peer) {
            body.push(byte);
        }
    }
    Some(Whole { head, body })
}

/// Reads a byte. The other side must do something at some time.
fn byte(peer: &mut Peer) -> Option<u8> {
    let mut byte = [0];
    match peer.0.read(&mut byte) {
        Ok(count) => (count == 1).then_some(byte[0]),
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("nothing happens")
        }
        Err(_) => None,
    }
}

/// Returns the number of a request.
fn number(head: &str) -> Option<u64> {
    let path = head.split(' ').nth(1)?;
    path.strip_prefix("/n")?.split('/').next()?.parse().ok()
}

/// A server that does anything. It ends with the process.
fn hostile(seen: &Arc<Seen>, seed: u64) -> SocketAddr {
    let listener = Wires::Local.listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr();
    let seen = Arc::clone(seen);
    start(move || {
        while let Ok(stream) = listener.accept() {
            let own = seen.connections.fetch_add(1, Ordering::Relaxed);
            let (seen, mut rng) = (Arc::clone(&seen), Rng::new(seed ^ own));
            start(move || {
                let mut peer = Peer::new(stream);
                // The gateway keeps connections for as long as it wants.
                peer.0.set_timeout(None);
                while serve(&mut peer, &seen, &mut rng).is_some() {}
            });
        }
    });
    address
}

/// Serves a request. Returns `None` if the connection ends.
fn serve(peer: &mut Peer, seen: &Seen, rng: &mut Rng) -> Option<()> {
    let is_early = rng.chance(0.05);
    let request = read(peer, |_| !is_early)?;
    let number = number(&request.head).unwrap_or(0);
    if request.head.starts_with("POST ") {
        *seen.posts.lock().unwrap().entry(number).or_default() += 1;
    }
    let mut write = |text: &str| peer.0.write_all(text.as_bytes()).ok();
    let head = |status: &str, fields: &str| {
        format!("HTTP/1.1 {status}\r\nX-Number: {number}\r\n{fields}\r\n")
    };
    let ok = format!("{}{number:08}", head("200 OK", "Content-Length: 8\r\n"));
    if field(&request.head, "upgrade").is_some() && rng.chance(0.8) {
        let fields = "Connection: upgrade\r\nUpgrade: echo\r\n";
        write(&head("101 Switching Protocols", fields))?;
        let mut own = peer.0.another();
        let _ = io::copy(&mut peer.0, &mut own);
        return None;
    }
    let is_head = request.head.starts_with("HEAD ");
    match rng.below(if is_early { 1 } else { 14 }) {
        // The rest of the request is not read.
        0 if is_early => {
            write(&head(
                "413 No",
                "Content-Length: 0\r\nConnection: close\r\n",
            ))?;
            None
        }
        0..=4 if is_head => write(&head("200 OK", "Content-Length: 8\r\n")),
        0..=4 => write(&ok),
        _ if is_head => None,
        5 => write(&format!(
            "{}4\r\nbody\r\n0\r\n\r\n",
            head("200 OK", "Transfer-Encoding: chunked\r\n")
        )),
        6 => write(&head("500 No", "Content-Length: 0\r\n")),
        7 => {
            write(&format!("{}to the end", head("200 OK", "")))?;
            None
        }
        // Cut in its body.
        8 => {
            write(&format!("{}abc", head("200 OK", "Content-Length: 10\r\n")))?;
            None
        }
        9 => {
            write("what?\r\n\r\n")?;
            None
        }
        // A second response, which nobody has asked for.
        10 => write(&format!("{ok}{ok}")),
        11 => write(&format!(
            "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n{ok}"
        )),
        // Silent until the gateway leaves.
        12 => {
            let _ = io::copy(&mut peer.0, &mut io::sink());
            None
        }
        _ => None,
    }
}

/// What a client has counted.
#[derive(Default)]
struct Told {
    /// The numbers that were sent, and whether a whole response has come.
    sent: Vec<(u64, bool)>,
}

/// Sends requests, and leaves now and then.
fn client(address: &str, numbers: &AtomicU64, rng: &mut Rng) -> Told {
    let mut told = Told::default();
    let mut kept: Option<Peer> = None;
    for _ in 0..REQUESTS {
        let connect = || Peer::new(Wires::Local.connect(address).unwrap());
        let mut peer = kept.take().unwrap_or_else(connect);
        let own = numbers.fetch_add(1, Ordering::Relaxed);
        let (text, is_head) = request(own, rng);
        if peer.0.write_all(text.as_bytes()).is_err() {
            told.sent.push((own, false));
            continue;
        }
        if rng.chance(0.1) {
            told.sent.push((own, false));
            if rng.chance(0.5) {
                peer.0.shutdown_output();
            }
            continue;
        }
        let response = response(&mut peer, own, is_head);
        told.sent.push((own, response.is_some()));
        match response {
            Some(head) if head.starts_with("HTTP/1.1 101") => speak(&mut peer, rng),
            Some(head) if field(&head, "connection") != Some("close") => kept = Some(peer),
            _ => {}
        }
    }
    // What comes next is the response to this one.
    if let Some(mut peer) = kept
        && peer.0.write_all(LAST.as_bytes()).is_ok()
        && let Some(last) = read(&mut peer, |_| true)
    {
        begins(&last.head, "HTTP/1.1 203 ");
        assert_eq!(peer.rest(), "");
    }
    told
}

/// Returns a request, and whether it is one for a head only.
fn request(number: u64, rng: &mut Rng) -> (String, bool) {
    let head = |method: &str, fields: &str| {
        format!("{method} /n{number}/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    };
    match rng.below(10) {
        0 => (head("HEAD", ""), true),
        1..=3 => {
            let mut text = head("POST", "Content-Length: 20000\r\n");
            let _ = write!(text, "{number:020000}");
            (text, false)
        }
        4 => (
            head("GET", "Connection: upgrade\r\nUpgrade: echo\r\n"),
            false,
        ),
        _ => (head("GET", ""), false),
    }
}

/// Reads a whole response, which must be that to request `own`. Returns its head.
fn response(peer: &mut Peer, own: u64, is_head: bool) -> Option<String> {
    loop {
        let has_body = |head: &str| !is_head && !head.starts_with("HTTP/1.1 1");
        let Whole { head, body } = read(peer, has_body)?;
        if head.starts_with("HTTP/1.1 103 ") {
            continue;
        }
        if let Some(number) = field(&head, "x-number") {
            assert_eq!(number, own.to_string(), "a response to another request");
            let body = String::from_utf8(body).unwrap();
            assert!(
                body.len() != 8 || body == format!("{own:08}"),
                "a body of another response: {body}"
            );
        }
        let status = head.split(' ').nth(1).unwrap().to_owned();
        let names_reason = ["x-number", "tidegate-refused", "tidegate-failed"]
            .iter()
            .any(|name| field(&head, name).is_some());
        assert!(
            names_reason || status == "299" || status == "101",
            "a status of the gateway without its reason:\n{head}"
        );
        return Some(head);
    }
}

/// Uses a tunnel, and leaves.
fn speak(peer: &mut Peer, rng: &mut Rng) {
    for _ in 0..rng.below(4) {
        if peer.0.write_all(b"ping").is_err() {
            return;
        }
        let mut heard = [0; 4];
        for place in &mut heard {
            match byte(peer) {
                Some(byte) => *place = byte,
                None => return,
            }
        }
        assert_eq!(&heard, b"ping");
    }
}

/// Returns some configuration.
fn any(servers: &[SocketAddr], rng: &mut Rng) -> String {
    let mut one_of = |choices: &[&str]| choices[rng.index(choices.len())].to_owned();
    let limits = one_of(&["", "limits = { fields = 90 }", "limits = { fields = 80 }"]);
    let upstream = [
        one_of(&["", "max_in_flight = 2", "max_in_flight = 20"]),
        one_of(&["balance = \"round_robin\"", "balance = \"random\"", ""]),
        one_of(&["", "", "health = { every = \"1s\", timeout = \"500ms\" }"]),
    ];
    let route = [
        one_of(&["limit = 2", "limit = 50", "limit = { kind = \"adaptive\" }"]),
        one_of(&["", "queue = 3", "queue = { max = 30, wait = \"1s\" }"]),
        one_of(&["breaker = {}", "breaker = { volume = 3 }", ""]),
        one_of(&[
            "",
            "retry = { times = 3, budget = 1.0, pause = \"100ms\" }",
            "retry = { times = 1, budget = 1.0, attempt_timeout = \"1s\" }",
        ]),
        one_of(&[
            "",
            "fallback = { status = 299 }",
            "fallback = { upstream = \"spare\" }",
        ]),
        one_of(&[
            "tunnel = { max = 3, idle = \"2s\", protocols = [\"websocket\", \"echo\"] }",
            "tunnel = { protocols = \"Echo\" }",
            "tunnel = {}",
            "",
        ]),
    ];
    let count = 1 + rng.index(SERVERS);
    let own: Vec<String> = servers[..count]
        .iter()
        .map(|server| format!("\"{server}\""))
        .collect();
    let text = format!(
        "[listen.more]\nat = \"127.0.0.1:0\"\n{limits}\n\
         [upstream.back]\nservers = [{}]\n{}\n\
         [upstream.spare]\nservers = [\"{}\"]\n\
         [route.all]\nupstream = \"back\"\ntimeout = \"5s\"\n{}\n\
         [route.spare]\npath = \"/spare\"\nupstream = \"spare\"\n\
         [route.fixed]\npath = \"/fixed\"\nrespond = 203\n",
        own.join(", "),
        upstream.join("\n"),
        servers[SERVERS],
        route.join("\n"),
    );
    operated(&text)
}

/// Does one thing that an operator may do.
fn interfere(world: &World, servers: &[SocketAddr], rng: &mut Rng) {
    match rng.below(6) {
        0 | 1 => {
            world.reload("storm", &any(servers, rng));
        }
        2 => {
            let server = servers[rng.index(SERVERS)].to_string();
            let gateway = world.operation.gateway();
            gateway.drain_server("back", &server, rng.chance(0.3));
        }
        3 => {
            let order = ["open", "close", "auto", "reset"][rng.index(4)];
            world.change(&format!("POST /api/breakers/all/{order}"), "");
        }
        4 => {
            world.get("/api/snapshot");
        }
        _ => {}
    }
    world.clock.advance(Duration::from_millis(rng.below(400)));
}

#[test]
fn each_request_has_one_end_and_nothing_stays_taken() {
    model(0..short_or_long(2, 60), |rng| {
        let (seen, numbers) = (Arc::new(Seen::default()), Arc::new(AtomicU64::new(1)));
        let servers: Vec<SocketAddr> = (0..=SERVERS)
            .map(|_| hostile(&seen, rng.next_u64()))
            .collect();
        let world = World::with_loops(any(&servers, rng), 2);
        let running = Arc::new(AtomicUsize::new(CLIENTS));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let address = world.address(["http", "more"][index % 2]);
                let (numbers, running) = (Arc::clone(&numbers), Arc::clone(&running));
                let mut rng = rng.fork();
                start(move || {
                    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        client(&address, &numbers, &mut rng)
                    }));
                    running.fetch_sub(1, Ordering::Release);
                    told
                })
            })
            .collect();
        tidegate_testkit::until("the clients have ended", || {
            interfere(&world, &servers, rng);
            running.load(Ordering::Acquire) == 0
        });
        let told: Vec<Told> = clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap()
                    .expect("a client has seen no mistake")
            })
            .collect();
        settle(&world);
        let posts = seen.posts.lock().unwrap().clone();
        for (number, count) in posts {
            assert!(count <= 1, "request {number} came {count} times");
        }
        check_log(&world, &told);
    });
}

/// Ends everything that waits. Then nothing is in flight.
fn settle(world: &World) {
    let gateway = world.operation.gateway();
    tidegate_testkit::until("nothing is in flight", || {
        world.clock.advance(Duration::from_millis(500));
        let upstreams = gateway.upstreams();
        let servers = upstreams.iter().flat_map(|upstream| &upstream.servers);
        world.active() == 0 && servers.map(|server| server.in_flight).sum::<usize>() == 0
    });
}

/// Each request whose response has come has one line in the log, and no request has two.
fn check_log(world: &World, told: &[Told]) {
    let answered = told.iter().flat_map(|told| &told.sent);
    let answered = answered.filter(|(_, is_whole)| *is_whole).count();
    let lines = world.lines(answered);
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for line in &lines {
        let path = line.split("\"path\":\"/n").nth(1);
        if let Some(number) = path.and_then(|path| path.split('/').next()) {
            *counts.entry(number.parse().unwrap()).or_default() += 1;
        }
    }
    for (number, is_whole) in told.iter().flat_map(|told| &told.sent) {
        let count = counts.get(number).copied().unwrap_or(0);
        assert!(count <= 1, "request {number} has {count} lines");
        // A line may be written a moment after its response.
        if *is_whole && count == 0 {
            let path = format!("\"path\":\"/n{number}/");
            tidegate_testkit::until("the line is written", || {
                world.lines(0).iter().any(|line| line.contains(&path))
            });
        }
    }
}
