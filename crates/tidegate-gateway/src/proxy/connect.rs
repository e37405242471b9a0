//! `CONNECT`: a tunnel to a server of the upstream, on a route that allows it. The host that the client
//! names selects the route, and nothing else: it never selects where the tunnel leads.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tidegate::http::{DeferredResponse, Response};
use tidegate::isolate::{Entry, Verdict};
use tidegate::net::{Channel, ChannelOptions, Client, Handler};
use tidegate::promise::{Completion, Outcome};

use super::answer::Answer;
use super::held::{Admission, Held};
use super::line::{Line, Passage};
use super::live::{ProxyRoute, RouteBasis, TunnelRoute};
use super::logged::{Done, End, Seen, log_local};
use super::reply;
use super::tunnel::{self, Hold, Relay};
use super::upstream::Chosen;
use crate::command::{Problem, Reason};
use crate::config::Address;

/// A request for a tunnel.
pub(super) struct Connecting {
    pub(super) route: Arc<RouteBasis>,
    /// The connection of the client.
    pub(super) client: Channel,
    pub(super) address: Option<IpAddr>,
    /// The host that the client named.
    pub(super) host: String,
    pub(super) home: usize,
    pub(super) began: u64,
}

impl Connecting {
    /// Opens the tunnel, or refuses it.
    pub(super) fn open(self, proxy: &ProxyRoute, tunnel: &TunnelRoute, response: Response<'_>) {
        let entry = match tunnel.command.admit() {
            Ok(entry) => entry,
            Err(error) => return self.refuse(Problem::from(&error), response),
        };
        let Some((chosen, lease)) = proxy.upstream.pick(self.home, None) else {
            // It says nothing about the health of a server.
            entry.verdict(Verdict::Ignored);
            return self.refuse(Reason::NoServer.into(), response);
        };
        let connected = self.connect(proxy, &chosen);
        let (back, idle) = (response.defer(), tunnel.idle);
        connected.finally(move |connected| match connected {
            Outcome::Success(server) => {
                entry.verdict(true);
                let held = Held {
                    admission: Admission::new(Some(entry), None),
                    lease,
                };
                self.begin(server.clone(), held, back, idle);
            }
            _ => self.failed(&entry, back),
        });
    }

    /// Makes the connection to the server.
    fn connect(&self, proxy: &ProxyRoute, chosen: &Chosen<Answer>) -> Completion<Channel> {
        let other = self.client.clone();
        let options = ChannelOptions {
            connect_timeout: proxy.upstream.connect_timeout(),
            ..ChannelOptions::default()
        };
        let client = Client::builder(self.route.gate.group()).options(options);
        let mut client = client.pipeline(move |pipeline| {
            let relay = Handler::inbound(Relay::waiting(other.clone()));
            pipeline.add_handler("relay", relay)
        });
        let (at, addresses) = chosen.place();
        if !addresses.is_empty() {
            let addresses = addresses.to_vec();
            client = client.resolver(move |_, _| Completion::succeeded(addresses.clone()));
        }
        let client = client.build();
        match (at, self.route.gate.event_loop(self.home)) {
            (Address::Tcp { host, port }, Some(home)) => {
                client.connect_on(home, (host.as_str(), *port))
            }
            (Address::Tcp { host, port }, None) => client.connect((host.as_str(), *port)),
            (Address::Unix(path), _) => client.connect_unix(path),
        }
    }

    /// Begins to pass bytes.
    fn begin(self, server: Channel, held: Held, back: DeferredResponse, idle: std::time::Duration) {
        let passage = self.passage();
        server.fire_event(Hold(Mutex::new(Some((held, passage.clone())))));
        tunnel::open(back.status(200), server.clone(), idle, passage);
        // Also if the client has left already.
        let closes = self.client.closed();
        closes.on_complete(move |_| drop(server.close()));
    }

    fn failed(self, entry: &Entry, back: DeferredResponse) {
        entry.verdict(Verdict::Failure);
        self.refuse(Reason::Connect.into(), back);
    }

    fn refuse(self, why: Problem, reply: impl reply::Reply) {
        self.route.counts.add(why.reason);
        self.log(End::Problem(why.reason, why.reason.status()));
        reply::refuse(why, &self.route.name, reply);
    }

    fn log(&self, end: End) {
        let to = (&*self.route.gate, &*self.route.log);
        let name = Some(&*self.route.name);
        log_local(to, (self.home, self.began), self.seen(), name, (end, false));
    }

    /// Returns the tunnel that has begun, for the log.
    fn passage(&self) -> Option<Arc<Passage>> {
        let mut done = Done::began(self.began);
        (done.status, done.times.first) = (200, Some(self.route.gate.now(self.home)));
        let to = (&self.route.gate, &self.route.log);
        let line = Line::new(to, (self.home, done), self.seen(), &self.route.name);
        line.map(Passage::new)
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            client: self.address,
            method: "CONNECT",
            host: &self.host,
            path: "",
            query: None,
        }
    }
}
