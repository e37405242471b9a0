//! The checks of one server. They run on one loop and block nothing.
//!
//! A check ends before the next one begins. The first ones of the servers of an upstream are spread
//! over the time between two checks. They end when the checker is dropped, when another one of the same
//! server begins, and when the server forgets its checker, because the settings in force do not have the
//! server any more: requests that have begun before a reload keep the old checker for long.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidegate::http::client::{Client as HttpClient, ClientError, Side};
use tidegate::loops::EventLoop;
use tidegate::net::{ChannelOptions, Client as NetClient, NetError, NetGroup};
use tidegate::promise::{Completion, Failure, WaitError};
use tidegate_core::internal::lock;

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
    /// The number of its checks, another one each time that they begin; 0 before that.
    number: AtomicU64,
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
            number: AtomicU64::new(0),
            first: config.every / parts * part,
            results: Mutex::new(Thresholds::new(config.up.0, config.down.0)),
        })
    }

    /// Begins the checks, unless they run. Those of another checker of the same server end. Called under
    /// the lock of the settings in force.
    pub(crate) fn begin(self: &Arc<Self>) {
        let number = self.number.load(Ordering::Relaxed);
        if number == 0 || !self.counts(number) {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            self.number.store(number, Ordering::Relaxed);
            self.server.state.set_checker(number);
            Self::check_after(&Arc::downgrade(self), (self.first, number), self);
        }
    }

    /// Returns `true` until other checks of the same server begin, or the server forgets these.
    fn counts(&self, number: u64) -> bool {
        self.server.state.is_checked_by(number)
    }

    fn home(&self) -> Option<&EventLoop> {
        self.group.loops().iter().nth(self.home)
    }

    fn check_after(weak: &Weak<Self>, (after, number): (Duration, u64), this: &Self) {
        let weak = weak.clone();
        let check = move || {
            if let Some(checker) = weak.upgrade().filter(|own| own.counts(number)) {
                checker.check(number);
            }
        };
        // A loop that takes no timers is ending.
        drop(this.home().map(|home| home.schedule_coarse(after, check)));
    }

    /// Begins a check. When it has ended, the next one is due after the time between two.
    fn check(self: Arc<Self>, number: u64) {
        let weak = Arc::downgrade(&self);
        let result: Pending = match self.config.kind {
            HealthKind::Http => Box::pin(self.ask()),
            HealthKind::Tcp => Box::pin(self.connect()),
        };
        let check = async move {
            let result = result.await;
            // Otherwise nothing uses the server any more, or it is checked by others or not at all.
            if let Some(checker) = weak.upgrade().filter(|own| own.counts(number)) {
                checker.report(number, result);
                Self::check_after(&weak, (checker.config.every, number), &checker);
            }
        };
        // A loop that takes no futures is ending.
        drop(self.home().map(|home| home.spawn(check)));
    }

    /// Sends a request and looks at its response.
    fn ask(&self) -> impl Future<Output = Result<(), Fault>> + Send + 'static {
        let url = format!("{}{}", self.server.url, *self.config.path);
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

    /// Returns a message about a check in which a variable of the path is as it is in the file.
    fn hide_in(&self, message: &str) -> String {
        // The path of the URL ends before its query, or at the next space.
        let before_query = |text: &str| format!("{} ", text.split('?').next().unwrap_or_default());
        let (path, written) = (&self.config.path, self.config.path.to_string());
        message.replacen(&before_query(path), &before_query(&written), 1)
    }

    /// Counts a result, and changes the state of the server if it is time.
    fn report(&self, number: u64, result: Result<(), Fault>) {
        if let Err(fault) = &result
            && fault.is_ours
        {
            let (upstream, label) = (&self.server.upstream, &self.server.label);
            let why = self.hide_in(&fault.why);
            let what = format!("upstream.{upstream} {label}: not checked: {why}");
            return self.server.reports.problems.report("descriptors", what);
        }
        let Checked {
            upstream,
            label,
            reports,
            state,
            ..
        } = &self.server;
        let mut results = lock(&self.results);
        let changed = results.add(result.is_ok(), state.is_up());
        drop(results);
        // Other checks may have begun meanwhile.
        if !changed.is_some_and(|is_up| state.set_up_by(number, is_up)) {
            return;
        }
        let what = match result {
            Ok(()) => format!("upstream.{upstream} {label}: is up"),
            Err(fault) => {
                let why = self.hide_in(&fault.why);
                format!("upstream.{upstream} {label}: is down: {why}")
            }
        };
        reports.change("health", what);
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

#[cfg(test)]
mod tests {
    //! Checks that end and begin again.

    use tidegate::ManualClock;
    use tidegate_net::internal::LocalNetwork;

    use super::*;
    use crate::config::tests::config_of;

    /// A reload may have taken over a checker before a lookup in the settings then in force ended its
    /// checks.
    #[test]
    fn checks_that_have_ended_begin_again() {
        let network = LocalNetwork::new();
        let listener = network.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = listener.local_addr();
        let config = config_of(&format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\n\
             [upstream.back]\nservers = \"{at}\"\nhealth = {{ kind = \"tcp\", every = \"1s\" }}\n"
        ));
        let upstream = &config.upstreams[0].value;
        let clock = ManualClock::new();
        let group = NetGroup::builder("checks").loops(1).clock(&clock);
        let group = group.local_network(&network).build().unwrap();
        let state = ServerState::new(1, None);
        let server = Checked {
            upstream: "back".to_owned(),
            at: upstream.servers[0].at.clone(),
            addresses: Vec::new(),
            label: Arc::from("back"),
            state: state.clone(),
            client: HttpClient::builder(&group).build(),
            url: String::new(),
            reports: Reports::new((&clock).into()),
        };
        let health = upstream.health.as_ref().unwrap();
        let checker = Checker::new(server, health, &group, (0, 1));
        let is_checked = || {
            clock.advance(Duration::from_secs(1));
            listener.try_accept().is_ok()
        };
        checker.begin();
        tidegate_testkit::until("it is checked", is_checked);
        state.downgrade().forget_checker();
        // No check is in progress any more.
        let turn = group.loops().next().submit(|| ());
        turn.unwrap().wait().unwrap();
        while listener.try_accept().is_ok() {}
        checker.begin();
        tidegate_testkit::until("it is checked again", is_checked);
    }
}
