//! `https`.

use std::net::SocketAddr;

use bytes::Bytes;
use tidegate_http::client::Phase;
use tidegate_net::tls::{TlsClient, TlsHandshake, TlsServer};
use tidegate_net::{Inbound, InboundContext, InputShutdown, Nothing, Server, UserEvent};
use tidegate_testkit::{Log, block_on};

use crate::authority::Authority;
use crate::*;

/// Responds to each request, which comes in one piece.
struct Respond;

impl Inbound for Respond {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, request: Bytes, ctx: &mut InboundContext<'_, Self>) {
        assert!(request.starts_with(b"GET / HTTP/1.1\r\n"));
        ctx.write(OK);
        ctx.flush();
    }
}

/// A server with a certificate for `front.test`, and the authority that has signed it.
struct Certified {
    authority: String,
    tls: TlsServer,
}

impl Certified {
    fn new() -> Self {
        let authority = Authority::new();
        let tls = authority.server("front.test");
        let authority = authority.pem();
        Self { authority, tls }
    }

    fn trusted(&self) -> TlsClient {
        TlsClient::trusting(self.authority.as_bytes()).unwrap()
    }

    /// Serves with this handler behind TLS.
    fn serve<H: Inbound<In = Bytes, Out = Nothing> + Send>(
        &self,
        group: &NetGroup,
        handler: impl Fn() -> H + Send + Sync + 'static,
    ) -> Server {
        let tls = self.tls.clone();
        let server = Server::builder(group)
            .pipeline(move |p| p.add_duplex("tls", tls.handler()).add("own", handler()))
            .bind("127.0.0.1:0");
        server.wait().unwrap()
    }
}

/// Returns a client for which every name has this address.
fn secure(group: &NetGroup, tls: TlsClient, address: SocketAddr) -> Client {
    Client::builder(group)
        .tls(tls)
        .resolver(move |_, _| Completion::succeeded(vec![address]))
        .build()
}

#[test]
fn a_call_is_encrypted_and_the_certificate_is_checked() {
    let certified = Certified::new();
    let group = group(1);
    let server = certified.serve(&group, || Respond);
    let client = secure(&group, certified.trusted(), server.local_addr());
    for _ in 0..2 {
        assert_eq!(text(client.get("https://front.test/").send()), "ok");
    }
    let why = error(client.get("https://other.test/").send());
    assert!(
        why.is_connect() && why.phase() == Phase::Connect && !why.was_sent(),
        "{why}"
    );
    // A port where no TLS is spoken.
    let upstream = Upstream::new();
    let plain = upstream.0.local_addr().unwrap();
    let client = secure(&group, certified.trusted(), plain);
    let call = client.get("https://front.test/").send();
    let mut peer = upstream.accept();
    peer.respond("HTTP/1.1 400 Bad Request\r\n\r\n");
    let why = error(call);
    assert!(why.is_connect() && !why.was_sent(), "{why}");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let (certified, other) = (Certified::new(), Certified::new());
    let group = group(1);
    let server = certified.serve(&group, || Respond);
    let client = secure(&group, other.trusted(), server.local_addr());
    let why = error(client.get("https://front.test/").send());
    assert!(
        why.is_connect() && why.phase() == Phase::Connect && !why.was_sent(),
        "{why}"
    );
    // Without certificates to trust, there is no `https` at all.
    let plain = Client::builder(&group).build();
    let why = error(plain.get("https://front.test/").send());
    assert_eq!((why.phase(), why.was_sent()), (Phase::Request, false));
    // Requests that are encrypted to a port, in plain text to the same port.
    let client = secure(&group, certified.trusted(), server.local_addr());
    let why = error(
        client
            .get(format!("http://{}/", server.local_addr()))
            .send(),
    );
    assert!(!why.is_connect() && why.was_sent(), "{why}");
}

/// Logs the application protocol, and responds.
struct Protocol(Log<Option<Bytes>>);

impl Inbound for Protocol {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
        if let Ok(handshake) = event.downcast::<TlsHandshake>() {
            self.0.push(handshake.alpn);
        }
    }

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(OK);
        ctx.flush();
    }
}

#[test]
fn the_client_offers_http_1_1_and_nothing_else() {
    let mut certified = Certified::new();
    let group = group(1);
    for (offered, chosen) in [(&["h2", "http/1.1"][..], Some("http/1.1")), (&[], None)] {
        certified.tls = certified.tls.alpn(offered);
        let (log, own) = Log::pair();
        let server = certified.serve(&group, move || Protocol(own.clone()));
        // What the program has set is replaced.
        let tls = certified.trusted().alpn(["h2"]);
        let client = secure(&group, tls, server.local_addr());
        assert_eq!(text(client.get("https://front.test/").send()), "ok");
        let seen = log.take();
        assert!(matches!(&seen[..], [alpn] if alpn.as_deref() == chosen.map(str::as_bytes)));
    }
    // A server that speaks another protocol only.
    certified.tls = certified.tls.alpn(["h2"]);
    let server = certified.serve(&group, || Respond);
    let client = secure(&group, certified.trusted(), server.local_addr());
    let why = error(client.get("https://front.test/").send());
    assert!(why.is_connect() && !why.was_sent(), "{why}");
}

/// Responds with the begin of a body that ends with the connection, and does not end it.
struct Begins;

impl Inbound for Begins {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome");
        ctx.flush();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_some() {
            ctx.close();
        }
    }
}

/// Passes bytes on between a client and a server, until the client's side is cut.
struct Cut {
    address: SocketAddr,
    client: std::sync::mpsc::Receiver<TcpStream>,
}

impl Cut {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, client) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let near = listener.accept().unwrap().0;
            let far = TcpStream::connect(server).unwrap();
            send.send(near.try_clone().unwrap()).unwrap();
            for (mut from, mut to) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ] {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        Self { address, client }
    }
}

#[test]
fn an_encrypted_body_without_a_length_that_is_cut_is_not_complete() {
    let certified = Certified::new();
    let group = group(1);
    let server = certified.serve(&group, || Begins);
    let cut = Cut::before(server.local_addr());
    let client = secure(&group, certified.trusted(), cut.address);
    let response = client.get("https://front.test/").send().wait().unwrap();
    let mut body = response.into_body();
    assert_eq!(block_on("a piece", body.next()).unwrap().unwrap(), "some");
    // An end of the connection without `close_notify`: an attacker can make it.
    let near = cut.client.recv().unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let why = block_on("the error", body.next()).unwrap().unwrap_err();
    assert!(why.is_closed() && why.phase() == Phase::Body, "{why}");
    assert!(!why.is_safe_to_retry(), "{why}");
}

#[test]
fn a_server_that_does_not_shake_hands_ends_by_the_time_of_the_handshake() {
    let (clock, builder) = by_clock();
    let upstream = Upstream::new();
    let address = upstream.0.local_addr().unwrap();
    let tls = Certified::new().trusted();
    let client = builder
        .tls(tls.handshake_timeout(Duration::from_secs(3)))
        .resolver(move |_, _| Completion::succeeded(vec![address]))
        .build();
    let call = client.get("https://front.test/").send();
    let mut peer = upstream.accept();
    // The begin of the handshake.
    peer.0.read_exact(&mut [0]).unwrap();
    clock.advance(Duration::from_secs(4));
    let why = error(call);
    assert!(
        why.is_timeout() && why.is_connect() && !why.was_sent(),
        "{why}"
    );
    assert_eq!(why.phase(), Phase::Connect);
}

#[test]
fn the_time_to_connect_covers_the_handshake() {
    let (clock, builder) = by_clock();
    let upstream = Upstream::new();
    let address = upstream.0.local_addr().unwrap();
    let client = builder
        .connect_timeout(Duration::from_secs(2))
        .tls(Certified::new().trusted())
        .resolver(move |_, _| Completion::succeeded(vec![address]))
        .build();
    let call = client.get("https://front.test/").send();
    let mut peer = upstream.accept();
    peer.0.read_exact(&mut [0]).unwrap();
    // Less than the time of a handshake.
    clock.advance(Duration::from_secs(3));
    let why = error(call);
    assert!(
        why.is_timeout() && why.is_connect() && why.is_safe_to_retry(),
        "{why}"
    );
    assert!(why.to_string().contains("longer than 2s"), "{why}");
}
