//! The checks of one server. They run on one loop and block nothing.
//!
//! A check ends before the next one begins. The first ones of the servers of an upstream are spread
//! over the time between two checks. Dropping the checker ends them, and so does another one of the same
//! server that begins: requests that have begun before a reload keep the old checker for long.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidegate::http::client::{Client as HttpClient, ClientError, Side};
use tidegate::loops::EventLoop;
use tidegate::net::{ChannelOptions, Client as NetClient, NetError, NetGroup};
use tidegate::promise::{Completion, Failure, WaitError};

use super::thresholds::Thresholds;
use crate::balance::ServerState;
use crate::config::types::Health;
use crate::config::{Address, HealthKind};
use crate::reports::Reports;

/// The largest body that is looked at.
const LARGEST_BODY: usize = 64 * 1024;

/// The number of the next checker.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A check in progress.
type Pending = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// Why a check failed.
struct Fault {
    why: String,
    /// The gateway has no descriptors left: it says nothing about the server.
    is_ours: bool,
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        let is_ours = false;
        Self { why, is_ours }
    }
}

impl From<WaitError<Failure>> for Fault {
    fn from(why: WaitError<Failure>) -> Self {
        let is_ours = match &why {
            WaitError::Failed(why) => {
                let call = why.downcast_ref::<ClientError>();
                NetError::is_out_of_descriptors(why)
                    || call.is_some_and(ClientError::is_out_of_descriptors)
            }
            _ => false,
        };
        let why = why.to_string();
        Self { why, is_ours }
    }
}

/// A server that is checked.
pub(crate) struct Checked {
    /// The name of its upstream.
    pub(crate) upstream: String,
    pub(crate) at: Address,
    /// The addresses of its name, if they are known.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The address as operators see it.
    pub(crate) label: Arc<str>,
    pub(crate) state: ServerState,
    /// For checks by HTTP: the calls, and the URL without the path.
    pub(crate) client: HttpClient,
    pub(crate) url: String,
    pub(crate) reports: Reports,
}

/// The checks of one server.
pub(crate) struct Checker {
    server: Checked,
    config: Health,
    group: NetGroup,
    /// The number of the loop.
    home: usize,
    number: u64,
    has_begun: AtomicBool,
    /// When the first check is due after the beginning.
    first: Duration,
    results: Mutex<Thresholds>,
}

impl Checker {
    /// Makes the checks of server `index` of `servers`. They do not begin yet.
    pub(crate) fn new(
        server: Checked,
        config: &Health,
        group: &NetGroup,
        (index, servers): (usize, usize),
    ) -> Arc<Self> {
        let parts = u32::try_from(servers.max(1)).unwrap_or(u32::MAX);
        let part = u32::try_from(index).unwrap_or(u32::MAX);
        Arc::new(Self {
            server,
            config: config.clone(),
            group: group.clone(),
            home: index % group.loops().len().max(1),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            has_begun: AtomicBool::new(false),
            first: config.every / parts * part,
            results: Mutex::new(Thresholds::new(config.up.0, config.down.0)),
        })
    }

    /// Begins the checks, the first time that it is called. Those of an earlier checker of the same
    /// server end.
    pub(crate) fn begin(self: &Arc<Self>) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.server.state.set_checker(self.number);
            Self::check_after(&Arc::downgrade(self), self.first, self);
        }
    }

    /// Returns `true` until another checker of the same server begins.
    fn counts(&self) -> bool {
        self.server.state.is_checked_by(self.number)
    }

    fn home(&self) -> Option<&EventLoop> {
        self.group.loops().iter().nth(self.home)
    }

    fn check_after(weak: &Weak<Self>, after: Duration, this: &Self) {
        let weak = weak.clone();
        let check = move || {
            if let Some(checker) = weak.upgrade().filter(|own| own.counts()) {
                checker.check();
            }
        };
        // A loop that takes no timers is ending.
        drop(this.home().map(|home| home.schedule_coarse(after, check)));
    }

    /// Begins a check. When it has ended, the next one is due after the time between two.
    fn check(self: Arc<Self>) {
        let weak = Arc::downgrade(&self);
        let result: Pending = match self.config.kind {
            HealthKind::Http => Box::pin(self.ask()),
            HealthKind::Tcp => Box::pin(self.connect()),
        };
        let check = async move {
            let result = result.await;
            // Otherwise nothing uses the server any more, or another one checks it.
            if let Some(checker) = weak.upgrade().filter(|own| own.counts()) {
                checker.report(result);
                Self::check_after(&weak, checker.config.every, &checker);
            }
        };
        // A loop that takes no futures is ending.
        drop(self.home().map(|home| home.spawn(check)));
    }

    /// Sends a request and looks at its response.
    fn ask(&self) -> impl Future<Output = Result<(), Fault>> + Send + 'static {
        let url = format!("{}{}", self.server.url, self.config.path);
        let request = self
            .server
            .client
            .get(url)
            .field("User-Agent", "tidegate-health");
        let sent = request.timeout(self.config.timeout).send();
        let (expected, text) = (self.config.status, self.config.body.clone());
        async move {
            let response = sent.await?;
            let status = response.status();
            if !(expected.low..=expected.high).contains(&status) {
                return Err(format!("status {status}").into());
            }
            let body = response.collect(LARGEST_BODY).await;
            match (body, text) {
                // Its length matters only where its text does.
                (Err(why), None) if is_too_large(&why) => Ok(()),
                (Err(why), _) => Err(why.into()),
                (Ok(_), None) => Ok(()),
                (Ok(body), Some(text)) if contains(&body, text.as_bytes()) => Ok(()),
                (Ok(_), Some(_)) => Err("the body lacks the text".to_owned().into()),
            }
        }
    }

    /// Makes a connection.
    fn connect(&self) -> impl Future<Output = Result<(), Fault>> + Send + 'static {
        let options = ChannelOptions {
            connect_timeout: self.config.timeout,
            ..ChannelOptions::default()
        };
        let mut client = NetClient::builder(&self.group).options(options);
        if !self.server.addresses.is_empty() {
            let addresses = self.server.addresses.clone();
            client = client.resolver(move |_, _| Completion::succeeded(addresses.clone()));
        }
        let client = client.build();
        let connecting = match (&self.server.at, self.home()) {
            (Address::Tcp { host, port }, Some(home)) => {
                client.connect_on(home, (host.as_str(), *port))
            }
            (Address::Tcp { host, port }, None) => client.connect((host.as_str(), *port)),
            (Address::Unix(path), _) => client.connect_unix(path),
        };
        async move {
            let channel = connecting.await?;
            drop(channel.close());
            Ok(())
        }
    }

    /// Counts a result, and changes the state of the server if it is time.
    fn report(&self, result: Result<(), Fault>) {
        if let Err(fault) = &result
            && fault.is_ours
        {
            let (upstream, label) = (&self.server.upstream, &self.server.label);
            let what = format!("upstream.{upstream} {label}: not checked: {}", fault.why);
            return self.server.reports.problems.report("descriptors", what);
        }
        let Checked {
            upstream,
            label,
            reports,
            state,
            ..
        } = &self.server;
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = results.add(result.is_ok(), state.is_up());
        drop(results);
        // Other checks may have begun meanwhile.
        if !changed.is_some_and(|is_up| state.set_up_by(self.number, is_up)) {
            return;
        }
        let what = match result {
            Ok(()) => format!("upstream.{upstream} {label}: is up"),
            Err(fault) => format!("upstream.{upstream} {label}: is down: {}", fault.why),
        };
        reports.change("health", what);
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker")
            .field("upstream", &self.server.upstream)
            .field("server", &self.server.label)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if the body is larger than we read.
fn is_too_large(why: &WaitError<Failure>) -> bool {
    let WaitError::Failed(why) = why else {
        return false;
    };
    let why = why.downcast_ref();
    why.is_some_and(|why: &ClientError| why.side() == Side::Caller)
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|some| some == text)
}
