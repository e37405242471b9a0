//! The connection of a client: as it is, or encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

#[cfg(feature = "tls")]
pub(super) use self::secure::Authority;
use crate::PATIENCE;

/// Whom clients trust: nobody, without TLS.
#[cfg(not(feature = "tls"))]
pub(super) enum Authority {}

/// A connection.
pub(super) enum Link {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secure(Box<secure::Stream>),
}

impl Link {
    /// Connects, and begins TLS if there is an authority.
    pub(super) fn connect(address: SocketAddr, authority: Option<&Authority>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match authority {
            None => Ok(Self::Plain(stream)),
            #[cfg(feature = "tls")]
            Some(authority) => Ok(Self::Secure(Box::new(authority.secure(stream)))),
            #[cfg(not(feature = "tls"))]
            Some(authority) => match *authority {},
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Secure(stream) => &stream.sock,
        }
    }

    /// Ends the client's half in order: an encrypted one with `close_notify`, while its socket stays
    /// open.
    pub(super) fn end_output(&mut self) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.read(bytes),
        }
    }

    /// Returns `true` if a server that ends a connection early may cause this error.
    pub(super) fn is_cut(&self, why: &io::Error) -> bool {
        match why.kind() {
            ErrorKind::ConnectionReset => true,
            // The end of the socket without `close_notify`; a reply to a handshake that is over.
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => !matches!(self, Self::Plain(_)),
            _ => false,
        }
    }
}

#[cfg(feature = "tls")]
mod secure {
    use std::net::TcpStream;
    use std::sync::Arc;

    use rcgen::{CertificateParams, KeyPair};
    use tidegate_net::tls::TlsServer;
    use tidegate_net::tls::rustls::pki_types::ServerName;
    use tidegate_net::tls::rustls::{
        self, ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    };

    pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

    /// A certificate, and clients that trust it.
    #[derive(Clone)]
    pub(crate) struct Authority {
        server: TlsServer,
        client: Arc<ClientConfig>,
    }

    impl Authority {
        pub(crate) fn new() -> Self {
            let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
            let key = KeyPair::generate().unwrap();
            let own = params.self_signed(&key).unwrap();
            let (chain, key) = (own.pem(), key.serialize_pem());
            let mut roots = RootCertStore::empty();
            roots.add(own.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            Self {
                server: TlsServer::from_pem(chain.as_bytes(), key.as_bytes()).unwrap(),
                client: Arc::new(client),
            }
        }

        pub(crate) fn server(&self) -> TlsServer {
            self.server.clone()
        }

        pub(super) fn secure(&self, stream: TcpStream) -> Stream {
            let name = ServerName::try_from("a.test").unwrap();
            let tls = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
            StreamOwned::new(tls, stream)
        }
    }
}
