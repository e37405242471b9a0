//! Changes under load, by count: no request is lost when the configuration changes or the program
//! ends. `tidegate-bench proof` does the same for a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::process::Program;
use crate::*;

const UPGRADE: &str =
    "GET /live HTTP/1.1\r\nHost: shop.example\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

fn start<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().spawn(run).unwrap()
}

/// Responds to every request on a thread for each connection. After an upgrade it sends back what it
/// receives.
fn serve_all(back: Upstream) {
    start(move || {
        while let Ok((stream, _)) = back.0.accept() {
            start(move || serve(Peer::new(stream)));
        }
    });
}

fn serve(mut peer: Peer) {
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
            let mut own = peer.0.try_clone().unwrap();
            let _ = io::copy(&mut peer.0, &mut own);
            return;
        }
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
             tunnel = {{ max = 100, idle = \"5m\" }}\n\
             [route.number{number}]\npath = \"/number{number}\"\nupstream = \"back\"\n",
            100 + number % 2
        )
    };
    let configs: Vec<_> = (0..40).map(|number| config(&text(number))).collect();
    let fixture = Fixture::new(&text(0));
    serve_all(one);
    serve_all(two);
    let ends = Arc::new(AtomicBool::new(false));
    let ask = |mut client: Peer| -> JoinHandle<usize> {
        let ends = Arc::clone(&ends);
        start(move || {
            let mut answered = 0;
            while !ends.load(Ordering::Relaxed) {
                client.write(GET);
                assert_eq!(client.message().body, "ok");
                answered += 1;
            }
            answered
        })
    };
    let clients: Vec<_> = (0..4).map(|_| ask(fixture.client())).collect();
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
        assert!(client.join().unwrap() > 0);
    }
    // Routes that were removed hold nothing.
    assert_eq!(fixture.isolation.snapshots().len(), 3);
}

#[test]
fn a_signal_under_load_loses_no_request() {
    let back = Upstream::new();
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[log]\nsuccess = 0\n\
         [drain]\nannounce = \"300ms\"\ndeadline = \"20s\"\n{}",
        route(&[&back], "timeout = \"60s\"")
    );
    serve_all(back);
    let mut program = Program::start("loaded", &text);
    let address = program.address();
    let ask = || -> JoinHandle<usize> {
        let address = address.clone();
        start(move || {
            let mut answered = 0;
            // Until nobody listens.
            while let Ok(stream) = TcpStream::connect(&address) {
                let mut client = Peer::new(stream);
                // A connection that the kernel made for a listener that ends was never accepted.
                let sent = client.0.write_all(GET.as_bytes());
                let mut byte = [0];
                if sent.is_err() || !client.0.peek(&mut byte).is_ok_and(|count| count == 1) {
                    continue;
                }
                loop {
                    let response = client.message();
                    assert_eq!((response.status(), response.body.as_str()), ("200", "ok"));
                    answered += 1;
                    if response.field("connection") == Some("close") {
                        break;
                    }
                    client.write(GET);
                }
            }
            answered
        })
    };
    let clients: Vec<_> = (0..4).map(|_| ask()).collect();
    let mut first = Peer::new(TcpStream::connect(&address).unwrap());
    first.write(GET);
    assert_eq!(first.message().body, "ok");
    drop(first);
    program.signal("TERM");
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
    assert_eq!(program.status(), Some(0));
}
