//! Where a deferred response ends: on the event loop of its connection, whose channel takes it there
//! without its mailbox, on another loop, on a thread, in a future. The client cannot tell.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tidegate_http::{DeferredResponse, HttpServer, Request, Response, ResponseStream, serve};
use tidegate_loop::EventLoop;
use tidegate_net::{NetGroup, pinned};
use tidegate_testkit::{Counter, Rng, model, short_or_long, until};

use crate::{Client, dial, get};

/// A response that waits for its end, with the path of its request.
type Waiting = (String, DeferredResponse);

/// What a call of the service does first.
type Act = Box<dyn FnOnce() + Send>;

/// Where responses end.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a task of the loop of their connection.
    Home,
    /// In a call of the service for another connection of that loop.
    Service,
    /// When a promise of that loop completes.
    Listener,
    /// In a task of another loop.
    Away,
    Thread,
    Future,
}

const PLACES: [Place; 6] = [
    Place::Home,
    Place::Service,
    Place::Listener,
    Place::Away,
    Place::Thread,
    Place::Future,
];

/// A server whose responses wait until a test ends them.
struct Deferring {
    group: NetGroup,
    away: NetGroup,
    server: HttpServer,
    waiting: Arc<Mutex<VecDeque<Waiting>>>,
    /// What the next request to `/now` does first.
    next: Arc<Mutex<Option<Act>>>,
}

impl Deferring {
    fn new() -> Self {
        let group = pinned("web", 1).unwrap();
        let waiting = Arc::<Mutex<VecDeque<Waiting>>>::default();
        let next = Arc::<Mutex<Option<Act>>>::default();
        let (all, act) = (Arc::clone(&waiting), Arc::clone(&next));
        let service = move |request: Request<'_>, response: Response<'_>| {
            if request.path() == "/now" {
                let act = act.lock().unwrap().take();
                act.into_iter().for_each(|act| act());
                return response.body("now");
            }
            let waiting = (request.path().to_owned(), response.defer());
            all.lock().unwrap().push_back(waiting);
        };
        let server = serve(&group, "127.0.0.1:0", service).wait().unwrap();
        Self {
            group,
            away: pinned("away", 1).unwrap(),
            server,
            waiting,
            next,
        }
    }

    fn connect(&self) -> Client {
        Client::connect(self.server.local_addr())
    }

    fn home(&self) -> &EventLoop {
        self.group.loops().next()
    }

    /// Waits for so many requests, and takes them.
    fn take(&self, number: usize) -> Vec<Waiting> {
        until("the requests have come", || {
            self.waiting.lock().unwrap().len() >= number
        });
        self.waiting.lock().unwrap().drain(..).collect()
    }

    /// Runs `end` at a place, and returns when it has run.
    fn run(&self, place: Place, end: impl FnOnce() + Send + 'static) {
        match place {
            Place::Home => self.home().submit(end).unwrap().wait().unwrap(),
            Place::Away => {
                let away = self.away.loops().next();
                away.submit(end).unwrap().wait().unwrap();
            }
            Place::Thread => thread::spawn(end).join().unwrap(),
            Place::Listener => {
                let (done, ran) = (self.home().submit(|| ()).unwrap(), Counter::new());
                let hit = ran.clone();
                done.finally(move |_| {
                    end();
                    hit.hit();
                });
                ran.wait_for(1);
            }
            Place::Future => {
                let done = self.home().spawn(async move { end() }).unwrap();
                done.wait().unwrap();
            }
            Place::Service => {
                *self.next.lock().unwrap() = Some(Box::new(end));
                let mut other = self.connect();
                other.ask("/now", "now");
            }
        }
    }
}

/// Ends a response as its path says.
fn end((path, response): Waiting) {
    let response = response.field("X-Path", &path);
    let pour = |mut stream: ResponseStream, pieces: &[&'static str]| {
        pieces.iter().for_each(|piece| stream.write(*piece));
        stream
    };
    match path.as_str() {
        "/large" => response.body("large ".repeat(20_000)),
        "/none" => response.status(204).body(""),
        "/stream" => pour(response.stream(), &["one ", "two ", "three"]).finish(),
        "/length" => pour(response.stream_with_length(7), &["one ", "two"]).finish(),
        "/trailers" => {
            let stream = pour(response.stream(), &["body"]);
            stream.finish_with_trailers([("X-Sum", "4")]);
        }
        _ => response.status(201).body(path.clone()),
    }
}

/// The requests of a client: each kind, and some again as `HEAD`. The last one ends the connection.
fn script() -> (String, usize) {
    let kinds = [
        "/large",
        "/none",
        "/a",
        "/stream",
        "/length",
        "/trailers",
        "/b",
    ];
    let mut requests = String::new();
    for path in kinds {
        requests.push_str(&get(path));
        requests.push_str(&get(path).replacen("GET", "HEAD", 1));
    }
    requests.push_str("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    (requests, 2 * kinds.len() + 1)
}

fn without_dates(responses: &str) -> String {
    let lines = responses.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("Date: ")).collect()
}

#[test]
fn a_client_gets_the_same_bytes_wherever_its_responses_end() {
    let served = Deferring::new();
    let (requests, number) = script();
    let mut expected = None;
    for place in PLACES {
        for order in 0..3 {
            let mut client = served.connect();
            client.send(&requests);
            let mut waiting = served.take(number);
            assert_eq!(waiting.len(), number);
            match order {
                0 => {}
                1 => waiting.reverse(),
                _ => Rng::new(7).shuffle(&mut waiting),
            }
            if order == 2 {
                // Each alone: the connection has a turn after each.
                for one in waiting {
                    served.run(place, || end(one));
                }
            } else {
                served.run(place, || waiting.into_iter().for_each(end));
            }
            let got = without_dates(&client.rest());
            let expected = expected.get_or_insert(got.clone());
            assert_eq!(got.len(), expected.len(), "{place:?}, order {order}");
            assert_eq!(&got, expected, "{place:?}, order {order}");
        }
    }
    served.server.drain(Duration::from_secs(5)).wait().unwrap();
}

#[test]
fn reading_pauses_at_sixteen_and_goes_on_as_responses_end_on_the_loop() {
    const REQUESTS: usize = 100;
    let served = Deferring::new();
    model(0..short_or_long(12, 500), |rng| {
        let mut client = served.connect();
        let requests: String = (0..REQUESTS).map(|at| get(&format!("/{at}"))).collect();
        client.send(requests);
        if rng.chance(0.3) {
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        let (mut waiting, mut ended, mut answered) = (Vec::new(), 0, 0);
        while ended < REQUESTS {
            let least = usize::from(waiting.is_empty());
            waiting.extend(served.take(least));
            assert!(waiting.len() <= 16, "{}", waiting.len());
            rng.shuffle(&mut waiting);
            let some = waiting.split_off(rng.index(waiting.len()));
            ended += some.len();
            let place = PLACES[rng.index(PLACES.len())];
            served.run(place, || some.into_iter().for_each(end));
            if rng.chance(0.2) {
                // The next one is the first that is outstanding, so it may not have come.
                served.home().settle();
            }
        }
        while answered < REQUESTS {
            assert_eq!(client.response(), (201, format!("/{answered}")));
            answered += 1;
        }
    });
    served.server.drain(Duration::from_secs(5)).wait().unwrap();
    assert_eq!(served.server.metrics().connections, 0);
}

#[test]
fn responses_that_end_on_the_loop_after_their_clients_leave_nothing() {
    let served = Deferring::new();
    let mut requests = 0;
    model(0..short_or_long(12, 500), |rng| {
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut client = Client::over(dial(served.server.local_addr()));
            let number = 1 + rng.index(10);
            client.send(get("/large").repeat(number));
            all.extend(served.take(number));
            if rng.chance(0.5) {
                let socket = SockRef::from(&client.stream);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            requests += number as u64;
        }
        rng.shuffle(&mut all);
        for one in all {
            let drops = rng.chance(0.2);
            let place = PLACES[rng.index(PLACES.len())];
            served.run(place, move || match drops {
                true => drop(one.1),
                false => end(one),
            });
        }
        until("no connection is left", || {
            served.server.metrics().connections == 0
        });
    });
    let metrics = served.server.metrics();
    let now = metrics.requests - requests;
    let settled = metrics.responses.iter().sum::<u64>() + metrics.unanswered;
    assert!(settled >= now && settled <= metrics.requests, "{metrics}");
    assert_eq!(served.server.server().metrics().held_bytes, 0);
    let report = served.server.drain(Duration::from_secs(5)).wait().unwrap();
    assert!(report.closed_at_deadline.is_empty());
}
