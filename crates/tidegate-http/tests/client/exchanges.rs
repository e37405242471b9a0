//! Exchanges: the layer below calls, for handlers. A handler of one connection sends what it reads
//! to an upstream, and the response back.

use bytes::Buf;
use tidegate_http::client::{Exchange, ExchangeHandler, Flow, PendingExchange, Upstream as Target};
use tidegate_http::codec::{
    BodyEvent, BodyFraming, BodyLimits, HeadLimits, HeadTable, OwnedRequestHead, RequestDecoder,
    ResponseHead,
};
use tidegate_net::{
    Bytes, Channel, HandlerContext, Inbound, InboundContext, Nothing, Server, UserEvent,
};

use tidegate_testkit::Log;

use crate::*;

/// Writes the response to the channel of the client.
struct Back(Channel);

impl ExchangeHandler for Back {
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>) {
        let line = format!("{} {framing:?}\n", head.status());
        ctx.neighbour(&self.0).write_and_flush(line);
    }

    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow {
        let client = ctx.neighbour(&self.0);
        client.write_and_flush(bytes);
        match client.is_writable() {
            true => Flow::More,
            false => Flow::Pause,
        }
    }

    fn end(self, ctx: &mut HandlerContext<'_>) {
        ctx.neighbour(&self.0).write_and_flush("\nend\n");
    }

    fn fail(self, why: ClientError, ctx: &mut HandlerContext<'_>) {
        let line = format!("failed, safe to retry: {}\n", why.is_safe_to_retry());
        ctx.neighbour(&self.0).write_and_flush(line);
    }
}

/// Reads a request and sends it on.
struct Front {
    target: Target<Back>,
    decoder: RequestDecoder,
    input: Vec<u8>,
    head: Option<OwnedRequestHead>,
    exchange: Option<Exchange<Back>>,
    pending: Option<PendingExchange>,
}

impl Front {
    fn advance(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if self.head.is_none() {
            let mut table = HeadTable::new();
            let Some(head) = self.decoder.head(&self.input, &mut table).unwrap() else {
                return;
            };
            let (length, head) = (head.len(), head.to_owned());
            self.input.drain(..length);
            self.head = Some(head);
            if let Some(exchange) = self.target.try_acquire() {
                return self.begin(exchange, ctx);
            }
            let me = ctx.channel();
            self.pending = Some(self.target.acquire(move |acquired| match acquired {
                Ok(exchange) => me.fire_event(exchange),
                Err(why) => me.write_and_flush(format!("{why}\n")),
            }));
        } else {
            self.send_body();
        }
    }

    fn begin(&mut self, mut exchange: Exchange<Back>, ctx: &mut InboundContext<'_, Self>) {
        let head = self.head.as_ref().unwrap();
        assert!(exchange.begin(head, Back(ctx.channel())).is_ok());
        self.exchange = Some(exchange);
        self.send_body();
    }

    fn send_body(&mut self) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        let mut input = Bytes::from(std::mem::take(&mut self.input));
        loop {
            let step = self.decoder.body(&input).unwrap();
            match step.event {
                BodyEvent::Data(range) => {
                    exchange.write(input.slice(range)).unwrap();
                }
                BodyEvent::Trailers(_) => {}
                BodyEvent::More => {
                    input.advance(step.consumed);
                    break;
                }
                BodyEvent::End => {
                    exchange.finish(&[]).unwrap();
                    (self.exchange, self.head) = (None, None);
                    break;
                }
            }
            input.advance(step.consumed);
        }
        self.input = input.to_vec();
    }
}

impl Inbound for Front {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.input.extend_from_slice(&bytes);
        self.advance(ctx);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if let Ok(exchange) = event.downcast::<Exchange<Back>>() {
            self.begin(exchange, ctx);
        }
    }
}

/// A client of a server whose handler sends requests on to `upstream`.
struct Fixture {
    _server: Server,
    client: TcpStream,
}

impl Fixture {
    fn new(upstream: &Upstream) -> Self {
        let group = group(1);
        let client = Client::builder(&group).max_connections(1).build();
        let target: Target<Back> = client.upstream(&upstream.url("/")).unwrap();
        let server = Server::builder(&group).pipeline(move |p| {
            let front = Front {
                target: target.clone(),
                decoder: RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT),
                input: Vec::new(),
                head: None,
                exchange: None,
                pending: None,
            };
            p.add("front", front)
        });
        let server = server.bind("127.0.0.1:0").wait().unwrap();
        let client = TcpStream::connect(server.local_addr()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            _server: server,
            client,
        }
    }

    fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).unwrap();
    }

    fn expect(&mut self, wanted: &str) {
        let mut got = vec![0; wanted.len()];
        self.client.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), wanted);
    }
}

#[test]
fn requests_and_responses_pass_and_the_connection_is_used_again() {
    let upstream = Upstream::new();
    let mut fixture = Fixture::new(&upstream);
    let mut peer = None;
    for _ in 0..3 {
        fixture.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
        let peer = peer.get_or_insert_with(|| upstream.accept());
        let head = read_head(peer);
        assert!(head.starts_with("PUT / HTTP/1.1\r\n"), "{head}");
        fixture.send("llo");
        let mut body = [0; 5];
        peer.0.read_exact(&mut body).unwrap();
        assert_eq!(&body, b"hello");
        peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        fixture.expect("200 Length(2)\nok\nend\n");
    }
}

#[test]
fn an_upstream_that_ends_is_reported_with_what_can_be_done() {
    let upstream = Upstream::new();
    let mut fixture = Fixture::new(&upstream);
    fixture.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let peer = upstream.accept_request();
    drop(peer);
    fixture.expect("failed, safe to retry: false\n");
    // The permit is free again.
    fixture.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept_request();
    peer.respond("HTTP/1.1 204 No Content\r\n\r\n");
    fixture.expect("204 Empty\n\nend\n");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_request_closes_the_connection() {
    let upstream = Upstream::new();
    let mut fixture = Fixture::new(&upstream);
    fixture.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    let mut peer = upstream.accept();
    read_head(&mut peer);
    drop(fixture.client);
    peer.wait_closed();
}

#[test]
fn an_exchange_that_does_not_begin_returns_or_closes_its_connection() {
    let upstream = Upstream::new();
    let group = group(1);
    let client = Client::builder(&group).max_connections(1).build();
    let target: Target<Back> = client.upstream(&upstream.url("/")).unwrap();
    for _ in 0..2 {
        let (log, own) = Log::pair();
        let pending = target.acquire(move |acquired| own.push(acquired.unwrap()));
        let mut peer = upstream.accept();
        log.wait_for(1);
        // A second search waits, because the limit is reached, and leaves.
        let waits = target.acquire(|_| panic!("it has left"));
        drop(waits);
        drop((pending, log.take()));
        peer.wait_closed();
    }
}
