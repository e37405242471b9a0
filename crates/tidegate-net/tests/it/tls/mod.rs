//! TLS, between two channels without sockets and over real sockets.

mod certificates;
mod drains;
mod ends;
mod files;
mod handshake;
mod roots;
mod sockets;

use std::time::Duration;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_net::tls::{TlsClient, TlsError, TlsHandshake, TlsServer};
use tidegate_net::{ChannelOptions, EmbeddedChannel};

const SECOND: Duration = Duration::from_secs(1);

/// A certificate authority for the tests.
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

    pub(crate) fn client(&self) -> TlsClient {
        TlsClient::trusting(self.roots().as_bytes()).unwrap()
    }
}

/// Two channels without sockets, connected by the test.
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

    /// Transfers bytes in both directions until there are no more.
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
