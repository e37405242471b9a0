//! Drains of connections with TLS: a line that had arrived is answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::handlers::LineFrames;
use tidegate_net::tls::rustls::pki_types::ServerName;
use tidegate_net::tls::rustls::{ClientConfig, ClientConnection, RootCertStore};
use tidegate_net::{Draining, NetGroup, Server};

use super::Authority;
use crate::acts::Acts;
use crate::backlog::hold;
use crate::{dial, group, serve};

/// Responds to each line, and says goodbye at a drain.
fn chats() -> Acts {
    Acts::on_read(|line, ctx| {
        ctx.write_and_flush(format!("you said {}\n", String::from_utf8_lossy(&line)));
    })
    .on_event(|event, ctx| {
        if event.downcast_ref::<Draining>().is_some() {
            ctx.write("goodbye\n");
            ctx.close_when_flushed();
        }
    })
}

/// A client whose bytes the test sends and receives one step at a time.
struct StepwiseClient {
    socket: TcpStream,
    tls: ClientConnection,
}

impl StepwiseClient {
    fn new(authority: &Authority, server: &Server) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("a.test").unwrap();
        let socket = dial(server);
        // Otherwise the line waits at the client until the server has acknowledged the handshake.
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            tls: ClientConnection::new(Arc::new(config), name).unwrap(),
        }
    }

    fn send(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket).unwrap();
        }
    }

    /// Receives until the server has finished its part of the handshake. The client has not sent
    /// its own last part then.
    fn shake_hands(&mut self) {
        while self.tls.is_handshaking() {
            assert_ne!(self.tls.read_tls(&mut self.socket).unwrap(), 0);
            self.tls.process_new_packets().unwrap();
        }
    }

    fn write(&mut self, text: &str) {
        self.tls.writer().write_all(text.as_bytes()).unwrap();
    }

    /// Returns what comes until the server ends the connection in order.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.tls.reader().read_to_string(&mut text) {
                Ok(_) => return text,
                Err(why) => assert_eq!(why.kind(), std::io::ErrorKind::WouldBlock, "{text}"),
            }
            self.tls.read_tls(&mut self.socket).unwrap();
            self.tls.process_new_packets().unwrap();
        }
    }
}

fn chat() -> (Authority, NetGroup, Server) {
    let (authority, group) = (Authority::new(), group(1));
    let tls = authority.server("a.test");
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler())
            .add("lines", LineFrames::max(80))
            .add("chat", chats())
    });
    (authority, group, server)
}

#[test]
fn a_line_that_has_arrived_is_answered_before_the_drain_ends_its_connection() {
    for early in [false, true] {
        let (authority, group, server) = chat();
        let mut client = StepwiseClient::new(&authority, &server);
        client.send();
        client.shake_hands();
        if early {
            client.send();
        }
        // The loop sees the line, and the last part of the handshake unless it was `early`, only after
        // the drain has begun.
        let go_on = hold(&group);
        client.write("hello\n");
        client.send();
        let drained = server.drain(Duration::from_secs(3600));
        go_on.open();
        assert_eq!(client.rest(), "you said hello\ngoodbye\n", "{early}");
        assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
    }
}

#[test]
fn a_drain_within_the_handshake_lets_it_finish_for_what_handlers_write() {
    let (authority, group, server) = chat();
    let mut client = StepwiseClient::new(&authority, &server);
    let go_on = hold(&group);
    client.send();
    let drained = server.drain(Duration::from_secs(3600));
    go_on.open();
    client.shake_hands();
    client.send();
    assert_eq!(client.rest(), "goodbye\n");
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}
