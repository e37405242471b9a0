//! Starts and ends the listener for operators.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::{HttpServer, Limits};
use tidegate::metrics::Exporter;
use tidegate::net::{Handler, NetGroup};
use tidegate::pool::WorkerPool;
use tidegate::promise::Completion;
use tidegate_http::HttpServerBuilder;
use tidegate_loop::Pinned;

use super::change::Changes;
use super::controls::Controls;
use super::door::AdminAccess;
use super::event::{Events, WallTime};
use super::guests::{Guests, PLACES, Usher};
use super::pages::Pages;
use super::service::{AdminService, Session};
use super::streams::{MAX_CLIENTS, Streams};
use crate::config::types::Admin;
use crate::config::{Address, Disk};
use crate::problem::{Problems, advised};
use crate::unix::{self, SocketPath};

/// The number of threads for what may block.
const THREADS: usize = 4;
/// The number of requests that wait for them.
const WAITING: usize = 32;
/// How many connections there can be besides those that have places: they are being closed.
const LEAVING: usize = 64;
/// How long a head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// What the listener shows and uses.
pub struct AdminParts {
    /// The gateway.
    pub controls: Arc<dyn Controls>,
    /// The metrics.
    pub exporter: Exporter,
    /// The list of changes.
    pub events: Arc<Events>,
    /// Where refusals are reported.
    pub problems: Arc<Problems>,
    /// The time of events and samples.
    pub wall: WallTime,
}

tidegate_core::debug_fields!(AdminParts);

/// Why the listener for operators cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// A token is missing, or cannot be read.
    #[error("{0}")]
    Token(String),
    /// The address cannot be used.
    #[error("listen.admin.at: cannot listen on {at}: {why}")]
    Listen {
        /// The address.
        at: Address,
        /// The reason.
        why: String,
    },
}

/// The listener for operators. Dropping it leaves it running until its group ends.
pub struct AdminListener {
    server: HttpServer,
    streams: Arc<Streams>,
    pages: Arc<Pages>,
    access: AdminAccess,
    /// The Unix socket, which is removed at the end.
    path: Option<SocketPath>,
}

impl AdminListener {
    /// Starts the listener on the first loop of `group`, which should be its own.
    ///
    /// # Errors
    ///
    /// A token or the address cannot be used. Nothing listens then.
    pub fn start(
        settings: &Admin,
        disk: &dyn Disk,
        parts: AdminParts,
        group: &NetGroup,
    ) -> Result<Self, AdminError> {
        let access = AdminAccess::read(settings, disk).map_err(AdminError::Token)?;
        Self::start_with(settings, (access, None), parts, group)
    }

    /// Starts the listener, whose tokens are read. If there are addresses, they are those of its name.
    ///
    /// # Errors
    ///
    /// The address cannot be used. Nothing listens then.
    pub(crate) fn start_with(
        settings: &Admin,
        (access, found): (AdminAccess, Option<Vec<SocketAddr>>),
        parts: AdminParts,
        group: &NetGroup,
    ) -> Result<Self, AdminError> {
        let failed = |why: String| AdminError::Listen {
            at: settings.at.clone(),
            why: advised(&why),
        };
        let workers = WorkerPool::builder("admin")
            .max(THREADS)
            .queue(WAITING)
            .build();
        let workers = workers.map_err(|why| failed(why.to_string()))?;
        let streams = Streams::new(
            group.loops().next().clone(),
            parts.controls.isolation(),
            Arc::clone(&parts.wall),
        );
        let guests = Arc::new(Guests::default());
        let pages = Pages::new(
            group.loops().next().clone(),
            workers.clone(),
            (Arc::clone(&parts.controls), Arc::clone(&parts.events)),
            Arc::clone(&parts.wall),
            MAX_CLIENTS,
        );
        let service = AdminService {
            pages: Arc::clone(&pages),
            door: access.clone(),
            guests: Arc::clone(&guests),
            exporter: parts.exporter,
            streams: Arc::clone(&streams),
            problems: parts.problems,
            workers,
            changes: Changes {
                controls: parts.controls,
                events: parts.events,
                wall: parts.wall,
                one: Arc::default(),
            },
        };
        let service = Arc::new(service);
        let session = move || Session(Arc::clone(&service));
        let (server, path) =
            listen(builder(group, guests), session, &settings.at, found).map_err(failed)?;
        pages.start();
        Ok(Self {
            server,
            streams,
            pages,
            access,
            path,
        })
    }

    /// Returns the address on which the listener listens. On a Unix socket it says nothing.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Returns the address on which operators reach the listener, also that of a Unix socket.
    pub fn address(&self) -> String {
        match &self.path {
            Some(socket) => format!("unix:{}", socket.path().display()),
            None => self.local_addr().to_string(),
        }
    }

    /// Returns the handle that changes who may use the listener.
    pub fn access(&self) -> AdminAccess {
        self.access.clone()
    }

    /// Ends the streams and the listener. Requests in flight may take until the deadline.
    pub fn close(&self, deadline: Duration) -> Completion<()> {
        self.close_streams();
        self.server.drain(deadline).map(|_| ())
    }

    /// Removes the path of the Unix socket: the listener has ended.
    pub(crate) fn remove_path(&self) {
        if let Some(socket) = &self.path {
            socket.remove();
        }
    }

    /// Ends the streams, and refuses further ones with status 503. The other endpoints stay.
    pub fn close_streams(&self) {
        self.streams.close();
        self.pages.close();
    }
}

/// Describes the server: its limits, and the places of its connections.
fn builder(group: &NetGroup, guests: Arc<Guests>) -> HttpServerBuilder<Pinned> {
    let limits = Limits::default().max_body(1 << 16).head_time(HEAD_TIME);
    HttpServer::builder(group)
        .limits(limits.half_close(false))
        .front(move |pipeline| pipeline.add_handler("usher", Handler::inbound(Usher::new(&guests))))
        .configure(|server| server.max_connections(PLACES + LEAVING))
}

/// Listens on an address. If there are addresses, they are those of its name.
fn listen(
    builder: HttpServerBuilder<Pinned>,
    session: impl Fn() -> Session + Send + Sync + 'static,
    at: &Address,
    found: Option<Vec<SocketAddr>>,
) -> Result<(HttpServer, Option<SocketPath>), String> {
    let (server, path) = match at {
        Address::Tcp { host, port } => {
            let builder = builder.configure(|server| match found {
                Some(found) => server.resolver(move |_, _| Completion::succeeded(found.clone())),
                None => server,
            });
            (builder.serve_with((host.as_str(), *port), session), None)
        }
        Address::Unix(path) => {
            let (socket, path) = unix::bind(path).map_err(|why| why.to_string())?;
            (builder.serve_on(socket, session), Some(path))
        }
    };
    let server = server.wait().map_err(|why| why.to_string())?;
    Ok((server, path))
}

tidegate_core::debug_fields!(AdminListener, this => at: this.address());
