//! The service of a client's connection: finds the route of a request, and responds or passes it on.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tidegate::http::codec::{
    EncodeError, KnownField, OwnedRequestHead, RefusalReason, RequestHead, TargetForm,
};
use tidegate::http::{Files, Method, Request, Response, Service};
use tidegate::isolate::{Entry, Event as Count, Verdict};
use tidegate::net::Channel;
use tidegate::net::handlers::ProxiedPeer;

use super::asked::Asked;
use super::connect::Connecting;
use super::find::{NoRoute, find};
use super::flight::{Flight, FlightData, Start, Tries};
use super::flights::Flights;
use super::gate::Gate;
use super::held::Wanted;
use super::line::Line;
use super::live::{Action, Fallback, ProxyRoute, RouteState, TunnelRoute};
use super::lives::Lives;
use super::logged::{Done, End, Original, Seen, log_local};
use super::out::{Leaving, Origin, Own, leave};
use super::step::{Event, Kind};
use super::tunnel;
use crate::command::{Problem, Reason};
use crate::config::Network;
use crate::config::types::{Log, Redirect};
use crate::fields::{self, Fresh, Ids, Options, Peer, RequestId};
use crate::route::without_port;

/// What a listener knows about its clients.
pub(crate) struct Front {
    /// The peers whose forwarded fields are kept.
    pub(crate) trust: Vec<Network>,
    /// The connections are encrypted.
    pub(crate) secure: bool,
    /// The address of the client comes from the PROXY protocol.
    pub(crate) proxied: bool,
    /// The largest body of a request whose route has no limit of its own.
    pub(crate) most_body: u64,
}

impl Front {
    /// Returns the address of the client.
    fn peer(&self, channel: &Channel) -> Option<SocketAddr> {
        let own = channel.peer_addr();
        if !self.proxied {
            return own;
        }
        let named = channel.attribute::<ProxiedPeer>();
        let named = named.and_then(|peer| peer.addresses);
        named.map(|(client, _)| client).or(own)
    }

    /// Returns `true` if the peer of a connection is trusted.
    fn trusts_peer_of(&self, channel: &Channel) -> bool {
        !self.trust.is_empty() && self.trusts(self.peer(channel))
    }

    fn trusts(&self, peer: Option<SocketAddr>) -> bool {
        let inside = |peer: SocketAddr| self.trust.iter().any(|some| some.contains(peer.ip()));
        peer.is_some_and(inside)
    }
}

/// The service of one connection. When the connection ends, so do the requests that it has begun.
pub(crate) struct ProxyService {
    lives: Arc<Lives>,
    asked: Asked,
    caller: Caller,
}

/// The client's side of a connection.
struct Caller {
    front: Arc<Front>,
    /// The number of the connection's loop.
    home: Option<usize>,
    /// What the gateway knows about the client, once it has sent a request.
    peer: Option<Peer>,
    /// The ids of requests that are not passed on.
    fresh: Fresh,
    /// The requests that are passed on, once there was one.
    flights: Option<Arc<Flights<FlightData>>>,
    /// Why the server ends the connection, unless it is the client that leaves.
    cut: Option<Reason>,
}

/// A request and what was found out about it.
struct Found<'a, 'h> {
    request: Request<'a>,
    /// The host that the client asks for, with its port.
    host: &'h str,
    /// The path in normal form.
    path: Cow<'a, [u8]>,
    home: usize,
    /// When the head was received.
    began: u64,
    /// The largest body that the request may have.
    most_body: u64,
}

impl Found<'_, '_> {
    /// Returns the path as a text.
    fn path(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.path)
    }
}

impl ProxyService {
    pub(crate) fn new(lives: &Arc<Lives>, front: &Arc<Front>) -> Self {
        Self {
            lives: Arc::clone(lives),
            asked: Asked::default(),
            caller: Caller {
                front: Arc::clone(front),
                home: None,
                peer: None,
                fresh: Fresh::default(),
                flights: None,
                cut: None,
            },
        }
    }
}

/// Returns the host and the path of a request, if the route changes them: the log shows those of the
/// client.
fn original(route: &RouteState, found: &Found<'_, '_>) -> Option<Original> {
    route.rewriting.changes_target().then(|| {
        let head = found.request.head();
        let host = without_port(head.authority().unwrap_or_default());
        Original::new(host, head.path())
    })
}

impl Caller {
    /// Returns the number of the connection's loop.
    fn home(&mut self, gate: &Gate) -> usize {
        *self.home.get_or_insert_with(|| gate.home())
    }

    /// Returns the address of the client.
    fn address(&self, channel: &Channel) -> Option<IpAddr> {
        self.front.peer(channel).map(|peer| peer.ip())
    }

    /// Returns the id of a request to which the gateway itself responds.
    fn id(&mut self, request: &Request<'_>, ids: &Ids) -> RequestId {
        let trusted = self.front.trusts_peer_of(request.channel());
        self.fresh.id(&request.head(), trusted, ids)
    }

    /// Passes a request on. The command admits it before anything is allocated for it.
    fn pass_on(
        &mut self,
        route: &RouteState,
        proxy: &Arc<ProxyRoute>,
        found: Found<'_, '_>,
        response: Response<'_>,
    ) {
        let upgrade = proxy.upgrade(found.request.upgrade());
        let tunnel = upgrade.as_ref().map(|(tunnel, _)| *tunnel);
        let mut tries = proxy.begin_tries().filter(|_| tunnel.is_none());
        let has_body = !found.request.head().framing().is_empty();
        let first = first_step(proxy, tunnel, tries.as_mut(), has_body);
        if let First::Refused(why) = first
            && (tunnel.is_some() || proxy.fallback_route().is_none())
        {
            return self.refuse(why, route, proxy, &found, response);
        }
        let mut prepared = self.prepare(route, &found);
        if let (Some((_, protocols)), Ok((head, _))) = (&upgrade, &mut prepared)
            && let Err(why) = tunnel::ask(head, protocols)
        {
            prepared = Err(why);
        }
        let (head, request_id) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                if let First::Admitted(entry) = first {
                    entry.verdict_unsampled(Some(Verdict::Ignored));
                }
                return self.refuse_head(why, route, &found, response);
            }
        };
        let (home, began) = (found.home, found.began);
        let until = proxy.until(began, tunnel);
        let wanted = upgrade.map(|(tunnel, protocols)| {
            Box::new(Wanted {
                client: found.request.channel().clone(),
                idle: tunnel.idle,
                protocols,
            })
        });
        let original = original(route, &found);
        let start = Start {
            kind: Kind::of(found.request.method()),
            head,
            request_id,
            client: self.peer.as_ref().and_then(|peer| peer.ip),
            original,
            options: Options::of_request(&found.request.head()),
            most_body: found.most_body,
            body: has_body.then(|| found.request.into_body()),
            back: response.defer(),
            tries,
            tunnel: wanted,
            began,
            until,
        };
        let gate = &route.gate;
        let flights = self.flights.get_or_insert_with(|| Flights::new(gate, home));
        let flight = Flight::begin(proxy, flights, start);
        flights.add(&flight, until);
        match first {
            // It has not waited, so no time has passed since it began.
            First::Admitted(entry) => flight.connect(1, entry, began),
            First::Refused(problem) => flight.handle(Some(1), Event::Denied(problem)),
            First::Asks => flight.handle(None, Event::Begin),
        }
    }

    /// Refuses a request whose head cannot be passed on.
    fn refuse_head(
        &mut self,
        why: EncodeError,
        route: &RouteState,
        found: &Found<'_, '_>,
        response: Response<'_>,
    ) {
        let status = match why {
            EncodeError::HeadTooLarge => 431,
            _ => 400,
        };
        let why = ("head", status, "the head cannot be passed on\n");
        self.respond(found, route, Own::mistake(why), response);
    }

    /// Refuses a request that has no route.
    #[cold]
    fn refuse_unrouted(
        &mut self,
        why: NoRoute,
        request: &Request<'_>,
        (gate, settings): (&Gate, &Log),
        place: (usize, u64),
        response: Response<'_>,
    ) {
        let own = Own::mistake((why.word, why.status, why.text));
        self.send((gate, settings, None), place, request, own, response);
    }

    /// Responds to a request that is not passed on, and logs it.
    fn respond(
        &mut self,
        found: &Found<'_, '_>,
        route: &RouteState,
        own: Own<'_>,
        response: Response<'_>,
    ) {
        let to = (&*route.gate, &*route.log, Some(route.name.as_str()));
        let place = (found.home, found.began);
        self.send(to, place, &found.request, own, response);
    }

    /// Sends a response of the gateway itself, and logs it.
    fn send(
        &mut self,
        (gate, settings, route): (&Gate, &Log, Option<&str>),
        place: (usize, u64),
        request: &Request<'_>,
        own: Own<'_>,
        response: Response<'_>,
    ) {
        let id = self.id(request, &gate.ids);
        let client = self.address(request.channel());
        let (end, is_fallback) = (own.end, own.is_fallback);
        let sent = own.send((&gate.ids, &id), response);
        let seen = Seen::new(&request.head(), client, id.as_str());
        let end = (end, is_fallback, sent);
        log_local((gate, settings), place, seen, route, end);
    }

    /// Redirects the client to another address.
    fn redirect(
        &mut self,
        redirect: &Redirect,
        route: &RouteState,
        found: &Found<'_, '_>,
        response: Response<'_>,
    ) {
        let query = found.request.head().query();
        let location = fields::location(&redirect.to, found.host, &found.path(), query);
        let own = Own::redirect(redirect.status.0, location);
        self.respond(found, route, own, response);
    }

    /// Responds to a request whose method is special, unless it is passed on: then it is returned.
    #[cold]
    fn end_special<'a, 'h, 'r>(
        &mut self,
        route: &RouteState,
        proxy: &ProxyRoute,
        found: Found<'a, 'h>,
        response: Response<'r>,
    ) -> Option<(Found<'a, 'h>, Response<'r>)> {
        let head = found.request.head();
        match head.method() {
            Method::Connect => self.open_tunnel(route, proxy, &found, response),
            _ if fields::hops_left(&head) == Some(0) => self.end_here(route, &found, response),
            _ => return Some((found, response)),
        }
        None
    }

    /// Responds to an `OPTIONS` or a `TRACE` that may not be passed on.
    fn end_here(&mut self, route: &RouteState, found: &Found<'_, '_>, response: Response<'_>) {
        let own = match found.request.method() {
            // What was received is not shown: a proxy in front may have added what the client must not
            // know.
            Method::Trace => Own::mistake(("method", 501, "the gateway does not answer TRACE\n")),
            _ => Own::empty(),
        };
        self.respond(found, route, own, response);
    }

    /// Opens the tunnel of a `CONNECT`. Its route names the method, so it has a tunnel.
    fn open_tunnel(
        &mut self,
        route: &RouteState,
        proxy: &ProxyRoute,
        found: &Found<'_, '_>,
        response: Response<'_>,
    ) {
        let Some(tunnel) = &proxy.tunnel else {
            let own = Own::mistake(("method", 405, "CONNECT is not allowed\n"));
            return self.respond(found, route, own, response);
        };
        let head = found.request.head();
        let connecting = Connecting {
            route: Arc::clone(&route.basis),
            id: self.id(&found.request, &route.gate.ids),
            client: found.request.channel().clone(),
            address: self.address(found.request.channel()),
            host: without_port(head.authority().unwrap_or_default()).to_owned(),
            home: found.home,
            began: found.began,
            passed: None,
        };
        connecting.open(proxy, tunnel, response);
    }

    /// Refuses a request that was not admitted, without a flight.
    fn refuse(
        &mut self,
        why: Problem,
        route: &RouteState,
        proxy: &ProxyRoute,
        found: &Found<'_, '_>,
        response: Response<'_>,
    ) {
        route.counts.add(why.reason);
        let fixed = match &proxy.fallback {
            Some(Fallback::Fixed(fixed)) => Some(fixed),
            _ => None,
        };
        if fixed.is_some() {
            proxy.command.count(Count::FallbackSuccess);
        }
        let own = Own::problem(why, &route.name, fixed);
        self.respond(found, route, own, response);
    }

    /// Sends a file. The log has its line when the response is handed to the connection.
    fn send_file(
        &mut self,
        files: &Files,
        route: &RouteState,
        found: Found<'_, '_>,
        response: Response<'_>,
    ) {
        let id = self.id(&found.request, &route.gate.ids);
        let leaving = Leaving::bare(None, (&route.gate.ids, &id));
        let response = leave(Origin::File, &leaving, response);
        let client = self.address(found.request.channel());
        let head = found.request.head();
        let seen = Seen::new(&head, client, id.as_str());
        let place = (found.home, Done::began(found.began));
        let line = Line::new((&route.gate, &route.log), place, seen, &route.name);
        let path = String::from_utf8_lossy(&found.path);
        let place = (&*path, route.path.before_file(&path));
        files.respond_at(place, found.request, response, |status, length, error| {
            if let Some(line) = line {
                line.write_response(status, length, error);
            }
        });
    }

    /// Makes the head that is sent to a server. Returns it and the id of the request.
    fn prepare(
        &mut self,
        route: &RouteState,
        found: &Found<'_, '_>,
    ) -> Result<(OwnedRequestHead, RequestId), EncodeError> {
        let front = &self.front;
        let peer = self.peer.get_or_insert_with(|| {
            let peer = front.peer(found.request.channel());
            Peer::new(peer, front.trusts(peer), front.secure)
        });
        let host = found.host;
        let received = found.request.head();
        let (mut head, id) = fields::forward(&received, peer, host, &route.gate.ids)?;
        if peer.has_new_claims() {
            route.gate.report_claims(peer.ip);
        }
        if fields::has_hops(received.method()) {
            fields::take_hop(&mut head)?;
        }
        // The host that routes have seen. A target may name another one than the field, and an old
        // client may name none.
        let host = match host {
            "" => route.name.as_str(),
            host => host,
        };
        if head.as_head().known(KnownField::Host) != Some(host.as_bytes()) {
            head.replace("Host", host.as_bytes())?;
        }
        // A path in normal form is borrowed from the head.
        let is_as_received = match received.form() {
            TargetForm::Origin => matches!(found.path, Cow::Borrowed(_)),
            form => form == TargetForm::Asterisk,
        };
        let rewriting = &route.rewriting;
        if !is_as_received || !rewriting.is_empty() {
            rewriting.request(&mut head, &route.path, &found.path())?;
        }
        Ok((head, id))
    }
}

impl Service for ProxyService {
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        let Self {
            lives,
            asked,
            caller,
        } = self;
        let home = caller.home(&lives.gate);
        let began = lives.gate.now(home);
        let live = lives.live(home);
        let head = request.head();
        let (host, name) = asked.host(&head);
        let (route, path) = match find(&live, &head, name) {
            Ok(found) => found,
            Err(why) => {
                let to = (&*lives.gate, &live.config.log);
                return caller.refuse_unrouted(why, &request, to, (home, began), response);
            }
        };
        let found = Found {
            request,
            host,
            path,
            home,
            began,
            most_body: route.body.unwrap_or(caller.front.most_body),
        };
        let length = found.request.content_length();
        if length.is_some_and(|length| length > found.most_body) {
            let own = Own::mistake(("body", 413, "the body is too large\n"));
            return caller.respond(&found, route, own, response);
        }
        match &route.action {
            Action::Proxy(proxy) => {
                let is_special = is_special(head.method());
                let passes = match is_special {
                    true => caller.end_special(route, proxy, found, response),
                    false => Some((found, response)),
                };
                // One call, so that it is part of this function: nearly all requests take this way.
                if let Some((found, response)) = passes {
                    caller.pass_on(route, proxy, found, response);
                }
            }
            Action::Redirect(redirect) => caller.redirect(redirect, route, &found, response),
            Action::Respond(fixed) => {
                caller.respond(&found, route, Own::fixed(fixed), response);
            }
            Action::Files(files) => caller.send_file(files, route, found, response),
        }
    }

    fn refused(
        &mut self,
        reason: RefusalReason,
        method: Option<Method<'_>>,
        head: Option<&RequestHead<'_>>,
        channel: &Channel,
    ) {
        let Self { lives, caller, .. } = self;
        let home = caller.home(&lives.gate);
        let client = caller.address(channel);
        let unknown = Seen {
            client,
            method: method.map_or("", Method::as_str),
            ..Seen::default()
        };
        let seen = head.map_or(unknown, |head| Seen::new(head, client, ""));
        let live = lives.live(home);
        let to = (&*lives.gate, &live.config.log);
        let end = End::Refused(reason.word(), reason.status());
        log_local(
            to,
            (home, lives.gate.now(home)),
            seen,
            None,
            (end, false, 0),
        );
    }

    fn slow_reader(&mut self) {
        self.caller.cut = Some(Reason::SlowReader);
    }
}

/// Returns `true` if requests with this method are not always passed on.
#[inline]
fn is_special(method: Method<'_>) -> bool {
    method == Method::Connect || fields::has_hops(method)
}

/// The client has left, or the server has closed the connection.
impl Drop for ProxyService {
    fn drop(&mut self) {
        if let Some(flights) = &self.caller.flights {
            flights.abandon(self.caller.cut);
        }
    }
}

/// How a request begins.
enum First {
    Admitted(Entry),
    Refused(Problem),
    /// It may have to wait for its admission.
    Asks,
}

/// Asks for the admission of the first attempt, unless it may have to wait.
fn first_step(
    proxy: &ProxyRoute,
    tunnel: Option<&TunnelRoute>,
    tries: Option<&mut Tries>,
    has_body: bool,
) -> First {
    let admitted = match tunnel {
        Some(tunnel) => tunnel.command.admit(),
        None if proxy.waits => return First::Asks,
        None => proxy.admit(has_body, tries),
    };
    match admitted {
        Ok(entry) => First::Admitted(entry),
        Err(error) => First::Refused(Problem::from(&error)),
    }
}
