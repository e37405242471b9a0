//! `CONNECT`: a tunnel to a server of the upstream, on a route that allows it. The host that the client
//! names selects the route, and nothing else: it never selects where the tunnel leads.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::http::{DeferredResponse, Response};
use tidegate::isolate::{Entry, Verdict};
use tidegate::net::{Channel, ChannelOptions, Client, Handler, NetError};
use tidegate::promise::{Completion, Outcome};

use super::held::{Admission, Held};
use super::line::{Line, Passage};
use super::live::{ProxyRoute, RouteBasis, TunnelRoute};
use super::logged::{Done, End, Seen, log_local};
use super::out::{Leaving, Origin, Own, leave};
use super::reply::Reply;
use super::tunnel::{self, Hold, Relay};
use super::upstream::Chosen;
use crate::command::{Problem, Reason};
use crate::config::Address;
use crate::fields::RequestId;

/// A request for a tunnel.
pub(super) struct Connecting {
    pub(super) route: Arc<RouteBasis>,
    pub(super) id: RequestId,
    /// The connection of the client.
    pub(super) client: Channel,
    pub(super) address: Option<IpAddr>,
    /// The host that the client named.
    pub(super) host: String,
    pub(super) home: usize,
    pub(super) began: u64,
    /// The names of the upstream and of the server that was chosen, for the log.
    pub(super) passed: Option<[String; 2]>,
}

impl Connecting {
    /// Opens the tunnel, or refuses it.
    pub(super) fn open(mut self, proxy: &ProxyRoute, tunnel: &TunnelRoute, response: Response<'_>) {
        let entry = match tunnel.command.admit() {
            Ok(entry) => entry,
            Err(error) => return self.refuse(Problem::from(&error), response),
        };
        let Some((chosen, lease)) = proxy.upstream.pick(self.home, None) else {
            entry.verdict_unsampled(None);
            return self.refuse(Reason::NoServer.into(), response);
        };
        self.passed = Some([&*proxy.upstream.name, chosen.label()].map(str::to_owned));
        let limit = tunnel.command.timeout().unwrap_or(Duration::MAX);
        let connected = self.connect(proxy, &chosen, limit).share();
        let connected = connected.expect("nothing has taken the outcome");
        let (back, idle) = (response.defer(), tunnel.idle);
        // If the client leaves, nobody waits for the connection.
        let (closed, pending) = (self.client.closed(), connected.clone());
        let leaves = closed.listen(move |_| {
            pending.cancel();
        });
        connected.on_complete(move |connected| {
            drop(leaves);
            match connected {
                Outcome::Success(server) => {
                    entry.verdict(true);
                    let held = Held {
                        admission: Admission::new(entry, None),
                        _lease: lease,
                    };
                    self.begin(server.clone(), held, back, idle);
                }
                Outcome::Failure(why) if NetError::is_out_of_descriptors(why) => {
                    entry.verdict(Verdict::Ignored);
                    self.out_of_descriptors(&why.to_string(), back);
                }
                _ => self.failed(&entry, limit, back),
            }
        });
    }

    /// Makes the connection to the server, in the time of the route at most.
    fn connect(&self, proxy: &ProxyRoute, chosen: &Chosen, limit: Duration) -> Completion<Channel> {
        let other = self.client.clone();
        let options = ChannelOptions {
            connect_timeout: proxy.upstream.connect_timeout().min(limit),
            ..ChannelOptions::default()
        };
        let client = Client::builder(self.route.gate.group())
            .resolve_timeout(options.connect_timeout)
            .options(options);
        let mut client = client.pipeline(move |pipeline| {
            let relay = Handler::inbound(Relay::waiting(other.clone()));
            pipeline.add_handler("relay", relay)
        });
        let (at, addresses) = chosen.place();
        if let Some(find) = addresses.resolver() {
            client = client.resolver(move |_, _| find());
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

    /// Begins to pass bytes, unless the client has left.
    fn begin(self, server: Channel, held: Held, back: DeferredResponse, idle: Duration) {
        if back.is_closed() {
            server.close().on_complete(move |_| drop(held));
            return self.log(End::left(&self.route.gate, self.home), 0);
        }
        let passage = self.passage();
        server.fire_event(Hold(Mutex::new(Some((held, passage.clone())))));
        let head = Leaving::bare(Some(200), (&self.route.gate.ids, &self.id));
        let back = leave(Origin::Tunnel, &head, back);
        tunnel::open(back, server.clone(), idle, passage);
        // Also if the client has left already.
        let closes = self.client.closed();
        closes.on_complete(move |_| drop(server.close()));
    }

    /// Refuses the tunnel. The server is not the cause.
    fn out_of_descriptors(self, why: &str, back: DeferredResponse) {
        let problems = &self.route.gate.reports.problems;
        problems.report("descriptors", format!("route.{}: {why}", self.route.name));
        self.refuse(Reason::Descriptors.into(), back);
    }

    fn failed(self, entry: &Entry, limit: Duration, back: DeferredResponse) {
        if back.is_closed() {
            // Nobody waits for it, and the connection may have failed because the gateway ends.
            entry.verdict(Verdict::Ignored);
            return self.log(End::left(&self.route.gate, self.home), 0);
        }
        entry.verdict(Verdict::Failure);
        let now = self.route.gate.now(self.home);
        let reason = match Duration::from_nanos(now.saturating_sub(self.began)) >= limit {
            true => Reason::Timeout,
            false => Reason::Connect,
        };
        self.refuse(reason.into(), back);
    }

    fn refuse(self, why: Problem, reply: impl Reply) {
        self.route.counts.add(why.reason);
        let own = Own::problem(why, &self.route.name, None);
        let end = own.end;
        let sent = own.send((&self.route.gate.ids, &self.id), reply);
        self.log(end, sent);
    }

    fn log(&self, end: End, sent: usize) {
        if let Some(line) = self.line(Done::began(self.began)) {
            return line.write_end(end, sent);
        }
        let to = (&*self.route.gate, &*self.route.log);
        let name = Some(&*self.route.name);
        log_local(
            to,
            (self.home, self.began),
            self.seen(),
            name,
            (end, false, sent),
        );
    }

    /// Returns the line about a request for which a server was chosen.
    fn line(&self, mut done: Done) -> Option<Line> {
        let [upstream, server] = self.passed.as_ref()?;
        done.attempts = 1;
        let to = (&self.route.gate, &self.route.log);
        let line = Line::new(to, (self.home, done), self.seen(), &self.route.name)?;
        Some(line.passed(upstream, server))
    }

    /// Returns the tunnel that has begun, for the log.
    fn passage(&self) -> Option<Arc<Passage>> {
        let mut done = Done::began(self.began);
        (done.status, done.times.first) = (200, Some(self.route.gate.now(self.home)));
        self.line(done).map(Passage::new)
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            id: self.id.as_str(),
            client: self.address,
            method: "CONNECT",
            host: &self.host,
            path: "",
            query: None,
        }
    }
}
