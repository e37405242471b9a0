//! The service of a storm: does what the path of a request says, at once or later. Responses end on other
//! threads, in tasks of the event loops, and in calls for other requests.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tidegate_http::{Body, DeferredResponse, Request, Response, ResponseStream};
use tidegate_loop::{EventLoop, Placement};
use tidegate_net::{Handler, Inbound, InboundContext, NetGroup, Nothing};
use tidegate_promise::Outcome;
use tidegate_testkit::{Counter, Rng};

use super::malformed::POISON;

/// Threads that end responses.
const FINISHERS: usize = 2;
/// How long such a thread waits for more responses before it ends those that it has.
const PAUSE: Duration = Duration::from_millis(1);
/// The length of what follows the tag in a large body.
const BIG: usize = 100_000;

/// What the service has counted.
#[derive(Clone, Default)]
pub(super) struct Book {
    pub(super) calls: Counter,
    /// Requests behind one that was refused.
    pub(super) poison: Counter,
    pub(super) bodies: Counter,
    pub(super) bodies_ended: Counter,
    pub(super) deferred: Counter,
    pub(super) closed: Counter,
    /// Responses that do not come while their connections live.
    never: Arc<Mutex<Vec<DeferredResponse>>>,
}

impl Book {
    /// Ends the responses that did not come, after their connections.
    pub(super) fn end_those_that_never_came(&self) {
        let never = std::mem::take(&mut *self.never.lock().unwrap());
        for (at, response) in never.into_iter().enumerate() {
            assert!(response.is_closed());
            match at % 3 {
                0 => response.body("late"),
                1 => response.stream().write("late"),
                _ => drop(response),
            }
        }
    }

    fn defer(&self, response: Response<'_>) -> DeferredResponse {
        let deferred = response.defer();
        self.deferred.hit();
        let closed = self.closed.clone();
        deferred.closed().finally(move |_| _ = closed.hit());
        deferred
    }
}

/// A response that ends later.
enum Unfinished {
    Response(String, DeferredResponse),
    Stream(String, ResponseStream),
    Body(String, DeferredResponse, Body),
    /// One of those on the shelf.
    Shelved,
}

/// What ends responses: threads, and calls of the service for other requests.
pub(super) struct Later {
    threads: Vec<Sender<Unfinished>>,
    shelf: Arc<Shelf>,
}

impl Later {
    /// Puts a response where something will end it.
    fn put(&self, one: Unfinished) {
        let (on_shelf, thread) = self
            .shelf
            .draw(|rng| (rng.chance(0.4), rng.index(FINISHERS)));
        let one = match on_shelf {
            true => {
                self.shelf.responses.lock().unwrap().push(one);
                Unfinished::Shelved
            }
            false => one,
        };
        // A thread that has ended drops the response.
        drop(self.threads[thread].send(one));
    }
}

/// Responses that the next calls of the service end, on the event loop of their connection or on
/// another one. Those that are left, a thread ends.
struct Shelf {
    responses: Mutex<Vec<Unfinished>>,
    rng: Mutex<Rng>,
}

impl Shelf {
    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap())
    }

    fn take(&self) -> Option<Unfinished> {
        let mut all = self.responses.lock().unwrap();
        let at = self.draw(|rng| rng.index(all.len().max(1)));
        (at < all.len()).then(|| all.swap_remove(at))
    }

    /// Ends some of the responses.
    fn end_some(&self) {
        let (number, mut rng) = self.draw(|rng| (rng.index(4), rng.fork()));
        for one in std::iter::from_fn(|| self.take()).take(number) {
            finish(one, self, &mut rng);
        }
    }
}

/// Returns the service. The last part of a path is its tag, which comes back in the body.
pub(super) fn service(
    book: &Book,
    later: Later,
) -> impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static {
    let book = book.clone();
    move |request, response| {
        book.calls.hit();
        later.shelf.end_some();
        let (kind, tag) = request.path()[1..].split_once('/').unwrap();
        let (kind, tag) = (kind.to_owned(), tag.to_owned());
        match &kind[..] {
            POISON => {
                book.poison.hit();
                response.body(tag);
            }
            "now" => response.body(tag),
            "big" => response.body(big(&tag)),
            "kept" => later.put(Unfinished::Response(tag, book.defer(response))),
            "stream" => later.put(Unfinished::Stream(tag, response.stream())),
            "part" => {
                let response = book.defer(response);
                later.put(Unfinished::Body(tag, response, request.into_body()));
            }
            "body" => {
                let (later, ended) = (book.defer(response), book.bodies_ended.clone());
                book.bodies.hit();
                request.collect(1 << 20).finally(move |body| {
                    ended.hit();
                    match body {
                        Outcome::Success(_) => later.body(tag),
                        _ => drop(later),
                    }
                });
            }
            "never" => book.never.lock().unwrap().push(response.defer()),
            // Without the hook for panics, which would print each of them.
            "panic" => resume_unwind(Box::new("told to")),
            "after" => {
                response.body(tag);
                resume_unwind(Box::new("told to"));
            }
            "wrong" => response.field("a\r\nb", "c").body(tag),
            "upgrade" if request.upgrade().is_some() => {
                let response = response.field("Upgrade", "echo");
                response.switch(|s| s.add("echo", Handler::inbound(Echo)));
            }
            _ => drop(response),
        }
    }
}

/// Sends everything back.
struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write_and_flush(bytes);
    }
}

/// Starts the threads that end responses. They end when the service is dropped.
pub(super) fn finishers<P: Placement>(
    group: &NetGroup<P>,
    rng: &mut Rng,
) -> (Later, Vec<JoinHandle<()>>) {
    let shelf = Arc::new(Shelf {
        responses: Mutex::default(),
        rng: Mutex::new(rng.fork()),
    });
    let start = |_| {
        let (sender, receiver) = mpsc::channel();
        let mut finisher = Finisher {
            loops: group.loops().iter().cloned().collect(),
            shelf: Arc::clone(&shelf),
            rng: rng.fork(),
        };
        (sender, thread::spawn(move || finisher.run(&receiver)))
    };
    let (threads, handles) = (0..FINISHERS).map(start).unzip();
    (Later { threads, shelf }, handles)
}

/// What a thread needs to end responses.
struct Finisher<P: Placement> {
    loops: Vec<EventLoop<P>>,
    shelf: Arc<Shelf>,
    rng: Rng,
}

impl<P: Placement> Finisher<P> {
    /// Ends responses, several at a time and in random order.
    fn run(&mut self, receiver: &Receiver<Unfinished>) {
        let mut unfinished = Vec::new();
        loop {
            let received = receiver.recv_timeout(PAUSE);
            let over = matches!(received, Err(RecvTimeoutError::Disconnected));
            match received {
                Ok(one) => unfinished.push(one),
                Err(_) => self.rng.shuffle(&mut unfinished),
            }
            if received_enough(&unfinished, &mut self.rng) || over || self.rng.chance(0.3) {
                self.end(std::mem::take(&mut unfinished));
            }
            if over {
                return;
            }
        }
    }

    /// Ends responses here, or in a task of an event loop.
    fn end(&mut self, all: Vec<Unfinished>) {
        let (shelf, mut rng) = (Arc::clone(&self.shelf), self.rng.fork());
        let end = move || {
            all.into_iter()
                .for_each(|one| finish(one, &shelf, &mut rng))
        };
        match self.rng.chance(0.5) {
            true => end(),
            // A loop that refuses the task drops the responses.
            false => drop(self.loops[self.rng.index(self.loops.len())].execute(end)),
        }
    }
}

fn received_enough(unfinished: &[Unfinished], rng: &mut Rng) -> bool {
    unfinished.len() > rng.index(8)
}

fn finish(one: Unfinished, shelf: &Shelf, rng: &mut Rng) {
    match one {
        Unfinished::Shelved => {
            if let Some(one) = shelf.take() {
                finish(one, shelf, rng);
            }
        }
        Unfinished::Response(tag, response) => respond(&tag, response, rng),
        Unfinished::Stream(tag, stream) => pour(tag, stream, rng),
        Unfinished::Body(tag, response, body) if rng.chance(0.5) => {
            drop(body);
            respond(&tag, response, rng);
        }
        Unfinished::Body(tag, response, body) => {
            respond(&tag, response, rng);
            drop(body);
        }
    }
}

fn big(tag: &str) -> String {
    tag.to_owned() + &".".repeat(BIG)
}

fn respond(tag: &str, response: DeferredResponse, rng: &mut Rng) {
    match rng.index(10) {
        0 => drop(response),
        1 => response.field("a", "b\nc").body("never sent"),
        2 | 3 => pour(tag.to_owned(), response.stream(), rng),
        4 => response.body(big(tag)),
        _ => response.status(201).body(tag.to_owned()),
    }
}

fn pour(tag: String, mut stream: ResponseStream, rng: &mut Rng) {
    stream.write(tag);
    for _ in 0..rng.index(4) {
        stream.write(vec![b'.'; rng.index(5000)]);
    }
    match rng.chance(0.9) {
        true => stream.finish(),
        false => drop(stream),
    }
}
