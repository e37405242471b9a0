//! Certificates and names: refused certificates, several certificates, replaced certificates.

use tidegate_net::tls::{TlsClient, TlsError, rustls};

use super::{Authority, Pair, only_error, whole};

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
        assert!(matches!(why, TlsError::InvalidIdentity(_)), "{why}");
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
    assert!(!works("d.test"), "no such server name");
}

#[test]
fn bad_names_and_roots_are_errors() {
    let client = Authority::new().client();
    let why = client.name("not a name").unwrap_err();
    assert!(why.to_string().contains("not a name"), "{why}");
    let why = TlsClient::trusting(b"nothing").unwrap_err();
    assert!(matches!(why, TlsError::InvalidRoots(_)), "{why}");
}
