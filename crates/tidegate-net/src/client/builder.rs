//! The builder of a client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_loop::Pinned;
use tidegate_promise::Completion;

use super::Client;
use crate::channel::{Channel, ChannelOptions};
use crate::group::{ChannelPlacement, NetGroup};
use crate::name_cache::cached;
use crate::pipeline::PipelineBuilder;
use crate::resolve::{Address, RESOLVE_TIMEOUT, system_resolver};

/// The builder of a [`Client`]. Clones share the resolver of names.
#[must_use = "a builder does nothing until it is built"]
pub struct ClientBuilder<P: ChannelPlacement = Pinned> {
    client: Client<P>,
}

impl Client {
    /// The default time limit for resolving a name, of clients and of servers.
    pub const DEFAULT_RESOLVE_TIMEOUT: Duration = RESOLVE_TIMEOUT;
}

impl<P: ChannelPlacement> Client<P> {
    /// Returns the builder of a client whose connections live on the event loops of `group`.
    pub fn builder(group: &NetGroup<P>) -> ClientBuilder<P> {
        ClientBuilder {
            client: Self {
                group: group.clone(),
                initialise: Arc::new(|p| p),
                options: Arc::default(),
                resolver: system_resolver(),
                resolve_timeout: RESOLVE_TIMEOUT,
            },
        }
    }
}

impl<P: ChannelPlacement> ClientBuilder<P> {
    /// Sets the handlers of each connection, first to last. `assemble` is called on the
    /// connection's event loop.
    pub fn pipeline(
        mut self,
        assemble: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
    ) -> Self {
        self.client.initialise = Arc::new(assemble);
        self
    }

    /// Sets the options of the connections.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.client.options = Arc::new(options);
        self
    }

    /// Sets the resolver of names. `resolver` gets a host and a port, and returns the addresses,
    /// best first. It is called by [`Client::connect`] and should not block. By default the
    /// operating system resolves names, on the threads of a small pool.
    ///
    /// ```no_run
    /// use tidegate_net::Client;
    /// use tidegate_promise::Completion;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let channel = Client::builder(&group)
    ///     .resolver(|_host, port| Completion::succeeded(vec![([127, 0, 0, 1], port).into()]))
    ///     .connect("test.invalid:7000")
    ///     .wait()?;
    /// # let _ = channel;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.client.resolver = Arc::new(resolver);
        self
    }

    /// Keeps the addresses of a name for a time, instead of resolving it for each connection, and of
    /// 1,024 names at most. Call it after [`resolver`](Self::resolver). Clones of the builder use the
    /// same addresses.
    pub fn keep_names(mut self, keep: Duration) -> Self {
        let clock = self.client.group.loops().next().clock().clone();
        self.client.resolver = cached(Arc::clone(&self.client.resolver), keep, clock);
        self
    }

    /// Sets the time limit for resolving a name; zero means no limit.
    pub fn resolve_timeout(mut self, after: Duration) -> Self {
        self.client.resolve_timeout = after;
        self
    }

    /// Builds the client.
    pub fn build(self) -> Client<P> {
        self.client
    }

    /// Makes one connection: see [`Client::connect`].
    pub fn connect(self, to: impl Into<Address>) -> Completion<Channel> {
        self.build().connect(to)
    }

    /// Connects to a Unix socket: see [`Client::connect_unix`].
    #[cfg(unix)]
    pub fn connect_unix(self, path: impl AsRef<std::path::Path>) -> Completion<Channel> {
        self.build().connect_unix(path)
    }

    /// Creates a channel of a connected TCP socket: see [`Client::adopt`].
    pub fn adopt(self, stream: std::net::TcpStream) -> Completion<Channel> {
        self.build().adopt(stream)
    }

    /// Opens a UDP socket: see [`Client::bind_udp`].
    pub fn bind_udp(self, address: SocketAddr) -> Completion<Channel> {
        self.build().bind_udp(address)
    }
}

impl<P: ChannelPlacement> Clone for ClientBuilder<P> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
        }
    }
}

impl<P: ChannelPlacement> fmt::Debug for ClientBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("options", &self.client.options)
            .finish_non_exhaustive()
    }
}
