//! The servers behind the gateway, each a bare epoll loop on a thread of its own.

use std::net::{SocketAddr, TcpListener};

use crate::raw_epoll::{LISTENER, RawEpoll};

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It responds at once with 1 KiB.
    Healthy,
    /// Every second response is an error.
    Half,
    /// It never responds.
    Hangs,
    /// It changes to the protocol of WebSockets if it is asked to, and sends back what it receives. It
    /// expects the key of the example in RFC 6455.
    Echo,
}

/// Starts a server. It runs until the process ends.
pub(super) fn start(kind: Kind) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || serve(&listener, kind));
    address
}

/// What a connection has received of a head, or that it sends back everything.
#[derive(Clone, Default)]
struct Connection {
    kept: Vec<u8>,
    switched: bool,
}

fn serve(listener: &TcpListener, kind: Kind) {
    let body = "x".repeat(1024);
    let ok = format!("HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n{body}");
    let bad = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let mut raw = RawEpoll::new(listener);
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 * 1024];
    let mut connections: Vec<Connection> = Vec::new();
    let mut served = 0_u64;
    loop {
        if !raw.wait(&mut events) {
            continue;
        }
        for event in &events {
            let place = event.data.u64();
            if place == LISTENER {
                connections.resize(raw.accept(), Connection::default());
                continue;
            }
            let place = place as usize;
            let Some(count) = raw.receive(place, &mut buffer) else {
                continue;
            };
            let connection = &mut connections[place];
            if count == 0 {
                *connection = Connection::default();
            } else if connection.switched {
                raw.send(place, &buffer[..count]);
            } else if kind != Kind::Hangs {
                for wants_switch in connection.requests(&buffer[..count]) {
                    served += 1;
                    let fails = kind == Kind::Half && served.is_multiple_of(2);
                    connection.switched = wants_switch && kind == Kind::Echo;
                    let response = match (connection.switched, fails) {
                        (true, _) => switching,
                        (false, true) => bad,
                        (false, false) => &ok,
                    };
                    raw.send(place, response.as_bytes());
                }
            }
        }
    }
}

impl Connection {
    /// Takes received bytes. Returns for each request that is complete whether it asks for another
    /// protocol. Requests have no body.
    fn requests(&mut self, received: &[u8]) -> Vec<bool> {
        self.kept.extend_from_slice(received);
        let mut found = Vec::new();
        while let Some(end) = self.kept.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = self.kept[..end].to_ascii_lowercase();
            found.push(head.windows(10).any(|part| part == b"\r\nupgrade:"));
            self.kept.drain(..end + 4);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;

    #[test]
    fn requests_may_come_in_pieces_and_together() {
        let mut connection = Connection::default();
        assert!(connection.requests(b"GET / HTTP/1.1\r\nUpgra").is_empty());
        let found = connection.requests(b"de: x\r\n\r\nGET / HTTP/1.1\r\n\r\nGET");
        assert_eq!(found, [true, false]);
        assert_eq!(connection.kept, b"GET");
    }
}
