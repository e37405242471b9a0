//! An encrypted connection sends its records in the order of their encryption.

use std::io::{Read, Write};
use std::sync::Arc;

use tidegate_net::EmbeddedChannel;
use tidegate_net::tls::rustls::pki_types::pem::PemObject;
use tidegate_net::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidegate_net::tls::{TlsHandshake, TlsServer, rustls};
use tidegate_testkit::until;

use crate::acts::Acts;
use crate::tls::{Authority, Pair, whole};
use crate::{half_closure, marks, no_auto_read};

/// Writes a greeting as soon as the handshake is done.
fn greets() -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes)).on_event(|event, ctx| {
        if event.downcast_ref::<TlsHandshake>().is_some() {
            ctx.write("greeting");
            ctx.flush();
        }
    })
}

#[test]
fn what_waited_for_the_handshake_goes_before_what_its_end_brings_about() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::new(&server, &client, "a.test");
    let name = client.name("a.test").unwrap();
    pair.client =
        EmbeddedChannel::new(|p| p.add_duplex("tls", name.handler()).add("greets", greets()))
            .unwrap();
    pair.client.channel().write_and_flush("early ");
    pair.client.run();
    pair.run();
    assert_eq!(pair.server.errors().len(), 0);
    assert_eq!(whole(&mut pair.server), "early greeting");
}

/// A client that uses rustls directly.
struct Bare {
    tls: rustls::ClientConnection,
    received: Vec<u8>,
}

impl Bare {
    fn new(authority: &Authority) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "a.test".try_into().unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        Self {
            tls,
            received: Vec::new(),
        }
    }

    fn run(&mut self, server: &mut EmbeddedChannel) {
        loop {
            let mut there = Vec::new();
            while self.tls.wants_write() {
                self.tls.write_tls(&mut there).unwrap();
            }
            if !there.is_empty() {
                server.receive(there);
            }
            let back = server.sent();
            if back.is_empty() {
                return;
            }
            let mut back = &back[..];
            while !back.is_empty() {
                self.tls.read_tls(&mut back).unwrap();
                self.tls.process_new_packets().unwrap();
                let _ = self.tls.reader().read_to_end(&mut self.received);
            }
        }
    }
}

#[test]
fn new_keys_are_announced_before_they_are_used() {
    let authority = Authority::new();
    let server = authority.server("a.test");
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("tls", server.handler()).add("quick", quick()))
            .unwrap();
    let mut client = Bare::new(&authority);
    client.run(&mut channel);
    for _ in 0..3 {
        client.tls.writer().write_all(b"one ").unwrap();
        client.tls.refresh_traffic_keys().unwrap();
        client.tls.writer().write_all(b"two ").unwrap();
        client.run(&mut channel);
    }
    assert_eq!(client.received, b"one two one two one two ");
    assert!(channel.errors().is_empty() && channel.is_open());
}

/// Echoes and flushes each message.
fn quick() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.write(bytes);
        ctx.flush();
    })
}

#[test]
fn a_half_that_is_closed_early_is_closed_after_the_handshake() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &half_closure());
    drop(pair.client.channel().shutdown_output());
    pair.client.run();
    assert!(!pair.client.is_output_shut());
    pair.run();
    assert!(pair.client.is_output_shut());
    pair.server.channel().write_and_flush("only listens");
    pair.server.run();
    pair.run();
    assert_eq!(whole(&mut pair.client), "only listens");
    assert!(pair.client.errors().is_empty() && pair.server.errors().is_empty());
}

#[test]
fn without_auto_read_only_requested_reads_are_passed_on() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let mut pair = Pair::with_options(&server, &client, "a.test", &no_auto_read());
    pair.run();
    pair.client.channel().write_and_flush("one");
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "", "not requested");
    pair.server.channel().read();
    pair.server.run();
    assert_eq!(whole(&mut pair.server), "one");
    pair.client.channel().write_and_flush("two");
    pair.client.run();
    let mut record = pair.client.sent();
    let rest = record.split_off(9);
    pair.server.channel().read();
    pair.server.run();
    pair.server.receive(record);
    pair.server.receive(rest);
    // An incomplete record does not satisfy the request for a read.
    assert_eq!(whole(&mut pair.server), "two");
}

#[test]
fn a_reloaded_certificate_is_also_shown_to_returning_clients() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let seen = || {
        let mut pair = Pair::new(&server, &client, "a.test");
        pair.run();
        let [seen, _] = pair.handshakes();
        // Records that the server sends after the handshake let the client resume the session.
        pair.server.channel().write_and_flush("x");
        pair.server.run();
        pair.run();
        seen.unwrap().peer_certificate.unwrap()
    };
    let old = seen();
    assert_eq!(seen(), old);
    let (chain, key) = authority.identity("a.test");
    server.reload(chain.as_bytes(), key.as_bytes()).unwrap();
    assert_ne!(seen(), old);
}

#[test]
fn a_certificate_that_would_not_be_shown_is_refused() {
    let authority = Authority::new();
    let (chain, key) = authority.identity("a.test");
    let (chain, key) = (chain.as_bytes(), key.as_bytes());
    let given = TlsServer::from_config(server_config(&authority));
    let changed = authority.server("a.test");
    changed.reload(chain, key).unwrap();
    changed.set_config(server_config(&authority));
    for server in [given, changed] {
        for refused in [server.reload(chain, key), server.set_name("b", chain, key)] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("set_config"), "{why}");
        }
    }
}

/// Returns a configuration of rustls itself.
fn server_config(authority: &Authority) -> Arc<rustls::ServerConfig> {
    let (chain, key) = authority.identity("a.test");
    let chain = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key);
    Arc::new(config.unwrap())
}

#[test]
fn a_write_that_is_cancelled_is_left_out_and_no_record_with_it() {
    let authority = Authority::new();
    let mut pair = Pair::joined(&authority);
    let channel = pair.client.channel();
    let cancelled = channel.write_with("cancelled");
    channel.write("kept ");
    pair.client.run();
    assert!(cancelled.cancel());
    channel.write_and_flush("too");
    pair.client.run();
    pair.run();
    channel.write_and_flush(" end");
    pair.client.run();
    pair.run();
    assert!(pair.server.errors().is_empty());
    assert_eq!(whole(&mut pair.server), "kept too end");
}

#[test]
fn what_is_too_much_is_refused_before_it_is_encrypted() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let options = marks(100, 200, 2_000);
    let mut expected = 0;
    for size in 1_000..1_500 {
        let mut pair = Pair::with_options(&server, &client, "a.test", &options);
        pair.run();
        let channel = pair.client.channel();
        pair.client.set_room(Some(0));
        channel.write_and_flush(vec![1; 500]);
        let much = channel.write_with(vec![2; size]);
        channel.flush();
        pair.client.run();
        pair.client.set_room(None);
        pair.client.run();
        channel.write_and_flush("end");
        pair.client.run();
        pair.run();
        assert!(pair.server.errors().is_empty(), "{size}");
        let taken = much.wait().is_ok();
        let sum = 500 + 3 + if taken { size } else { 0 };
        assert_eq!(whole(&mut pair.server).len(), sum);
        expected += usize::from(taken);
    }
    assert!(
        expected > 0 && expected < 500,
        "some are refused: {expected}"
    );
}

#[test]
fn certificates_are_reloaded_while_clients_come_and_go() {
    let authority = Authority::new();
    let tls = authority.server("a.test");
    let group = tidegate_net::pinned("io", 2).unwrap();
    let own = tls.clone();
    let server = crate::serve(&group, move |p| {
        p.add_duplex("tls", own.handler()).add("quick", quick())
    });
    let identities: Vec<_> = (0..4).map(|_| authority.identity("a.test")).collect();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..15 {
                        let mut tls = Bare::new(&authority).tls;
                        let mut socket = crate::dial(&server);
                        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
                        stream.write_all(b"hello").unwrap();
                        let mut back = [0; 5];
                        stream.read_exact(&mut back).unwrap();
                        assert_eq!(&back, b"hello");
                    }
                })
            })
            .collect();
        until("the clients are done", || {
            for (chain, key) in &identities {
                tls.reload(chain.as_bytes(), key.as_bytes()).unwrap();
            }
            clients.iter().all(|client| client.is_finished())
        });
    });
    assert_eq!(server.accepted(), 45);
}
