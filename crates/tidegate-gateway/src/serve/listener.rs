//! A listener: its address, its limits, its connections.
//!
//! A listener whose settings change is opened again on the socket of the old one: the address stays
//! bound. New connections have the new settings, those that are open keep the old ones.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate::http::{HttpServer, Limits};
use tidegate::net::handlers::{ProxiedPeer, ProxyProtocol};
use tidegate::net::{Bytes, Handler, Inbound, InboundContext, Listener as Socket, Nothing};
use tidegate::promise::Completion;
use tidegate::tls::TlsServer;
use tidegate_core::internal::lock;
use tidegate_http::HttpServerBuilder;
use tidegate_loop::Pinned;

use super::error::{StartError, reason};
use crate::config::types;
use crate::config::{Address, Named, Network};
use crate::parts::Parts;
use crate::problem::Problems;
use crate::proxy::{Front, Lives, ProxyService};
use crate::tls::{Certificates, Expiry, TlsFiles};
use crate::unix::{self, SocketPath};

/// A listener that is open.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) name: String,
    pub(super) config: types::Listener,
    pub(super) server: HttpServer,
    tls: Option<TlsServer>,
    /// When its certificates expire.
    expiries: Mutex<Vec<Option<Expiry>>>,
    /// The Unix socket, which is removed at the end.
    path: Option<Arc<SocketPath>>,
}

/// A listener that is not open yet. Its certificates are read, and its name is looked up.
#[derive(Clone)]
pub(super) struct Prepared {
    name: String,
    config: types::Listener,
    /// The addresses of its name, if it has one.
    found: Vec<SocketAddr>,
    tls: Option<TlsServer>,
    expiries: Vec<Option<Expiry>>,
}

impl Prepared {
    /// Takes the certificates of a listener, and looks up its name.
    ///
    /// # Errors
    ///
    /// Which file is wrong, or the name is not found.
    pub(super) fn new(
        listener: &Named<types::Listener>,
        tls: &mut TlsFiles,
        parts: &Parts,
    ) -> Result<Self, StartError> {
        let mut read = certificates(&listener.name, tls)?;
        let expiries = read.as_mut().map(|read| std::mem::take(&mut read.expiries));
        let mut prepared = Self {
            name: listener.name.clone(),
            config: listener.value.clone(),
            found: Vec::new(),
            tls: read.map(Certificates::into_server),
            expiries: expiries.unwrap_or_default(),
        };
        let found = parts.resolver.wait_for_listener(prepared.at());
        prepared.found = found.map_err(|why| prepared.error(&why))?;
        Ok(prepared)
    }

    /// Prepares the same listener once more, for its own socket. It has the certificates that are in use:
    /// its files may be others by now, or have expired.
    pub(super) fn again(old: &Listening) -> Self {
        Self {
            name: old.name.clone(),
            config: old.config.clone(),
            found: Vec::new(),
            tls: old.tls.clone(),
            expiries: old.known_expiries().clone(),
        }
    }

    /// Returns the address.
    pub(super) fn at(&self) -> &Address {
        &self.config.at
    }

    /// Opens the listener. `shared` lets its address overlap with that of a socket that allows it.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub(super) fn open(
        self,
        lives: &Arc<Lives>,
        parts: &Parts,
        shared: bool,
    ) -> Result<Listening, StartError> {
        match self.config.at.clone() {
            Address::Tcp { host, port } => {
                let found = self.found.clone();
                self.serve(lives, parts, None, |builder, service| {
                    let builder = builder.configure(|server| {
                        server
                            .reuse_port(shared)
                            .resolver(move |_, _| Completion::succeeded(found.clone()))
                    });
                    builder.serve_with((host.as_str(), port), service)
                })
            }
            Address::Unix(path) => {
                let bound = unix::bind(&path).map_err(|why| self.error(&why.to_string()));
                let (socket, path) = bound?;
                let path = Some(Arc::new(path));
                self.serve(lives, parts, path, |builder, service| {
                    builder.serve_on(socket, service)
                })
            }
        }
    }

    /// Opens the listener on the socket of another one, which accepts no more connections then and
    /// keeps those that it has. Connections that wait to be accepted are not lost.
    ///
    /// # Errors
    ///
    /// The other one has no socket any more, or the loops take no listener: the gateway ends.
    pub(super) fn take_over(
        self,
        old: &Listening,
        lives: &Arc<Lives>,
        parts: &Parts,
    ) -> Result<Listening, StartError> {
        let socket = old.release().map_err(|why| self.error(&why))?;
        self.open_on(socket, old.path(), lives, parts)
    }

    /// Opens the listener on a socket that exists already.
    ///
    /// # Errors
    ///
    /// The loops take no listener: the gateway ends.
    pub(super) fn open_on(
        self,
        socket: Socket,
        path: Option<Arc<SocketPath>>,
        lives: &Arc<Lives>,
        parts: &Parts,
    ) -> Result<Listening, StartError> {
        self.serve(lives, parts, path, |builder, service| {
            builder.serve_on(socket, service)
        })
    }

    fn serve(
        self,
        lives: &Arc<Lives>,
        parts: &Parts,
        path: Option<Arc<SocketPath>>,
        listen: impl FnOnce(HttpServerBuilder<Pinned>, MakeService) -> Completion<HttpServer>,
    ) -> Result<Listening, StartError> {
        let config = &self.config;
        let front = Arc::new(Front {
            trust: config.trust.clone(),
            secure: self.tls.is_some(),
            proxied: config.proxy_protocol,
            most_body: config.limits.body.map_or(u64::MAX, |size| size.0),
        });
        let lives = Arc::clone(lives);
        let service = Box::new(move || ProxyService::new(&lives, &front));
        let builder = HttpServer::builder(&parts.group).limits(limits(&config.limits));
        let mut builder = bounded(builder, &config.limits);
        if config.proxy_protocol {
            let known = KnownPeers {
                listener: self.name.as_str().into(),
                trust: config.trust.clone().into(),
                time: config.limits.head_time,
                problems: Arc::clone(&parts.reports.problems),
            };
            builder = builder.front(move |pipeline| {
                let known = Handler::inbound(known.clone());
                let pipeline = pipeline.add_handler("known", known);
                pipeline.add_handler("proxy", Handler::inbound(ProxyProtocol::new()))
            });
        }
        if let Some(tls) = &self.tls {
            builder = builder.tls(tls.clone());
        }
        let started = listen(builder, service).wait();
        let server = started.map_err(|why| self.error(&reason(&why)))?;
        Ok(Listening {
            name: self.name,
            config: self.config,
            server,
            tls: self.tls,
            expiries: Mutex::new(self.expiries),
            path,
        })
    }

    /// Says why it cannot be opened.
    fn error(&self, why: &str) -> StartError {
        StartError::listen(&self.name, self.config.at.to_string(), why)
    }
}

/// Takes the certificates of a listener.
fn certificates(name: &str, tls: &mut TlsFiles) -> Result<Option<Certificates>, StartError> {
    let read = tls.take_certificates(name);
    read.map_err(|why| StartError::certificates(name, &why))
}

/// Makes the service of a connection.
type MakeService = Box<dyn Fn() -> ProxyService + Send + Sync>;

impl Listening {
    /// Returns `true` if the listener serves a new configuration without being opened again.
    pub(super) fn fits(&self, config: &types::Listener) -> bool {
        let is_secure = config.tls.is_some() == self.config.tls.is_some();
        let other = types::Listener {
            tls: self.config.tls.clone(),
            ..config.clone()
        };
        is_secure && other == self.config
    }

    /// Returns `true` if the socket has this address.
    pub(super) fn is_at(&self, at: &Address) -> bool {
        let is_same_file = match (&self.path, at) {
            (Some(own), Address::Unix(path)) => own.is_at(path),
            _ => false,
        };
        self.config.at == *at || is_same_file
    }

    /// Returns `true` if the system may refuse this address because of the socket.
    pub(super) fn overlaps(&self, at: &Address) -> bool {
        match at {
            Address::Tcp { port, .. } => {
                self.path.is_none() && self.server.local_addr().port() == *port
            }
            Address::Unix(_) => false,
        }
    }

    /// Returns the path of the Unix socket, which is removed with its last handle.
    pub(super) fn path(&self) -> Option<Arc<SocketPath>> {
        self.path.clone()
    }

    /// Stops accepting, and returns the socket. Clients that come wait there.
    ///
    /// # Errors
    ///
    /// There is no socket any more, or the gateway ends.
    pub(super) fn release(&self) -> Result<Socket, String> {
        let released = self.server.server().release_listeners().wait();
        let released = released.map_err(|why| reason(&why))?;
        let socket = released.into_iter().next();
        socket.ok_or_else(|| "it is closed already".to_owned())
    }

    /// Takes certificates that were read again, for new connections.
    ///
    /// # Errors
    ///
    /// Which file is wrong.
    pub(super) fn new_certificates(
        self: &Arc<Self>,
        tls: &mut TlsFiles,
    ) -> Result<Option<NewCertificates>, StartError> {
        let read = certificates(&self.name, tls)?;
        Ok(read.map(|read| NewCertificates(Arc::clone(self), read)))
    }

    /// Returns the settings of the certificates, and when each expires.
    pub(super) fn expiries(&self) -> Vec<(String, Expiry)> {
        let known = self.known_expiries();
        let known = known.iter().enumerate();
        let named = known.filter_map(|(index, expiry)| {
            let setting = format!("listen.{}.tls.certificates[{index}]", self.name);
            Some((setting, expiry.clone()?))
        });
        named.collect()
    }

    fn known_expiries(&self) -> MutexGuard<'_, Vec<Option<Expiry>>> {
        lock(&self.expiries)
    }

    /// Returns the address on which clients reach the listener.
    pub(super) fn address(&self) -> String {
        match &self.path {
            Some(socket) => format!("unix:{}", socket.path().display()),
            None => self.server.local_addr().to_string(),
        }
    }
}

/// Certificates that were read and are not in use yet.
pub(super) struct NewCertificates(Arc<Listening>, Certificates);

impl NewCertificates {
    pub(super) fn apply(self) {
        let Self(listening, mut read) = self;
        let expiries = std::mem::take(&mut read.expiries);
        if let Some(tls) = &listening.tls {
            read.apply(tls);
        }
        *listening.known_expiries() = expiries;
    }
}

/// Closes the connections of peers that may not send the PROXY protocol, and those whose header does
/// not come in time.
#[derive(Clone)]
struct KnownPeers {
    /// The name of the listener.
    listener: Arc<str>,
    trust: Arc<[Network]>,
    /// How long the header may take.
    time: Duration,
    problems: Arc<Problems>,
}

impl KnownPeers {
    fn refuse(&self, kind: &'static str, why: &str, ctx: &mut InboundContext<'_, Self>) {
        let peer = ctx.channel().peer_addr();
        let peer = peer.map_or("a local client".to_owned(), |peer| peer.ip().to_string());
        let what = format!(
            "listen.{}: closed a connection of {peer}: {why}",
            self.listener
        );
        self.problems.report(kind, what);
        ctx.close();
    }
}

impl Inbound for KnownPeers {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let peer = ctx.channel().peer_addr();
        let knows = |peer: SocketAddr| self.trust.iter().any(|some| some.contains(peer.ip()));
        if !peer.is_none_or(knows) {
            let why = "it is not in `trust`, and may not send the PROXY protocol";
            return self.refuse("proxy_peer", why, ctx);
        }
        ctx.deadline(0, self.time);
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        if ctx.channel().attribute::<ProxiedPeer>().is_none() {
            let why = "its PROXY header did not come within `limits.head_time`";
            self.refuse("proxy_header", why, ctx);
        }
    }
}

/// Sets the limits of all connections together.
fn bounded(
    builder: HttpServerBuilder<Pinned>,
    limits: &types::Limits,
) -> HttpServerBuilder<Pinned> {
    let (all, each) = (limits.connections, limits.connections_per_client);
    builder.configure(|mut server| {
        if let Some(most) = all {
            server = server.max_connections(most.0 as usize);
        }
        if let Some(most) = each {
            server = server.max_connections_per_peer(most.0 as usize);
        }
        if let Some(most) = limits.memory {
            server = server.max_memory(usize::try_from(most.0).unwrap_or(usize::MAX));
        }
        server
    })
}

/// Returns the limits of the server of HTTP.
fn limits(config: &types::Limits) -> Limits {
    let small = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
    Limits::default()
        .max_request_line(small(config.request_line.0))
        .max_head(small(config.head.0))
        .max_fields(u8::try_from(config.fields.0).unwrap_or(u8::MAX))
        // A route may have another one, so the limit is checked when the route is known.
        .max_body(u64::MAX)
        .head_time(config.head_time)
        .body_time(config.body_time)
        .send_time(config.send_time)
        .idle(config.idle)
        .max_outstanding(config.pipelined.0 as usize)
        // The command of a route has its own timeout.
        .response_time(Duration::MAX)
        // A client that ends its half has usually left.
        .half_close(false)
}
