//! A certificate authority for the tests of `https`.
#![allow(dead_code, reason = "the client of a test may be our own")]

use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_net::tls::TlsServer;
use tidegate_net::tls::rustls::pki_types::ServerName;
use tidegate_net::tls::rustls::{self, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for `name` and its key.
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

    /// Begins TLS with `a.test` on a connection.
    pub(crate) fn secure(&self, stream: TcpStream, alpn: &[&str]) -> Secure {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|one| one.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("a.test").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(tls, stream)
    }
}
