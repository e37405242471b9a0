//! The real gateway, over pairs of channels within this process, does what the steps alone say: which servers
//! get a request, in which order, and what its client gets. The servers do anything, by seeds.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use tidegate::ManualClock;
use tidegate::http::client::Flow;
use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate_net::internal::{LocalListener, LocalNetwork, LocalSocket};
use tidegate_testkit::{Rng, model, short_or_long, until};

use super::step::{
    Action, Actions, Ending, Event, Failure, Kind, Reply, Request, Terms, Upload, step,
};
use crate::command::Reason;
use crate::config::tests::config_of;
use crate::serve::Gateway;

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server does with a request that it has read.
#[derive(Clone, Copy, Debug)]
enum Does {
    Serves(u16),
    /// It closes the connection.
    Drops,
    /// The same, within the head, or within the body.
    Begins,
    Cuts,
    /// It sends something that is not a response.
    Babbles,
}

/// A request and its servers.
#[derive(Debug)]
struct Script {
    method: &'static str,
    kind: Kind,
    has_body: bool,
    retries: u32,
    fallback: &'static str,
    /// The first one, the second one, and so on.
    servers: [Does; 5],
}

/// What has become of the request.
#[derive(Debug, PartialEq)]
struct Became {
    /// The upstreams that got it: `true` is that of the fallback.
    servers: Vec<bool>,
    status: u16,
    word: Option<&'static str>,
    is_whole: bool,
}

impl Script {
    fn any(rng: &mut Rng) -> Self {
        let (method, kind) = [
            ("GET", Kind::Safe),
            ("PUT", Kind::Idempotent),
            ("POST", Kind::Unsafe),
        ][rng.index(3)];
        let mut does = || {
            use Does::{Babbles, Begins, Cuts, Drops, Serves};
            [
                Serves(200),
                Serves(500),
                Drops,
                Drops,
                Begins,
                Cuts,
                Babbles,
            ][rng.index(7)]
        };
        let servers = std::array::from_fn(|_| does());
        Self {
            method,
            kind,
            servers,
            has_body: rng.chance(0.4),
            retries: rng.below(3) as u32,
            fallback: ["", "status = 299", "upstream = \"spare\""][rng.index(3)],
        }
    }
}

/// The steps alone.
struct Alone<'s> {
    script: &'s Script,
    request: Request,
    retries: u32,
    servers: Vec<bool>,
    end: Option<Ending>,
}

impl<'s> Alone<'s> {
    fn run(script: &'s Script) -> Became {
        let terms = Terms {
            kind: script.kind,
            retries: script.retries > 0,
            fallback: script.fallback.starts_with("upstream"),
            fallback_nanos: 0,
            most_body: u64::MAX,
        };
        let upload = match script.has_body {
            true => Upload::Flowing { blocked: false },
            false => Upload::None,
        };
        let mut alone = Self {
            script,
            request: Request::new(terms, upload, 1, u64::MAX),
            retries: script.retries,
            servers: Vec::new(),
            end: None,
        };
        alone.handle(1, Event::Begin);
        let fell_back = alone.request.fell_back().map(Reason::word);
        let (is_fixed, reply) = (script.fallback.starts_with("status"), alone.request.reply());
        let (status, word) = match alone.end.expect("it has ended") {
            Ending::Problem(problem) if reply == Reply::Owed => {
                let status = if is_fixed {
                    299
                } else {
                    problem.reason.status()
                };
                (status, Some(problem.reason.word()))
            }
            _ => (alone.request.status(), fell_back),
        };
        Became {
            servers: alone.servers,
            status,
            word,
            is_whole: reply != Reply::Streaming || alone.end == Some(Ending::Served),
        }
    }

    fn handle(&mut self, attempt: u32, event: Event) {
        let actions = self.tell(attempt, event);
        for action in [actions.first, actions.then] {
            self.act(actions.attempt, action);
        }
    }

    fn tell(&mut self, attempt: u32, event: Event) -> Actions {
        step(&mut self.request, Some(attempt), event, || 2)
    }

    fn act(&mut self, attempt: u32, action: Action) {
        match action {
            Action::Admit => self.handle(attempt, Event::Admitted),
            Action::Pick => self.handle(attempt, Event::Picked { connected: false }),
            Action::Search => self.handle(attempt, Event::Connected),
            Action::Begin => {
                let turn = self.servers.len();
                self.servers.push(self.request.fell_back().is_some());
                self.handle(attempt, Event::Begun);
                self.serve(attempt, self.script.servers[turn]);
            }
            Action::Pump => {
                let read = Event::Received {
                    bytes: 2,
                    kept: true,
                };
                self.handle(attempt, read);
                self.handle(attempt, Event::BodyEnded);
            }
            Action::Write => self.handle(attempt, Event::Written(Flow::More)),
            Action::Retry(reason) => {
                let pause = self.retries.checked_sub(1);
                self.retries = pause.unwrap_or(0);
                let pause = pause.map(|_| Duration::ZERO);
                self.handle(attempt, Event::Retried(reason, pause));
            }
            Action::Free(pause) => self.handle(attempt, Event::Freed(pause)),
            Action::Turn(problem, _) => {
                self.handle(attempt, Event::Turned(problem, true));
                self.handle(attempt + 1, Event::Admitted);
            }
            Action::End(ending) => self.end = Some(ending),
            _ => {}
        }
    }

    fn serve(&mut self, attempt: u32, does: Does) {
        let head = |status, ends| Event::Head {
            status,
            passed: 0,
            ends,
        };
        let failure = |reason, silent| {
            Event::Failed(Failure {
                reason,
                sent: true,
                stale: false,
                safe: false,
                silent,
            })
        };
        match does {
            Does::Serves(status) => {
                self.handle(attempt, head(status, true));
                self.handle(attempt, Event::Responded);
            }
            Does::Drops => self.handle(attempt, failure(Reason::Closed, true)),
            Does::Begins => self.handle(attempt, failure(Reason::Closed, false)),
            Does::Babbles => self.handle(attempt, failure(Reason::BadResponse, false)),
            Does::Cuts => {
                self.handle(attempt, head(200, false));
                self.handle(attempt, failure(Reason::Closed, false));
            }
        }
    }
}

/// Runs the script with the real gateway.
fn run_real(script: &Script) -> Became {
    let (network, clock) = (LocalNetwork::new(), ManualClock::new());
    let bind = || network.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let backs = [bind(), bind()];
    let group = NetGroup::builder("real").loops(1).clock(&clock);
    let group = group.local_network(&network).build().unwrap();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let config = config_of(&text(script, &backs));
    let gateway = Gateway::start(config, &group, &isolation).unwrap();
    let to = gateway.addresses()[0].1.parse().unwrap();
    let mut client = patient(network.connect(to).unwrap());
    let (length, body) = match script.has_body {
        true => ("Content-Length: 2\r\n", "ab"),
        false => ("", ""),
    };
    let method = script.method;
    let fields = format!("Host: a\r\n{length}Connection: close");
    let sent = format!("{method} /a HTTP/1.1\r\n{fields}\r\n\r\n{body}");
    client.write_all(sent.as_bytes()).unwrap();
    let mut servers = Vec::new();
    until("the client gets its response", || {
        for (at, back) in backs.iter().enumerate() {
            if let Ok(peer) = back.try_accept() {
                serve(patient(peer), body, script.servers[servers.len()]);
                servers.push(at == 1);
            }
        }
        client.wait_readable(Duration::ZERO)
    });
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    let got = String::from_utf8(got).unwrap();
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    let value = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let said = value(Reason::FAILED).or(value(Reason::REFUSED));
    let said = said.map(|value| value.split(' ').next().unwrap());
    let length: usize = value("Content-Length").unwrap().parse().unwrap();
    Became {
        servers,
        status: head[9..12].parse().unwrap(),
        word: Reason::ALL
            .map(Reason::word)
            .into_iter()
            .find(|own| Some(*own) == said),
        is_whole: body.len() == length,
    }
}

fn text(script: &Script, backs: &[LocalListener; 2]) -> String {
    let [back, spare] = backs.each_ref().map(LocalListener::local_addr);
    let (retries, fallback) = (script.retries, script.fallback);
    let retry = match retries {
        0 => String::new(),
        _ => format!("retry = {{ times = {retries}, budget = 1.0 }}\n"),
    };
    let fallback = match fallback {
        "" => String::new(),
        _ => format!("fallback = {{ {fallback} }}\n"),
    };
    format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[upstream.back]\nservers = \"{back}\"\n\
         [upstream.spare]\nservers = \"{spare}\"\n\
         [route.spare]\npath = \"/spare\"\nupstream = \"spare\"\n\
         [route.own]\nupstream = \"back\"\n{retry}{fallback}"
    )
}

/// Returns a connection that does not wait for ever.
fn patient(stream: LocalSocket) -> LocalSocket {
    stream.set_timeout(Some(PATIENCE));
    stream
}

/// Reads a request with this body, and does what the script says.
fn serve(mut peer: LocalSocket, body: &str, does: Does) {
    let (mut got, end) = (Vec::new(), format!("\r\n\r\n{body}"));
    while !got.ends_with(end.as_bytes()) {
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    let said = match does {
        Does::Serves(status) => {
            format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        }
        Does::Drops => String::new(),
        Does::Begins => "HTTP/1.1 200".to_owned(),
        Does::Cuts => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_owned(),
        Does::Babbles => "what?\r\n\r\n".to_owned(),
    };
    peer.write_all(said.as_bytes()).unwrap();
}

#[test]
fn the_real_gateway_does_what_the_steps_alone_say() {
    model(0..short_or_long(60, 3000), |rng| {
        let script = Script::any(rng);
        assert_eq!(run_real(&script), Alone::run(&script), "{script:?}");
    });
}
