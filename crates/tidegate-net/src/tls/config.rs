//! The configuration of TLS servers and TLS clients: certificates and trust.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use rustls::client::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{Connection, RootCertStore};
use tidegate_core::internal::unpoisoned;

use super::{Tls, TlsError, roots};

/// The number of sessions that a server stores for resumption, the same as the default of rustls.
const SESSIONS: usize = 256;

/// The TLS configuration of a server. Clones share the certificates. These can be replaced while
/// connections are open; open connections keep the certificates that they started with.
///
/// ```no_run
/// use tidegate_net::Server;
/// use tidegate_net::tls::TlsServer;
///
/// let (chain, key) = (std::fs::read("chain.pem")?, std::fs::read("key.pem")?);
/// let tls = TlsServer::from_pem(&chain, &key)?.alpn(["h2", "http/1.1"]);
/// let group = tidegate_net::pinned("io", 1)?;
/// let own = tls.clone();
/// let server = Server::builder(&group)
///     .pipeline(move |p| p.add_duplex("tls", own.handler()))
///     .bind("127.0.0.1:443")
///     .wait()?;
/// // Later: the next connections see the new certificate, and a bad one changes nothing.
/// tls.reload(&std::fs::read("chain.pem")?, &std::fs::read("key.pem")?)?;
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<RwLock<Arc<ServerConfig>>>,
    identities: Arc<Identities>,
    timeout: Duration,
}

impl TlsServer {
    /// The default limit for the duration of a handshake, of servers and of clients.
    pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

    /// Creates a server with a chain of certificates, its own first, and its private key, both as
    /// PEM.
    ///
    /// # Errors
    ///
    /// [`TlsError::InvalidIdentity`] if they cannot be read or do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let identities = Arc::new(Identities::default());
        identities.set(None, identity(chain, key)?);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| TlsError::InvalidIdentity(why.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&identities) as Arc<dyn ResolvesServerCert>);
        Ok(Self::new(Arc::new(config), identities))
    }

    /// Creates a server with a configuration of rustls, for settings that are not offered here:
    /// client certificates, other ciphers, tickets.
    pub fn from_config(config: Arc<ServerConfig>) -> Self {
        Self::new(config, Arc::default())
    }

    fn new(config: Arc<ServerConfig>, identities: Arc<Identities>) -> Self {
        Self {
            config: Arc::new(RwLock::new(config)),
            identities,
            timeout: TlsServer::DEFAULT_HANDSHAKE_TIMEOUT,
        }
    }

    /// Sets the application protocols, best first. A client that names only other protocols is
    /// refused; a client that names none is accepted.
    pub fn alpn<P: AsRef<[u8]>>(self, protocols: impl IntoIterator<Item = P>) -> Self {
        {
            let mut config = unpoisoned(self.config.write());
            Arc::make_mut(&mut config).alpn_protocols = names(protocols);
        }
        self
    }

    /// Sets the limit for the duration of a handshake; zero means no limit.
    pub fn handshake_timeout(mut self, after: Duration) -> Self {
        self.timeout = after;
        self
    }

    /// Sets the certificates for clients that request `name` (or, for `*.example.org`, a name one
    /// level below).
    ///
    /// # Errors
    ///
    /// As for [`TlsServer::from_pem`]; the previous certificates stay. Also fails if the server
    /// uses a `ServerConfig` of the user, which selects the certificates itself.
    pub fn set_name(&self, name: &str, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.show(Some(name.to_ascii_lowercase()), chain, key)
    }

    /// Replaces the certificates for new connections. Stored sessions are discarded, so returning
    /// clients get the new certificates, too.
    ///
    /// # Errors
    ///
    /// As for [`TlsServer::set_name`]; the previous certificates stay.
    pub fn reload(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.show(None, chain, key)
    }

    fn show(&self, name: Option<String>, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let identity = identity(chain, key)?;
        let mut config = unpoisoned(self.config.write());
        let resolver = Arc::as_ptr(&config.cert_resolver);
        if !std::ptr::addr_eq(resolver, Arc::as_ptr(&self.identities)) {
            let why = "the server's `ServerConfig` decides; give it another one with \
                       `set_config`";
            return Err(TlsError::InvalidIdentity(why.to_owned()));
        }
        self.identities.set(name, identity);
        // A resumed session keeps the certificate that it began with.
        Arc::make_mut(&mut config).session_storage = ServerSessionMemoryCache::new(SESSIONS);
        Ok(())
    }

    /// Uses `config` for new connections.
    pub fn set_config(&self, config: Arc<ServerConfig>) {
        *unpoisoned(self.config.write()) = config;
    }

    /// Creates the handler of one connection.
    pub fn handler(&self) -> Tls {
        let times = Times {
            handshake: self.timeout,
            connect: Duration::ZERO,
        };
        Tls::new(Side::Server(self.clone()), times)
    }

    fn connection(&self) -> Result<Connection, rustls::Error> {
        let config = unpoisoned(self.config.read());
        let server = rustls::ServerConnection::new(Arc::clone(&config))?;
        Ok(Connection::Server(server))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// The TLS configuration of a client: trusted roots and application protocols.
///
/// ```no_run
/// use tidegate_net::Client;
/// use tidegate_net::tls::TlsClient;
///
/// let tls = TlsClient::with_native_roots()?; // or `trusting`, with roots of your own
/// let group = tidegate_net::pinned("io", 1)?;
/// let name = tls.name("example.org")?; // checked now, not with each connection
/// let client = Client::builder(&group).pipeline(move |p| p.add_duplex("tls", name.handler())).build();
/// let channel = client.connect("example.org:443").wait()?;
/// # let _ = channel;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    times: Times,
}

impl TlsClient {
    /// Creates a client that trusts certificates issued by one of these roots, as PEM.
    ///
    /// # Errors
    ///
    /// [`TlsError::InvalidRoots`] if they cannot be read, or if there is none.
    pub fn trusting(roots: &[u8]) -> Result<Self, TlsError> {
        Self::with_roots(roots::given(roots)?)
    }

    /// Creates a client that trusts certificates issued by a root of the platform: those that a
    /// browser or `curl` trusts. The environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` replace
    /// them.
    ///
    /// Reads files, so call it once when the program starts, and not on an event loop. Later changes
    /// of the platform's roots have no effect on the client.
    ///
    /// # Errors
    ///
    /// [`TlsError::InvalidRoots`] if the platform has no usable root; it says what to do. Roots that
    /// cannot be used are ignored if there are others.
    ///
    /// ```no_run
    /// use tidegate_net::tls::TlsClient;
    ///
    /// let name = TlsClient::with_native_roots()?.name("example.org")?;
    /// # drop(name);
    /// # Ok::<(), tidegate_net::tls::TlsError>(())
    /// ```
    pub fn with_native_roots() -> Result<Self, TlsError> {
        Self::with_roots(roots::of_platform()?)
    }

    fn with_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| roots::invalid(&why))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::from_config(Arc::new(config)))
    }

    /// Creates a client with a configuration of rustls.
    pub fn from_config(config: Arc<ClientConfig>) -> Self {
        Self {
            config,
            times: Times {
                handshake: TlsServer::DEFAULT_HANDSHAKE_TIMEOUT,
                connect: Duration::ZERO,
            },
        }
    }

    /// Sets the application protocols, best first.
    pub fn alpn<P: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = names(protocols);
        self
    }

    /// Sets the limit for the duration of a handshake; zero means no limit.
    pub fn handshake_timeout(mut self, after: Duration) -> Self {
        self.times.handshake = after;
        self
    }

    /// Sets the limit for the time from the begin of the connect to the end of the handshake; zero
    /// means no limit, which is the default. The limit of the handshake alone holds as well. For a
    /// handler that is added to an open connection, the time begins when it is added.
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.times.connect = after;
        self
    }

    /// Creates a client of the server `name`. The server's certificate must be valid for that name.
    ///
    /// # Errors
    ///
    /// [`TlsError::InvalidName`] if `name` is neither a host name nor an address.
    pub fn name(&self, name: &str) -> Result<TlsName, TlsError> {
        let parsed = ServerName::try_from(name.to_owned());
        let parsed = parsed.map_err(|_| TlsError::InvalidName(name.to_owned()))?;
        Ok(TlsName {
            client: self.clone(),
            name: parsed,
        })
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

/// A [`TlsClient`] of one server.
#[derive(Clone, Debug)]
pub struct TlsName {
    client: TlsClient,
    name: ServerName<'static>,
}

impl TlsName {
    /// Creates the handler of one connection.
    pub fn handler(&self) -> Tls {
        Tls::new(Side::Client(self.clone()), self.client.times)
    }

    fn connection(&self) -> Result<Connection, rustls::Error> {
        let config = Arc::clone(&self.client.config);
        let client = rustls::ClientConnection::new(config, self.name.clone())?;
        Ok(Connection::Client(client))
    }
}

/// The limits of a handshake; zero means none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    handshake: Duration,
    /// With the connect before it.
    connect: Duration,
}

impl Times {
    /// Returns how long a handshake may take that begins when the connect has taken `passed`, and the
    /// error if it takes longer. `None` if there is no limit.
    pub(super) fn left(self, passed: Duration) -> Option<(Duration, TlsError)> {
        let Self { handshake, connect } = self;
        let alone = (handshake, TlsError::HandshakeTimeout(handshake));
        let alone = Some(alone).filter(|_| !handshake.is_zero());
        let left = connect.saturating_sub(passed);
        let both = Some((left, TlsError::ConnectTimeout(connect))).filter(|_| !connect.is_zero());
        match (alone, both) {
            (Some(alone), Some(both)) if alone.0 < both.0 => Some(alone),
            (alone, both) => both.or(alone),
        }
    }
}

/// The end of a connection that a handler represents.
#[derive(Debug)]
pub(super) enum Side {
    Server(TlsServer),
    Client(TlsName),
}

impl Side {
    pub(super) fn connection(&self) -> Result<Connection, rustls::Error> {
        match self {
            Self::Server(server) => server.connection(),
            Self::Client(client) => client.connection(),
        }
    }

    /// Returns the server name that the client requested.
    pub(super) fn server_name(&self, connection: &Connection) -> Option<String> {
        match (self, connection) {
            (Self::Client(client), _) => Some(client.name.to_str().into_owned()),
            (_, Connection::Server(server)) => server.server_name().map(str::to_owned),
            _ => None,
        }
    }
}

/// Certificates by server name. `None` is for all other names.
#[derive(Debug, Default)]
struct Identities {
    by_name: RwLock<HashMap<Option<String>, Arc<CertifiedKey>>>,
}

impl Identities {
    fn set(&self, name: Option<String>, identity: CertifiedKey) {
        let mut all = unpoisoned(self.by_name.write());
        all.insert(name, Arc::new(identity));
    }

    fn get(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let all = unpoisoned(self.by_name.read());
        let named = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let above = name.split_once('.').map(|(_, above)| format!("*.{above}"));
            all.get(&Some(name)).or_else(|| all.get(&Some(above?)))
        });
        named.or_else(|| all.get(&None)).cloned()
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get(hello.server_name())
    }
}

fn identity(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let bad = |why: &dyn fmt::Display| TlsError::InvalidIdentity(why.to_string());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|why| bad(&format_args!("the chain is not PEM: {why}")))?;
    if chain.is_empty() {
        return Err(bad(
            &"the chain holds no certificate; give PEM with `-----BEGIN CERTIFICATE-----`",
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| match why {
        pem::Error::NoItemsFound => {
            bad(&"the key file holds no private key; give PEM with `-----BEGIN PRIVATE KEY-----`")
        }
        why => bad(&format_args!("the private key is not PEM: {why}")),
    })?;
    let identity = CertifiedKey::from_der(chain, key, &provider());
    identity.map_err(|why| bad(&format_args!("certificate and key do not fit: {why}")))
}

fn names<P: AsRef<[u8]>>(protocols: impl IntoIterator<Item = P>) -> Vec<Vec<u8>> {
    let all = protocols.into_iter();
    all.map(|one| one.as_ref().to_vec()).collect()
}

/// Returns the cryptography provider. It is fixed here and does not depend on the default of the
/// process.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || Arc::new(rustls::crypto::ring::default_provider());
    Arc::clone(PROVIDER.get_or_init(make))
}
