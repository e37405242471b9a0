//! Changes under load, by count: no request is lost when the configuration changes or the program
//! ends. `tidegate-bench proof` does the same for a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::process::Program;
use crate::*;

const UPGRADE: &str =
    "GET /live HTTP/1.1\r\nHost: shop.example\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

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

/// Sends requests, and counts the responses.
fn ask_until_nobody_listens(address: &str, answered: &AtomicU64) {
    while let Ok(stream) = TcpStream::connect(address) {
        let mut client = Peer::new(stream);
        // A connection that the kernel made for a listener that ends was never accepted. One that
        // was idle at the end of the announcement is closed: the next request came too late.
        while client.0.write_all(GET.as_bytes()).is_ok()
            && client.0.peek(&mut [0]).is_ok_and(|count| count == 1)
        {
            let response = client.message();
            assert_eq!((response.status(), response.body.as_str()), ("200", "ok"));
            answered.fetch_add(1, Ordering::Relaxed);
            if response.field("connection") == Some("close") {
                break;
            }
        }
    }
}

/// Waits until each client has got a response.
fn await_answers(answered: &[Arc<AtomicU64>]) {
    tidegate_testkit::until("each client has got a response", || {
        answered.iter().all(|own| own.load(Ordering::Relaxed) > 0)
    });
}

#[test]
fn a_signal_under_load_loses_no_request() {
    let back = Upstream::on_socket();
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[log]\nsuccess = 0\n\
         [drain]\nannounce = \"300ms\"\ndeadline = \"20s\"\n{}",
        route(&[&back], "timeout = \"60s\"")
    );
    let responses = serve_all(back);
    let mut program = Program::start("loaded", &text);
    let address = program.address();
    let ask = |answered: &Arc<AtomicU64>| -> JoinHandle<()> {
        let (address, answered) = (address.clone(), Arc::clone(answered));
        start(move || ask_until_nobody_listens(&address, &answered))
    };
    let answered = [(); 4].map(|()| Arc::<AtomicU64>::default());
    let clients = answered.each_ref().map(ask);
    await_answers(&answered);
    program.signal("TERM");
    for client in clients {
        client.join().unwrap();
    }
    let said = program.rest();
    assert!(said.contains("cut at the deadline: 0"), "{said}");
    let answered: u64 = answered.iter().map(|own| own.load(Ordering::Relaxed)).sum();
    assert_eq!(answered, responses.load(Ordering::Relaxed));
    assert_eq!(program.status(), Some(0));
}
