//! `https`.

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_http::client::Phase;
use tidegate_net::tls::{TlsClient, TlsServer};
use tidegate_net::{Inbound, InboundContext, Nothing, Server};

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

#[test]
fn a_call_is_encrypted_and_the_certificate_is_checked() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["front.test".to_owned()]).unwrap();
    let chain = params.signed_by(&key, &authority).unwrap().pem();
    let tls = TlsServer::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let group = group(1);
    let server = Server::builder(&group)
        .pipeline(move |p| p.add_duplex("tls", tls.handler()).add("respond", Respond))
        .bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let address = server.local_addr();
    let client = Client::builder(&group)
        .tls(TlsClient::trusting(authority.pem().as_bytes()).unwrap())
        .resolver(move |_, _| Completion::succeeded(vec![address]))
        .build();
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
    let client = Client::builder(&group)
        .tls(TlsClient::trusting(authority.pem().as_bytes()).unwrap())
        .resolver(move |_, _| Completion::succeeded(vec![plain]))
        .build();
    let call = client.get("https://front.test/").send();
    let mut peer = upstream.accept();
    peer.respond("HTTP/1.1 400 Bad Request\r\n\r\n");
    let why = error(call);
    assert!(why.is_connect() && !why.was_sent(), "{why}");
}
