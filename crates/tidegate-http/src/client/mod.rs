//! The HTTP/1.1 client: calls, and pools of connections.
//!
//! ```
//! use tidegate_http::client::Client;
//!
//! let group = tidegate_net::pinned("io", 1)?;
//! let server = tidegate_http::serve(&group, "127.0.0.1:0", |_, response| response.body("hello"));
//! let server = server.wait()?;
//! let client = Client::builder(&group).max_connections(8).build();
//! let url = format!("http://{}/greeting", server.local_addr());
//! let response = client.get(url).field("Accept", "text/plain").send().wait()?;
//! assert_eq!(response.collect(1 << 20).wait()?, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | this one | [`Client`] and [`ClientBuilder`] |
//! | `request`, `response`, `body`, `upgraded`, `error` | what a caller uses |
//! | `redirect` | the next request after a redirect |
//! | `request_body` | the body of a request, in pieces |
//! | `call` | one call, from the search for a connection to the end of the response |
//! | `exchange_handler` | what receives a response: a handler of the user, or a call |
//! | `exchange`, `upstream` | the layer below calls, for handlers |
//! | `search` | the search for a connection, of a call or an upstream |
//! | `host`, `pool` | the connections to one host; the pool is the same for any protocol |
//! | `relocation` | a free connection that moves to another loop |
//! | `handler`, `connection` | one connection: receives the response to a request |
//! | `slot` | where a request and its connection meet |
//! | `config`, `limits`, `url`, `method` | settings; parsing; what a method means for the response |
//! | `counts`, `failure`, `keep_alive` | metrics; why an exchange failed; `Keep-Alive` |
//! | `head_memory` | the memory of encoded heads |
//!
//! Imports point downwards in this order: `request` → `redirect` → `request_body` → `call` →
//! `upstream` → `exchange` → `search` → `relocation` → `host` → `handler` → `connection` → `slot` → `pool` → the rest.
//! `request` and `redirect` use each other.

mod body;
mod call;
mod config;
mod connection;
mod counts;
mod error;
mod exchange;
mod exchange_handler;
mod failure;
mod handler;
mod head_memory;
mod host;
mod keep_alive;
mod limits;
mod method;
mod pool;
mod redirect;
mod relocation;
mod request;
mod request_body;
mod response;
mod search;
mod slot;
#[cfg(test)]
mod tests;
mod upgraded;
mod upstream;
mod url;

pub use self::body::ResponseBody;
pub use self::error::{ClientError, Phase, Side};
pub use self::exchange::Exchange;
pub use self::exchange_handler::{ExchangeHandler, Flow};
pub use self::request::RequestBuilder;
pub use self::request_body::RequestBody;
pub use self::response::Response;
pub use self::upgraded::Upgraded;
pub use self::upstream::{PendingExchange, Upstream};

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::internal::{lock, unpoisoned};
use tidegate_core::{Collect, MetricVisitor};
#[cfg(feature = "tls")]
use tidegate_net::tls::TlsClient;
use tidegate_net::{ClientBuilder as ConnectorBuilder, NetGroup, PipelineBuilder};
use tidegate_promise::{Completion, Promise, promise};

use self::call::{CallReceiver, Place};
use self::config::Config;
use self::counts::Counts;
use self::error::Kind;
use self::host::{Host, Key};
use self::url::Url;
use crate::codec::Method;

/// How many hosts a client remembers before it forgets those without connections.
const MANY_HOSTS: usize = 1024;

/// Makes HTTP/1.1 calls. Clones use the same connections.
///
/// Connections are kept for the next call to the same host. The limit of connections per host is
/// exact over all event loops; calls above it wait, up to a bound and for a limited time. See the
/// [module](self) for an example.
///
/// Responses are parsed by the strict rules of the [`codec`](crate::codec). A response that
/// violates them ends its connection. So do bytes that arrive while no call is outstanding.
///
/// When the last clone is dropped, idle connections are closed; calls in progress end as usual.
#[derive(Clone)]
pub struct Client {
    shared: Arc<ClientShared>,
}

/// What the clones of a client share.
struct ClientShared {
    group: NetGroup,
    config: Config,
    /// Makes connections; each host adds its handlers.
    connector: ConnectorBuilder,
    #[cfg(feature = "tls")]
    tls: Option<TlsClient>,
    hosts: Mutex<HashMap<Key, Arc<Host<CallReceiver>>>>,
    counts: Arc<Counts>,
    next: AtomicU64,
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        let hosts = unpoisoned(self.hosts.get_mut());
        for host in hosts.values() {
            host.close_free();
        }
    }
}

impl Client {
    /// Returns the builder of a client whose connections live on the event loops of `group`.
    pub fn builder(group: &NetGroup) -> ClientBuilder {
        ClientBuilder {
            group: group.clone(),
            config: Config::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Begins a `GET` request.
    pub fn get(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::Get, url)
    }

    /// Begins a `HEAD` request.
    pub fn head(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::Head, url)
    }

    /// Begins a `POST` request.
    pub fn post(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::Post, url)
    }

    /// Begins a `PUT` request.
    pub fn put(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::Put, url)
    }

    /// Begins a `DELETE` request.
    pub fn delete(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::Delete, url)
    }

    /// Begins a request for a tunnel to `to`, a host and a port, through the proxy with this URL
    /// (`CONNECT`). If the status of the response is one of success,
    /// [`Response::into_upgraded`] returns the connection.
    pub fn tunnel(&self, proxy: impl AsRef<str>, to: &str) -> RequestBuilder {
        RequestBuilder::tunnel(self.clone(), proxy.as_ref(), to)
    }

    /// Begins a request with any method but `CONNECT`: see [`Client::tunnel`].
    pub fn request(&self, method: Method<'_>, url: impl AsRef<str>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method, url.as_ref())
    }

    /// Returns a server for exchanges, the layer below calls. Of the URL, only scheme, host and port
    /// count. The result has connections of its own, up to the limit of this client.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the URL is not valid, or if it needs TLS and the client has none.
    pub fn upstream<H: ExchangeHandler>(&self, url: &str) -> Result<Upstream<H>, ClientError> {
        let parsed = Url::parse(url).map_err(Kind::Url);
        let host = parsed.and_then(|parsed| {
            let label = parsed.label(Method::Other("a request to"));
            Ok((self.shared.new_host(Key::of(&parsed))?, label))
        });
        match host {
            Ok((host, label)) => Ok(Upstream::new(host, &label)),
            Err(kind) => {
                let why = ClientError::new("an upstream", kind, Phase::Request, false, false);
                Err(why)
            }
        }
    }

    /// Returns the limit of time for a whole call.
    fn timeout(&self) -> Option<Duration> {
        self.shared.config.timeout
    }

    /// Returns the host of a URL.
    fn host(&self, url: &Url) -> Result<Arc<Host<CallReceiver>>, Kind> {
        let key = Key::of(url);
        let shared = &*self.shared;
        let find = || lock(&shared.hosts);
        if let Some(host) = find().get(&key) {
            return Ok(Arc::clone(host));
        }
        let host = shared.new_host(key.clone())?;
        let mut hosts = find();
        if hosts.len() >= MANY_HOSTS {
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || !host.is_unused());
        }
        // Another thread may have been faster.
        Ok(Arc::clone(hosts.entry(key).or_insert(host)))
    }

    /// Returns the promise of a response, whose listeners run on the loop of the call.
    fn promise(&self, place: Place) -> (Promise<Response>, Completion<Response>) {
        match self.shared.group.loops().iter().nth(place.at) {
            Some(home) => home.promise(),
            None => promise(),
        }
    }

    /// Returns where a new call runs: on the current loop, or on one of the group.
    fn place(&self) -> Place {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let loops = self.shared.group.loops();
        let current = loops.iter().position(|one| one.is_current());
        let at = current.unwrap_or_else(|| (id % loops.len().max(1) as u64) as usize);
        Place {
            at,
            is_current: current.is_some(),
            id,
        }
    }
}

impl ClientShared {
    #[cfg(feature = "tls")]
    fn new_host<R: ExchangeHandler>(&self, key: Key) -> Result<Arc<Host<R>>, Kind> {
        if !key.secure {
            return Ok(self.host_with(key, |p| p));
        }
        let Some(tls) = &self.tls else {
            return Err(Kind::Unsupported(
                "`https` needs certificates to trust; give the builder a `TlsClient`",
            ));
        };
        let name = tls.name(&key.host);
        let name = name.map_err(|_| Kind::Url("its host is no name of a certificate"))?;
        let secure = move |p: PipelineBuilder| p.add_duplex("tls", name.handler());
        Ok(self.host_with(key, secure))
    }

    #[cfg(not(feature = "tls"))]
    fn new_host<R: ExchangeHandler>(&self, key: Key) -> Result<Arc<Host<R>>, Kind> {
        match key.secure {
            false => Ok(self.host_with(key, |p| p)),
            true => Err(Kind::Unsupported("`https` needs the feature `tls`")),
        }
    }

    fn host_with<R: ExchangeHandler>(
        &self,
        key: Key,
        secure: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
    ) -> Arc<Host<R>> {
        let (connector, counts) = (self.connector.clone(), Arc::clone(&self.counts));
        Host::new(&self.group, connector, &self.config, counts, key, secure)
    }
}

/// The requests on new connections and on connections that were used before.
impl Collect for Client {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        self.shared.counts.collect(visitor);
    }
}

tidegate_core::debug_fields!(Client);

/// The builder of a [`Client`].
#[must_use = "a builder does nothing until it is built"]
pub struct ClientBuilder {
    group: NetGroup,
    config: Config,
    #[cfg(feature = "tls")]
    tls: Option<TlsClient>,
}

impl ClientBuilder {
    /// Sets how many connections to one host may be open, over all event loops (64 by default, at
    /// least 1).
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.config.max_connections = connections.max(1);
        self
    }

    /// Sets how many connections to one host may be idle, over all event loops (128 by default). Above
    /// it, the event loop that has used one closes the one of its own that was not used for the longest
    /// time, so that the places of a server with one connection per process are not occupied. Loops
    /// that return connections at the same moment may exceed it by one each.
    pub fn keep(mut self, idle: usize) -> Self {
        self.config.keep = idle;
        self
    }

    /// Sets how many calls to one host may wait for a connection (1,024 by default). A call above
    /// it fails at once: see [`ClientError::is_refused`].
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.config.max_waiting = calls;
        self
    }

    /// Sets how long a call may wait for a connection, because the limit is reached (10 s by
    /// default).
    pub fn wait_timeout(mut self, after: Duration) -> Self {
        self.config.wait_timeout = after;
        self
    }

    /// Sets the time for resolving a name; zero means no limit.
    pub fn resolve_timeout(mut self, after: Duration) -> Self {
        self.config.resolve_timeout = after;
        self
    }

    /// Sets the time for a connection to one address to be established, with TLS (10 s by default);
    /// zero means no limit. The TLS handshake alone also has the limit of its `TlsClient`.
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.config.options.connect_timeout = after;
        self
    }

    /// Sets how long the head of a response may take (30 s by default). While the request is being
    /// sent, the time begins anew with each progress.
    pub fn head_timeout(mut self, after: Duration) -> Self {
        self.config.connection.head_timeout = after;
        self
    }

    /// Sets how long the body of a response may make no progress while the caller reads it (30 s by
    /// default).
    pub fn body_timeout(mut self, after: Duration) -> Self {
        self.config.connection.body_timeout = after;
        self
    }

    /// Sets the time of a whole call, to the end of the response's body. Without it there is no such
    /// limit.
    pub fn timeout(mut self, after: Duration) -> Self {
        self.config.timeout = Some(after);
        self
    }

    /// Sets how long a connection may be idle (15 s by default). A server that announces a shorter
    /// time (`Keep-Alive: timeout=`) shortens it.
    pub fn idle(mut self, after: Duration) -> Self {
        self.config.connection.idle = after;
        self
    }

    /// Sets how old a connection may get (10 minutes by default). It ends after the response that it
    /// has begun. The limit of each connection is up to a tenth lower, so that they do not all end at
    /// once.
    pub fn max_age(mut self, after: Duration) -> Self {
        self.config.connection.max_age = after;
        self
    }

    /// Sets how many requests a connection may serve (10,000 by default), with the same variation as
    /// the age.
    pub fn max_requests(mut self, requests: u64) -> Self {
        self.config.connection.max_requests = requests.max(1);
        self
    }

    /// Sets the resolver of names: see
    /// [`ClientBuilder::resolver`](tidegate_net::ClientBuilder::resolver) of a network client.
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.config.resolver = Some(Arc::new(resolver));
        self
    }

    /// Makes all connections to this Unix socket. The URLs of requests still have a host, which is
    /// sent as `Host`; each host has connections of its own.
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.config.unix = Some(path.into());
        self
    }

    /// Sets the certificates to trust, for `https`. Its application protocols are replaced by
    /// `http/1.1`, and its time for connect and handshake by that of this builder.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsClient) -> Self {
        self.tls = Some(tls.alpn(["http/1.1"]));
        self
    }

    /// Builds the client.
    pub fn build(self) -> Client {
        #[cfg(feature = "tls")]
        let connect_timeout = self.config.options.connect_timeout;
        Client {
            shared: Arc::new(ClientShared {
                connector: self.config.connector(&self.group),
                counts: Arc::new(Counts::new(self.group.loops().len())),
                group: self.group,
                config: self.config,
                #[cfg(feature = "tls")]
                tls: self.tls.map(|tls| tls.connect_timeout(connect_timeout)),
                hosts: Mutex::default(),
                next: AtomicU64::new(1),
            }),
        }
    }
}

tidegate_core::debug_fields!(ClientBuilder);
