//! Encryption, between two channels without sockets and over real ones.

use std::time::Duration;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_net::handlers::{TlsClient, TlsError, TlsHandshake, TlsServer, TlsVersion, rustls};
use tidegate_net::{
    Change, Channel, ChannelOptions, Client, EmbeddedChannel, Handler, Inbound, InboundContext,
    InputShutdown, Nothing, Server, UserEvent, WaterMarks,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::Echo;

const SECOND: Duration = Duration::from_secs(1);

/// A certificate authority of the tests' own.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn roots(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `name` and its key.
    pub(crate) fn identity(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.0).unwrap();
        (own.pem(), key.serialize_pem())
    }

    pub(crate) fn server(&self, name: &str) -> TlsServer {
        let (chain, key) = self.identity(name);
        TlsServer::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    pub(crate) fn client(&self) -> TlsClient {
        TlsClient::trusting(self.roots().as_bytes()).unwrap()
    }
}

/// Two channels without sockets, joined by hand.
pub(crate) struct Pair {
    pub(crate) server: EmbeddedChannel,
    pub(crate) client: EmbeddedChannel,
}

impl Pair {
    pub(crate) fn new(server: &TlsServer, client: &TlsClient, name: &str) -> Self {
        Self::with_options(server, client, name, &ChannelOptions::default())
    }

    pub(crate) fn with_options(
        server: &TlsServer,
        client: &TlsClient,
        name: &str,
        options: &ChannelOptions,
    ) -> Self {
        let name = client.name(name).unwrap();
        let end = |handler| {
            EmbeddedChannel::with_options(options.clone(), |p| p.add_duplex("tls", handler))
        };
        Self {
            server: end(server.handler()).unwrap(),
            client: end(name.handler()).unwrap(),
        }
    }

    pub(crate) fn joined(authority: &Authority) -> Self {
        let (server, client) = (authority.server("a.test"), authority.client());
        let mut pair = Self::new(&server, &client, "a.test");
        pair.run();
        pair
    }

    /// Carries bytes to and fro until there are no more.
    pub(crate) fn run(&mut self) {
        loop {
            let (there, back) = (self.client.sent(), self.server.sent());
            if there.is_empty() && back.is_empty() {
                return;
            }
            for (end, bytes) in [(&mut self.server, there), (&mut self.client, back)] {
                if !bytes.is_empty() {
                    end.receive(bytes);
                }
            }
        }
    }

    pub(crate) fn handshakes(&self) -> [Option<TlsHandshake>; 2] {
        [&self.client, &self.server].map(|end| end.channel().attribute())
    }
}

pub(crate) fn whole(channel: &mut EmbeddedChannel) -> Bytes {
    let chunks = std::iter::from_fn(|| channel.read_inbound::<Bytes>());
    chunks.collect::<Vec<_>>().concat().into()
}

fn only_error(channel: &mut EmbeddedChannel) -> TlsError {
    let errors = channel.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].downcast_ref::<TlsError>().unwrap().clone()
}

#[test]
fn both_sides_learn_what_was_agreed_and_understand_each_other() {
    let authority = Authority::new();
    let server = authority.server("a.test").alpn(["h2", "http/1.1"]);
    let client = authority.client().alpn(["http/1.1"]);
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.run();
    let [ours, theirs] = pair.handshakes().map(Option::unwrap);
    for one in [&ours, &theirs] {
        assert_eq!(one.version, TlsVersion::V1_3);
        assert_eq!(one.alpn.as_deref(), Some(&b"http/1.1"[..]));
        assert_eq!(one.server_name.as_deref(), Some("a.test"));
    }
    assert!(ours.peer_certificate.is_some() && theirs.peer_certificate.is_none());
    let big = Bytes::from(vec![7; 300_000]);
    pair.client.channel().write("hello ");
    pair.client.channel().write_and_flush("world");
    pair.server.channel().write_and_flush(big.clone());
    pair.client.run();
    pair.server.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "hello world");
    assert_eq!(whole(&mut pair.client), big);
}

#[test]
fn the_handshake_is_told_before_the_first_bytes_even_if_they_come_together() {
    struct Notes(Log<String>);
    impl Inbound for Notes {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0.push(format!("{bytes:?}"));
        }
        fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
            let done = event.is::<TlsHandshake>().is_some();
            self.0.push(format!("handshake {done}"));
        }
    }
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let log = Log::new();
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server = EmbeddedChannel::new(|p| {
        p.add_duplex("tls", server.handler())
            .add("notes", Notes(log.clone()))
    })
    .unwrap();
    // Written before anything was agreed: it goes with the last word of the handshake.
    pair.client.channel().write_and_flush("early");
    pair.client.run();
    pair.run();
    assert_eq!(log.take(), ["handshake true", "b\"early\""]);
}

#[test]
fn one_byte_at_a_time_is_enough() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.client.channel().write_and_flush("slowly");
    pair.client.run();
    loop {
        let (there, back) = (pair.client.sent(), pair.server.sent());
        if there.is_empty() && back.is_empty() {
            break;
        }
        for byte in there {
            pair.server.receive(vec![byte]);
        }
        for byte in back {
            pair.client.receive(vec![byte]);
        }
    }
    assert_eq!(whole(&mut pair.server), "slowly");
}

#[test]
fn a_flush_makes_one_record_of_many_writes_and_completes_them_all() {
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.client.channel();
    let sent: Vec<_> = (0..50).map(|_| channel.write_with("0123456789")).collect();
    pair.client.run();
    assert!(pair.client.sent().is_empty(), "nothing before a flush");
    channel.flush();
    pair.client.run();
    let record = pair.client.sent();
    assert!(record.len() < 500 + 64, "{}", record.len());
    for one in sent {
        one.wait().unwrap();
    }
}

#[test]
fn a_goodbye_is_said_heard_and_answered() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.channel().write("last words");
    drop(pair.client.channel().close_when_flushed());
    pair.client.run();
    assert!(!pair.client.is_open());
    let there = pair.client.sent();
    pair.server.receive(there);
    assert_eq!(whole(&mut pair.server), "last words");
    assert!(!pair.server.is_open());
    assert!(!pair.server.sent().is_empty(), "answered");
    assert!(pair.server.errors().is_empty());

    let mut pair = Pair::joined(&Authority::new());
    pair.server.close();
    let back = pair.server.sent();
    assert!(!back.is_empty(), "said at a plain close too");
    pair.client.receive(back);
    pair.client.end_input();
    assert!(!pair.client.is_open());
    assert!(pair.client.errors().is_empty());
}

#[test]
fn a_goodbye_ends_one_direction_where_half_closure_is_allowed() {
    struct Ends(Log<()>);
    impl Inbound for Ends {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(bytes);
        }
        fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
            if event.is::<InputShutdown>().is_some() {
                self.0.push(());
            }
        }
    }
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let options = ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    };
    let mut pair = Pair::with_options(&server, &client, "a.test", &options);
    let log = Log::new();
    pair.server = EmbeddedChannel::with_options(options, |p| {
        p.add_duplex("tls", server.handler())
            .add("ends", Ends(log.clone()))
    })
    .unwrap();
    pair.client.channel().write_and_flush("a question");
    drop(pair.client.channel().shutdown_output());
    pair.client.run();
    assert!(!pair.client.is_output_shut(), "not before it is sent");
    pair.run();
    assert!(pair.client.is_output_shut());
    assert_eq!(whole(&mut pair.server), "a question");
    pair.server.end_input();
    assert_eq!(log.take().len(), 1, "told once");
    pair.server.channel().write_and_flush("an answer");
    pair.server.run();
    pair.run();
    assert_eq!(whole(&mut pair.client), "an answer");
    assert!(pair.client.errors().is_empty() && pair.server.errors().is_empty());
}

#[test]
fn an_end_without_a_goodbye_is_an_error() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.end_input();
    assert!(matches!(only_error(&mut pair.client), TlsError::Truncated));
    let cause = pair.client.channel().close_cause().unwrap();
    assert!(cause.to_string().contains("cut short"), "{cause}");

    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.server.end_input();
    let why = only_error(&mut pair.server);
    assert!(matches!(why, TlsError::EndedInHandshake));
    assert!(!pair.server.is_open());
}

#[test]
fn a_certificate_for_another_name_or_by_a_stranger_is_an_error_on_both_sides() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = authority.server("a.test");
    for (client, name) in [
        (authority.client(), "b.test"),
        (stranger.client(), "a.test"),
    ] {
        let mut pair = Pair::new(&server, &client, name);
        let waits = pair.client.channel().write_with("secret");
        pair.client.channel().flush();
        pair.client.run();
        pair.run();
        let why = only_error(&mut pair.client);
        let rustls::Error::InvalidCertificate(_) = (match why {
            TlsError::Handshake(why) => why,
            other => panic!("{other}"),
        }) else {
            panic!("another reason");
        };
        assert!(matches!(
            only_error(&mut pair.server),
            TlsError::Handshake(rustls::Error::AlertReceived(_))
        ));
        assert!(!pair.client.is_open() && !pair.server.is_open());
        assert!(waits.wait().is_err());
        assert!(whole(&mut pair.server).is_empty());
    }
}

#[test]
fn garbage_instead_of_a_greeting_is_an_error() {
    let server = Authority::new().server("a.test");
    for garbage in ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\0\u{5}aaaaa"] {
        let mut channel = EmbeddedChannel::new(|p| p.add_duplex("tls", server.handler())).unwrap();
        channel.receive(garbage);
        let why = only_error(&mut channel);
        assert!(matches!(why, TlsError::Handshake(_)), "{why}");
        assert!(!channel.is_open());
    }
}

#[test]
fn a_broken_record_ends_the_connection() {
    let mut pair = Pair::joined(&Authority::new());
    pair.client.channel().write_and_flush("hello");
    pair.client.run();
    let mut record = pair.client.sent().to_vec();
    *record.last_mut().unwrap() ^= 1;
    pair.server.receive(record);
    assert!(matches!(only_error(&mut pair.server), TlsError::Broken(_)));
    assert!(whole(&mut pair.server).is_empty() && !pair.server.is_open());
    let alert = pair.server.sent();
    pair.client.receive(alert);
    assert!(matches!(only_error(&mut pair.client), TlsError::Broken(_)));
}

#[test]
fn no_protocol_in_common_is_an_error() {
    let authority = Authority::new();
    let server = authority.server("a.test").alpn(["h2"]);
    let client = authority.client().alpn(["smtp"]);
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.run();
    assert!(matches!(
        only_error(&mut pair.server),
        TlsError::Handshake(rustls::Error::NoApplicationProtocol)
    ));
}

#[test]
fn a_handshake_that_takes_too_long_ends_and_one_that_does_not_is_left_alone() {
    let authority = Authority::new();
    let server = authority.server("a.test").handshake_timeout(3 * SECOND);
    let client = authority.client().handshake_timeout(Duration::ZERO);
    let mut slow = Pair::new(&server, &client, "a.test");
    slow.server.advance(2 * SECOND);
    assert!(slow.server.is_open());
    slow.server.advance(SECOND);
    let why = only_error(&mut slow.server);
    assert!(matches!(why, TlsError::HandshakeTimeout(after) if after == 3 * SECOND));
    slow.client.advance(3600 * SECOND);
    assert!(slow.client.is_open(), "zero is for ever");

    let mut quick = Pair::new(&server, &client, "a.test");
    quick.run();
    quick.server.advance(60 * SECOND);
    assert!(quick.server.is_open());
}

#[test]
fn what_waits_for_the_handshake_counts_against_the_marks_and_the_cap() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let options = ChannelOptions {
        marks: WaterMarks::new(1_000, 2_000, 10_000).unwrap(),
        ..ChannelOptions::default()
    };
    let mut pair = Pair::with_options(&server, &client, "a.test", &options);
    let channel = pair.client.channel();
    let hello = pair.client.sent();
    channel.write_and_flush(vec![1; 3_000]);
    pair.client.run();
    assert!(!channel.is_writable() && channel.pending_bytes() >= 3_000);
    let room = channel.writable();
    let refused = channel.write_with(vec![1; 9_000]);
    channel.flush();
    pair.client.run();
    let why = refused.wait().unwrap_err();
    assert!(why.to_string().contains("cap"), "{why}");
    pair.server.receive(hello);
    pair.run();
    assert!(channel.is_writable());
    room.wait().unwrap();
    assert_eq!(channel.pending_bytes(), 0);
    assert_eq!(whole(&mut pair.server).len(), 3_000);

    // A peer that does not read: encrypted bytes count too.
    pair.client.set_room(Some(0));
    channel.write_and_flush(vec![1; 3_000]);
    pair.client.run();
    assert!(!channel.is_writable());
    pair.client.set_room(None);
    assert!(channel.is_writable());
}

#[test]
fn a_gentle_close_waits_for_the_handshake() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    pair.client.channel().write("all of it");
    drop(pair.client.channel().close_when_flushed());
    pair.client.run();
    assert!(pair.client.is_open());
    pair.run();
    assert!(!pair.client.is_open());
    assert_eq!(whole(&mut pair.server), "all of it");
    assert!(pair.server.errors().is_empty());
}

#[test]
fn writes_after_the_end_fail() {
    let mut pair = Pair::joined(&Authority::new());
    let channel = pair.client.channel();
    let never = channel.write_with("not flushed");
    pair.client.run();
    pair.client.close();
    assert!(never.wait().is_err());
    let late = channel.write_with("late");
    pair.client.run();
    assert!(late.wait().is_err());
}

#[test]
fn the_handshake_reads_on_its_own_where_the_channel_does_not() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let options = ChannelOptions {
        auto_read: false,
        ..ChannelOptions::default()
    };
    let mut pair = Pair::with_options(&server, &client, "a.test", &options);
    pair.run();
    assert!(pair.handshakes().iter().all(Option::is_some));
    for word in ["one", "two"] {
        pair.client.channel().write_and_flush(word);
        pair.client.run();
        pair.run();
    }
    let first = whole(&mut pair.server);
    assert!(first.len() <= 6);
    pair.server.channel().read();
    pair.server.run();
    let rest = whole(&mut pair.server);
    assert_eq!([first, rest].concat(), b"onetwo");
}

#[test]
fn certificates_change_while_the_server_runs_and_bad_ones_change_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = old.server("a.test");
    let works = |authority: &Authority, name: &str| {
        let mut pair = Pair::new(&server, &authority.client(), name);
        pair.run();
        pair.handshakes()[0].is_some()
    };
    let mut open = Pair::new(&server, &old.client(), "a.test");
    open.run();
    assert!(works(&old, "a.test") && !works(&new, "a.test"));
    let (chain, key) = new.identity("a.test");
    let (_, other_key) = new.identity("a.test");
    for (chain, key) in [
        (chain.as_str(), other_key.as_str()),
        ("nothing", key.as_str()),
        (chain.as_str(), "nothing"),
    ] {
        let why = server.reload(chain.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(matches!(why, TlsError::BadIdentity(_)), "{why}");
        assert!(works(&old, "a.test"), "the old one stays");
    }
    server.reload(chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(!works(&old, "a.test") && works(&new, "a.test"));
    open.client.channel().write_and_flush("still here");
    open.client.run();
    open.run();
    assert_eq!(whole(&mut open.server), "still here");
}

#[test]
fn each_name_has_its_own_certificate() {
    let authority = Authority::new();
    let server = authority.server("a.test");
    for (name, certificate) in [("B.test", "b.test"), ("*.c.test", "*.c.test")] {
        let (chain, key) = authority.identity(certificate);
        server
            .set_name(name, chain.as_bytes(), key.as_bytes())
            .unwrap();
    }
    let works = |name: &str| {
        let mut pair = Pair::new(&server, &authority.client(), name);
        pair.run();
        pair.handshakes()[0].is_some()
    };
    assert!(works("a.test") && works("b.test") && works("x.c.test"));
    assert!(!works("d.test"), "that is nobody here");
}

#[test]
fn bad_names_and_roots_are_errors() {
    let client = Authority::new().client();
    let why = client.name("not a name").unwrap_err();
    assert!(why.to_string().contains("not a name"), "{why}");
    let why = TlsClient::trusting(b"nothing").unwrap_err();
    assert!(matches!(why, TlsError::BadRoots(_)), "{why}");
}

#[test]
fn a_connection_in_the_clear_can_become_an_encrypted_one() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let name = client.name("a.test").unwrap();
    let mut pair = Pair {
        server: EmbeddedChannel::new(|p| p).unwrap(),
        client: EmbeddedChannel::new(|p| p).unwrap(),
    };
    pair.client.channel().write_and_flush("STARTTLS\n");
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "STARTTLS\n");
    let tls = server.clone();
    let added = [
        pair.server
            .channel()
            .change(move || Change::add_first("tls", Handler::duplex(tls.handler()))),
        pair.client
            .channel()
            .change(move || Change::add_first("tls", Handler::duplex(name.handler()))),
    ];
    pair.server.run();
    pair.client.run();
    for one in added {
        one.wait().unwrap();
    }
    pair.run();
    pair.client.channel().write_and_flush("hidden");
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "hidden");
}

/// Gives what it reads to a test, and its errors.
struct Gives(Log<Bytes>, Log<String>);

impl Inbound for Gives {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
        self.0.push(bytes);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.1.push(why.to_string());
        ctx.close();
    }
}

fn dial(client: &Client, server: &Server) -> Channel {
    client.connect(server.local_addr()).wait().unwrap()
}

#[test]
fn echoes_over_sockets_and_outlives_those_who_do_not_shake_hands() {
    let authority = Authority::new();
    let tls = authority.server("localhost");
    let group = tidegate_net::pinned("io", 2).unwrap();
    let server = Server::new(&group)
        .pipeline(move |p| p.add_duplex("tls", tls.handler()).add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let (bytes, errors) = (Log::new(), Log::new());
    let client = |name: &str| {
        let name = authority.client().name(name).unwrap();
        let (bytes, errors) = (bytes.clone(), errors.clone());
        Client::new(&group).pipeline(move |p| {
            p.add_duplex("tls", name.handler())
                .add("gives", Gives(bytes.clone(), errors.clone()))
        })
    };
    let wrong = dial(&client("elsewhere"), &server);
    wrong.closed().wait().unwrap();
    assert!(errors.take()[0].contains("certificate"));
    let mut plain = crate::dial(&server);
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut plain, &mut answer).unwrap();
    assert_eq!(answer.first(), Some(&21), "an alert");

    let good = dial(&client("localhost"), &server);
    let big = Bytes::from(vec![9; 1_000_000]);
    let sent = good.write_with(big.clone());
    good.flush();
    sent.wait().unwrap();
    let mut back = 0;
    while back < big.len() {
        bytes.wait_for(1);
        back += bytes.take().iter().map(Bytes::len).sum::<usize>();
    }
    assert_eq!(back, big.len());
    good.close().wait().unwrap();
    assert!(errors.take().is_empty());
    let why = good.write_with("late").wait().unwrap_err();
    assert!(why.to_string().contains("closed"), "{why}");
}
