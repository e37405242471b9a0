//! Changes under load, by count: no request is lost when the configuration changes or the program
//! ends. `tidegate-bench proof` does the same for a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tidegate_testkit::has;

use crate::process::{LogFile, Program};
use crate::*;

const UPGRADE: &str =
    "GET /live HTTP/1.1\r\nHost: shop.example\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

/// The only request of its connection.
const GET_LAST: &str = "GET /a HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

fn start<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().spawn(run).unwrap()
}

/// Responds to every request on a thread for each connection. After an upgrade it sends back what it
/// receives. Returns the number of its responses.
pub(crate) fn serve_all(back: Upstream) -> Arc<AtomicU64> {
    let responses = Arc::<AtomicU64>::default();
    let all = Arc::clone(&responses);
    start(move || {
        while let Ok(stream) = back.0.accept() {
            let responses = Arc::clone(&responses);
            start(move || serve(Peer::new(stream), &responses));
        }
    });
    all
}

fn serve(mut peer: Peer, responses: &AtomicU64) {
    let mut head = Vec::new();
    let mut byte = [0];
    while peer.0.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        if head
            .windows(9)
            .any(|part| part.eq_ignore_ascii_case(b"\r\nupgrade"))
        {
            peer.write(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
            );
            let mut own = peer.0.another();
            let _ = io::copy(&mut peer.0, &mut own);
            return;
        }
        responses.fetch_add(1, Ordering::Relaxed);
        if peer.0.write_all(OK.as_bytes()).is_err() {
            return;
        }
        head.clear();
    }
}

#[test]
fn reloads_lose_no_request_and_no_tunnel() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let text = |number: usize| {
        let server = [&one, &two][number % 2].address();
        format!(
            "[upstream.back]\nservers = [\"{server}\"]\n\
             [route.shop]\nupstream = \"back\"\nlimit = {}\n\
             tunnel = {{ max = 100, idle = \"5m\", protocols = \"echo\" }}\n\
             [route.number{number}]\npath = \"/number{number}\"\nupstream = \"back\"\n",
            100 + number % 2
        )
    };
    let configs: Vec<_> = (0..40).map(|number| config(&text(number))).collect();
    let fixture = Fixture::new(&text(0));
    serve_all(one);
    serve_all(two);
    let ends = Arc::new(AtomicBool::new(false));
    let ask = |mut client: Peer, answered: &Arc<AtomicU64>| -> JoinHandle<()> {
        let (ends, answered) = (Arc::clone(&ends), Arc::clone(answered));
        start(move || {
            while !ends.load(Ordering::Relaxed) {
                client.write(GET);
                assert_eq!(client.message().body, "ok");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let answered = [(); 4].map(|()| Arc::<AtomicU64>::default());
    let clients = answered.each_ref().map(|own| ask(fixture.client(), own));
    await_answers(&answered);
    let mut tunnels: Vec<Peer> = (0..30).map(|_| fixture.send(UPGRADE)).collect();
    for tunnel in &mut tunnels {
        assert!(tunnel.head().starts_with("HTTP/1.1 101 "));
    }
    for config in configs {
        fixture.gateway.reload(config).unwrap();
    }
    for tunnel in &mut tunnels {
        tunnel.write("are you there");
        assert_eq!(tunnel.bytes(13), "are you there");
    }
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    // Routes that were removed hold nothing.
    assert_eq!(fixture.isolation.snapshots().len(), 3);
}

/// A client of a gateway that is going to end.
#[derive(Clone, Default)]
struct Asker {
    answered: Arc<AtomicU64>,
    /// How many of the responses ended their connections.
    last: Arc<AtomicU64>,
    /// Each request that is sent from now on is the last one of its connection.
    is_announced: Arc<AtomicBool>,
    /// From now on the gateway may stop accepting.
    ends: Arc<AtomicBool>,
}

impl Asker {
    /// Returns another client that hears the same.
    fn another(&self) -> Self {
        let (is_announced, ends) = (Arc::clone(&self.is_announced), Arc::clone(&self.ends));
        Self {
            is_announced,
            ends,
            ..Self::default()
        }
    }

    /// Sends requests until nobody listens.
    fn ask_until_nobody_listens(&self, address: &str) {
        while let Ok(stream) = Wires::Local.connect(address) {
            self.ask_on(Peer::new(stream));
        }
    }

    /// Sends requests on a connection up to its end. Each gets its response, except on a connection that
    /// the gateway has not accepted at its end: that is reset.
    fn ask_on(&self, mut client: Peer) {
        for number in 0.. {
            let is_last = self.is_announced.load(Ordering::SeqCst);
            let sent = client.0.write_all(GET.as_bytes());
            let comes = sent.and_then(|()| client.0.peek(&mut [0]));
            if let Err(why) = &comes
                && is_reset(why)
            {
                let ends = self.ends.load(Ordering::SeqCst);
                assert!(ends && number == 0, "request {number}: {why}");
                return;
            }
            assert_eq!(comes.unwrap(), 1, "request {number} has no response");
            let response = client.gets("200", "ok");
            self.answered.fetch_add(1, Ordering::Relaxed);
            if response.field("connection") == Some("close") {
                client.clean_end();
                self.last.fetch_add(1, Ordering::Relaxed);
                return;
            }
            assert!(!is_last, "request {number} came after the announcement");
        }
    }
}

fn is_reset(why: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(why.kind(), ConnectionReset | BrokenPipe)
}

/// Waits until each client has got a response.
fn await_answers(answered: &[Arc<AtomicU64>]) {
    tidegate_testkit::until("each client has got a response", || {
        answered.iter().all(|own| own.load(Ordering::Relaxed) > 0)
    });
}

#[test]
fn a_drain_under_load_loses_no_request() {
    let (back, fixture) = Fixture::of("timeout = false");
    let responses = serve_all(back);
    let one = Asker::default();
    let all = [one.clone(), one.another(), one.another(), one.another()];
    let clients = all.each_ref().map(|own| {
        let (own, address) = (own.clone(), fixture.address());
        start(move || own.ask_until_nobody_listens(&address))
    });
    let count = |own: &Asker| own.last.load(Ordering::Relaxed);
    let served = all.each_ref().map(|own| Arc::clone(&own.answered));
    await_answers(&served);
    let announce = Duration::from_secs(5);
    let drained = fixture.gateway.drain(announce, Duration::from_secs(60));
    one.is_announced.store(true, Ordering::SeqCst);
    // The connections that are open at the end are not older than this.
    fixture.clock.advance(announce - Duration::from_millis(50));
    let before = all.each_ref().map(count);
    tidegate_testkit::until("each client has connected again", || {
        let mut both = all.iter().zip(&before);
        both.all(|(own, before)| count(own) > before + 1)
    });
    one.ends.store(true, Ordering::SeqCst);
    fixture.clock.advance(Duration::from_millis(100));
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(drained.wait().unwrap().cut, 0);
    let answered: u64 = served.iter().map(|own| own.load(Ordering::Relaxed)).sum();
    assert_eq!(answered, responses.load(Ordering::Relaxed));
}

/// Sends requests on connections of their own until nobody listens.
fn ask_once_each(address: &str, answered: &AtomicU64, is_signalled: &AtomicBool) {
    while let Ok(stream) = TcpStream::connect(address) {
        let mut client = Peer::new(stream);
        let sent = client.0.write_all(GET_LAST.as_bytes());
        match sent.and_then(|()| client.0.peek(&mut [0])) {
            Ok(1) => {
                client.gets("200", "ok");
                client.clean_end();
                answered.fetch_add(1, Ordering::Relaxed);
            }
            // The kernel made it for a listener that ends: it was never accepted.
            other => {
                assert!(is_signalled.load(Ordering::SeqCst), "{other:?}");
                let why = other.expect_err("it was accepted and got nothing");
                assert!(is_reset(&why), "{why}");
            }
        }
    }
}

#[test]
fn a_signal_under_load_loses_no_request() {
    let back = Upstream::on_socket();
    let log = LogFile::new("loaded");
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n{}success = 0\n\
         [drain]\nannounce = \"0s\"\ndeadline = \"20s\"\n{}",
        log.section(),
        route(&[&back], "timeout = \"60s\"")
    );
    let responses = serve_all(back);
    let mut program = Program::start("loaded", &text);
    let address = program.address();
    let is_signalled = Arc::<AtomicBool>::default();
    let ask = |answered: &Arc<AtomicU64>| -> JoinHandle<()> {
        let (address, answered) = (address.clone(), Arc::clone(answered));
        let is_signalled = Arc::clone(&is_signalled);
        start(move || ask_once_each(&address, &answered, &is_signalled))
    };
    let answered = [(); 4].map(|()| Arc::<AtomicU64>::default());
    let clients = answered.each_ref().map(ask);
    await_answers(&answered);
    is_signalled.store(true, Ordering::SeqCst);
    program.signal("TERM");
    for client in clients {
        client.join().unwrap();
    }
    let said = program.rest();
    has(&said, ["cut at the deadline: 0"]);
    let answered: u64 = answered.iter().map(|own| own.load(Ordering::Relaxed)).sum();
    assert_eq!(answered, responses.load(Ordering::Relaxed));
    assert_eq!(log.lines(), (0, 0), "each was a success");
    assert_eq!(program.status(), Some(0));
}
