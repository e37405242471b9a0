//! A random program: calls behind a command, with retries and hedged attempts, over connections
//! without sockets. The test is the upstream, and counts what is in flight there.
//!
//! Checked after each step: the upstream never has more requests than the limit of the command, nor
//! more connections than the limit of the pool. Each attempt and each call ends once, the totals of
//! the command are exact, and in the end all permits are back.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::ManualClock;
use tidegate_isolate::{
    Attempts, BreakerMode, Command, Entry, Event, Isolation, PermitConfig, Retry, RetryBudget,
};
use tidegate_testkit::{Rng, model, short_or_long, until};

use super::super::pool::Ticket;
use super::*;

const LOOPS: usize = 2;
const SHORT: ConnectionLimits = ConnectionLimits {
    head_timeout: Duration::from_millis(300),
    body_timeout: Duration::from_millis(200),
    idle: Duration::from_millis(400),
    max_age: Duration::from_secs(2),
    max_requests: 5,
};

/// The events of which each attempt ends with one.
const ENDS: [Event; 5] = [
    Event::Success,
    Event::Failure,
    Event::Timeout,
    Event::Cancelled,
    Event::PermitsRejected,
];

#[derive(Clone, Copy, Debug)]
enum What {
    Head(u16),
    Paused,
    Failed,
    /// The last one of each attempt.
    Dropped,
}

/// What the attempts report.
#[derive(Clone, Default)]
struct Reports {
    log: Arc<Mutex<Vec<(u64, What)>>>,
    ends: Arc<Mutex<HashMap<Event, u64>>>,
    /// Whether receivers pause.
    pause: Arc<AtomicBool>,
}

impl Reports {
    fn push(&self, id: u64, what: What) {
        self.log.lock().unwrap().push((id, what));
    }

    fn take(&self) -> Vec<(u64, What)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn ended(&self, event: Event) {
        *self.ends.lock().unwrap().entry(event).or_default() += 1;
    }

    fn ends(&self) -> [u64; 5] {
        let ends = self.ends.lock().unwrap();
        ENDS.map(|event| ends.get(&event).copied().unwrap_or(0))
    }
}

/// One attempt: holds its permit until it is dropped.
struct Work {
    id: u64,
    entry: Entry,
    verdict: Option<Event>,
    reports: Reports,
}

impl ExchangeHandler for Work {
    fn head(&mut self, head: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {
        let good = head.status() < 500;
        if self.entry.verdict(good) {
            self.verdict = Some(if good { Event::Success } else { Event::Failure });
        }
        self.reports.push(self.id, What::Head(head.status()));
    }

    fn data(&mut self, _: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        if !self.reports.pause.load(Ordering::Relaxed) {
            return Flow::More;
        }
        self.reports.push(self.id, What::Paused);
        Flow::Pause
    }

    fn trailers(&mut self, _: Bytes, _: &mut HandlerContext<'_>) {}

    fn end(self, _: &mut HandlerContext<'_>) {
        assert!(self.verdict.is_some() || self.entry.is_expired());
    }

    fn fail(self, _: ClientError, _: &mut HandlerContext<'_>) {
        self.reports.push(self.id, What::Failed);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.reports.ended(match self.verdict {
            Some(event) => event,
            None if self.entry.is_expired() => Event::Timeout,
            None => Event::Cancelled,
        });
        self.reports.push(self.id, What::Dropped);
    }
}

/// A connection, as the upstream sees it.
struct Served {
    channel: EmbeddedChannel,
    at: usize,
    received: Vec<u8>,
    /// The request in progress: whether its head was sent, and how much of its body is missing.
    request: Option<(bool, usize)>,
}

impl Served {
    /// Takes what the client has sent.
    fn receive(&mut self) {
        self.channel.run();
        self.received.extend_from_slice(&self.channel.sent());
        let Some(end) = self
            .received
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
        else {
            return;
        };
        assert!(self.request.is_none(), "two requests at once");
        self.received.drain(..end + 4);
        assert!(self.received.is_empty(), "a request behind another one");
        self.request = Some((false, 0));
    }

    fn respond(&mut self, rng: &mut Rng) {
        let Some((has_head, left)) = &mut self.request else {
            return;
        };
        if !*has_head {
            *has_head = true;
            *left = rng.index(40);
            let status = if rng.chance(0.3) { 503 } else { 200 };
            let close = if rng.chance(0.1) {
                "Connection: close\r\n"
            } else {
                ""
            };
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {left}\r\n{close}\r\n");
            if *left == 0 {
                self.request = None;
            }
            return self.channel.receive(head);
        }
        let length = 1 + rng.index(*left);
        *left -= length;
        if *left == 0 {
            // Its last byte: the upstream has done its work before the client knows.
            self.request = None;
        }
        self.channel.receive(vec![b'x'; length]);
    }
}

/// A call and its attempts.
struct Caller {
    attempts: Attempts<u32, &'static str>,
    running: Vec<u64>,
    /// When the next attempt begins.
    retry_at: Option<u64>,
    responded: bool,
}

type Granted = Log<(u64, Grant<Link<Work>>)>;

struct World {
    clock: ManualClock,
    isolation: Isolation,
    command: Command<u32, &'static str>,
    retry: Retry<&'static str>,
    pool: Arc<Pool<Link<Work>>>,
    max_connections: usize,
    /// The most connections that are free.
    keep: usize,
    /// Loops are to offer their free connections.
    asks: bool,
    reports: Reports,
    granted: Granted,
    callers: Vec<Caller>,
    waiting: Vec<(u64, Ticket, Work)>,
    running: HashMap<u64, Link<Work>>,
    connections: Vec<Served>,
    begun: u64,
    ended: u64,
    attempts: u64,
    limit: usize,
    /// The most permits that may be held: the limit, or more until holders of an earlier one end.
    bound: usize,
    /// How often the upstream had as many requests as the limit allows.
    full: u64,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let clock = ManualClock::new();
        let isolation = Isolation::builder().clock(&clock).build().unwrap();
        let limit = 1 + rng.index(4);
        let command = Command::builder("upstream")
            .group("model")
            .permits(PermitConfig::from(limit))
            .timeout(Duration::from_millis(100 + rng.below(400)))
            .configure(|c| c.breaker.mode = BreakerMode::Disabled)
            .build(&isolation)
            .unwrap();
        let max_connections = 1 + rng.index(6);
        let bounds = Bounds {
            keep: 1 + rng.index(4),
            ..bounds(max_connections, 3)
        };
        Self {
            clock,
            isolation,
            command,
            retry: Retry::attempts(3)
                .backoff(Duration::from_millis(20), 2.0)
                .budget(&RetryBudget::new(50, 10)),
            pool: Pool::new(LOOPS, bounds, |link| drop(link.channel.close())),
            max_connections,
            keep: bounds.keep,
            asks: false,
            reports: Reports::default(),
            granted: Log::new(),
            callers: Vec::new(),
            waiting: Vec::new(),
            running: HashMap::new(),
            connections: Vec::new(),
            begun: 0,
            ended: 0,
            attempts: 0,
            limit,
            bound: limit,
            full: 0,
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        let pause = rng.chance(0.2);
        self.reports.pause.store(pause, Ordering::Relaxed);
        match rng.below(100) {
            0..20 => self.begin(rng),
            20..60 => {
                if let Some(served) = pick(&mut self.connections, rng) {
                    served.respond(rng);
                }
            }
            60..66 => self.leave(rng),
            66..76 => self.advance(Duration::from_millis(rng.below(120)), rng),
            76..80 => self.break_one(rng),
            80..90 => self.resume(rng),
            90..96 => self.hedge(rng),
            96..98 => self.change_limit(1 + rng.index(4)),
            _ => self.end_loop(rng.index(LOOPS)),
        }
        self.settle(rng);
        self.check();
    }

    fn begin(&mut self, rng: &mut Rng) {
        self.begun += 1;
        let call = self.command.call().timeout(Duration::from_millis(800));
        self.callers.push(Caller {
            attempts: self.retry.begin(call),
            running: Vec::new(),
            retry_at: None,
            responded: false,
        });
        self.attempt(self.callers.len() - 1, rng);
    }

    /// Begins an attempt of a call.
    fn attempt(&mut self, at: usize, rng: &mut Rng) {
        let caller = &mut self.callers[at];
        let entry = match caller.attempts.admit() {
            Ok(entry) => entry,
            Err(error) => {
                self.reports.ended(error.cause().event());
                self.attempts += 1;
                if let Some(pause) = caller.attempts.after_error(&error) {
                    caller.retry_at = Some(self.clock.nanos() + pause.as_nanos() as u64);
                }
                return;
            }
        };
        self.attempts += 1;
        let id = self.attempts;
        caller.running.push(id);
        let work = Work {
            id,
            entry,
            verdict: None,
            reports: self.reports.clone(),
        };
        let granted = self.granted.clone();
        let then = move |grant| granted.push((id, grant));
        let at = (!rng.chance(0.1)).then(|| rng.index(LOOPS));
        match self.pool.acquire(at, rng.chance(0.1), then) {
            Acquired::Now(grant) => self.send(grant, work, rng),
            Acquired::Later { ticket, asks } => {
                self.waiting.push((id, ticket, work));
                self.asks |= asks;
            }
            Acquired::Full => {
                self.reports.push(id, What::Failed);
                drop(work);
            }
        }
    }

    fn send(&mut self, grant: Grant<Link<Work>>, work: Work, rng: &mut Rng) {
        let (link, lease) = match grant {
            Grant::Free(free) | Grant::Returned(free) => (free.connection, None),
            Grant::New(mut lease) => {
                let at = rng.index(LOOPS);
                lease.set_loop(at);
                (self.connect(at), Some(lease))
            }
        };
        let id = work.id;
        let begun = Begun {
            id,
            method: Method::Get,
            receiver: work,
            terms: terms(),
            lease,
            shared: rng.chance(0.1),
        };
        match link.slot.begin(begun, true, self.clock.nanos()) {
            Ok(()) => {
                link.channel.write_and_flush("GET / HTTP/1.1\r\n\r\n");
                self.running.insert(id, link);
            }
            Err(refused) => {
                self.reports.push(id, What::Failed);
                drop(refused);
            }
        }
    }

    fn connect(&mut self, at: usize) -> Link<Work> {
        let handler = ClientHandler::new(Connection::<Work>::new(SHORT, HeadLimits::DEFAULT));
        let channel = EmbeddedChannel::new(|p| p.add("http", handler)).unwrap();
        let link = Link::of(&channel.channel()).unwrap();
        self.connections.push(Served {
            channel,
            at,
            received: Vec::new(),
            request: None,
        });
        link
    }

    /// A caller leaves: its attempts are cancelled, and none begins afterwards.
    fn leave(&mut self, rng: &mut Rng) {
        if !self.callers.is_empty() {
            let at = rng.index(self.callers.len());
            self.end_call(at);
        }
    }

    fn end_call(&mut self, at: usize) {
        let caller = self.callers.swap_remove(at);
        self.ended += 1;
        for id in caller.running {
            self.cancel(id);
        }
    }

    fn cancel(&mut self, id: u64) {
        if let Some(link) = self.running.get(&id) {
            link.channel.fire_event(Signal::Cancel(id));
        }
        if let Some(at) = self.waiting.iter().position(|(one, ..)| *one == id) {
            let (_, ticket, work) = self.waiting.swap_remove(at);
            // If it has left too late, a grant is on its way, and is returned when it comes.
            self.pool.leave(ticket);
            drop(work);
        }
    }

    fn advance(&mut self, by: Duration, rng: &mut Rng) {
        self.clock.advance(by);
        for served in &mut self.connections {
            served.channel.advance(by);
        }
        let now = self.clock.nanos();
        let due = |caller: &mut Caller| caller.retry_at.take_if(|at| *at <= now).is_some();
        for at in 0..self.callers.len() {
            if due(&mut self.callers[at]) {
                self.attempt(at, rng);
            }
        }
    }

    fn break_one(&mut self, rng: &mut Rng) {
        if let Some(served) = pick(&mut self.connections, rng) {
            // The upstream gives up its work, whether or not the client knows it at once.
            served.request = None;
            match rng.below(3) {
                0 => served.channel.fail(std::io::ErrorKind::ConnectionReset),
                1 => served.channel.end_input(),
                _ => served.channel.receive("HTTP/1.1 200 OK\r\n\r\nunasked"),
            }
        }
    }

    fn resume(&mut self, rng: &mut Rng) {
        let mut ids: Vec<_> = self.running.keys().copied().collect();
        ids.sort_unstable();
        if let Some(id) = pick(&mut ids, rng) {
            self.running[id].channel.fire_event(Signal::Resume(*id));
        }
    }

    fn hedge(&mut self, rng: &mut Rng) {
        if self.callers.is_empty() {
            return;
        }
        let at = rng.index(self.callers.len());
        let caller = &mut self.callers[at];
        let waits = !caller.responded && caller.retry_at.is_none() && !caller.running.is_empty();
        if waits && caller.attempts.hedge() {
            self.attempt(at, rng);
        }
    }

    fn change_limit(&mut self, limit: usize) {
        let change = self.command.configure(|c| c.permits.limit = limit);
        change.unwrap();
        self.limit = limit;
        self.bound = self.bound.max(limit);
    }

    /// An event loop ends, and its connections with it.
    fn end_loop(&mut self, at: usize) {
        for served in self.connections.iter_mut().filter(|one| one.at == at) {
            served.channel.close();
        }
    }

    /// Runs until nothing more happens.
    fn settle(&mut self, rng: &mut Rng) {
        loop {
            for served in &mut self.connections {
                served.receive();
            }
            self.connections.retain(|served| served.channel.is_open());
            if std::mem::take(&mut self.asks) {
                (0..LOOPS).for_each(|at| self.pool.offer_own(at));
            }
            let granted = self.granted.take();
            let reports = self.reports.take();
            if granted.is_empty() && reports.is_empty() {
                return;
            }
            for (id, grant) in granted {
                let found = self.waiting.iter().position(|(one, ..)| *one == id);
                match (found, grant) {
                    (Some(at), grant) => {
                        let (_, _, work) = self.waiting.swap_remove(at);
                        self.send(grant, work, rng);
                    }
                    (None, Grant::Free(free) | Grant::Returned(free)) => self.pool.give_back(free),
                    (None, Grant::New(lease)) => drop(lease),
                }
            }
            for (id, what) in reports {
                self.report(id, what);
            }
        }
    }

    fn report(&mut self, id: u64, what: What) {
        if let What::Dropped = what {
            self.running.remove(&id);
        }
        let Some(at) = self
            .callers
            .iter()
            .position(|one| one.running.contains(&id))
        else {
            return;
        };
        let caller = &mut self.callers[at];
        match what {
            What::Head(200) => {
                assert!(!caller.responded || caller.running.len() > 1);
                let others = caller.running.clone();
                let first = !std::mem::replace(&mut caller.responded, true);
                caller.retry_at = None;
                for other in others.into_iter().filter(|other| first && *other != id) {
                    self.cancel(other);
                }
            }
            What::Head(_) | What::Failed => {
                if !caller.responded
                    && caller.retry_at.is_none()
                    && let Some(pause) = caller.attempts.after_failure(None)
                {
                    caller.retry_at = Some(self.clock.nanos() + pause.as_nanos() as u64);
                }
            }
            What::Dropped => caller.running.retain(|one| *one != id),
            What::Paused => {}
        }
        self.end_if_over(at);
    }

    fn end_if_over(&mut self, at: usize) {
        let caller = &self.callers[at];
        if caller.running.is_empty() && caller.retry_at.is_none() {
            self.end_call(at);
        }
    }

    fn check(&mut self) {
        // Calls whose first attempt was refused.
        for at in (0..self.callers.len()).rev() {
            self.end_if_over(at);
        }
        let busy = self.connections.iter().filter(|one| one.request.is_some());
        let in_flight = busy.count();
        let snapshot = self.command.snapshot();
        assert!(in_flight <= snapshot.active, "{in_flight}: {snapshot}");
        assert!(snapshot.active <= self.bound, "{snapshot}");
        self.full += u64::from(in_flight == self.limit);
        self.bound = self.limit.max(snapshot.active);
        assert_eq!(snapshot.active, self.running.len() + self.waiting.len());
        assert!(self.connections.len() <= self.max_connections);
        assert!(self.pool.count() <= self.keep);
        assert_eq!(
            self.pool.load(),
            (self.connections.len(), self.waiting.len())
        );
        assert_eq!(self.begun, self.ended + self.callers.len() as u64);
    }

    /// Ends everything. Returns how often each kind of end occurred, then retries and hedges, and
    /// how often the upstream was at the limit.
    fn end(mut self, rng: &mut Rng) -> [u64; 8] {
        while !self.callers.is_empty() {
            self.end_call(0);
        }
        self.settle(rng);
        for link in self.pool.take_free() {
            drop(link.channel.close());
        }
        self.settle(rng);
        self.check();
        assert!(self.running.is_empty() && self.waiting.is_empty() && self.connections.is_empty());
        assert_eq!((self.pool.load(), self.begun), ((0, 0), self.ended));
        let counted = || {
            let totals = self.command.snapshot().totals;
            ENDS.map(|event| totals[event])
        };
        until("each attempt is counted", || {
            counted().iter().sum::<u64>() >= self.attempts
        });
        assert_eq!(counted(), self.reports.ends(), "{ENDS:?}");
        let snapshot = self.command.snapshot();
        assert_eq!((snapshot.active, snapshot.overstaying), (0, 0));
        self.isolation.shutdown_now();
        let [success, failure, timeout, cancelled, rejected] = self.reports.ends();
        let decided = [Event::Retried, Event::Hedged].map(|event| snapshot.totals[event]);
        let [retried, hedged] = decided;
        [
            success, failure, timeout, cancelled, rejected, retried, hedged, self.full,
        ]
    }
}

fn pick<'a, T>(all: &'a mut [T], rng: &mut Rng) -> Option<&'a mut T> {
    match all.len() {
        0 => None,
        length => all.get_mut(rng.index(length)),
    }
}

#[test]
fn the_upstream_never_sees_more_than_the_limit_and_every_call_ends_once() {
    let (seeds, steps) = short_or_long((20, 400), (200, 10_000));
    let mut seen = [0; 8];
    model(0..seeds, |rng| {
        let mut world = World::new(rng);
        for _ in 0..steps {
            world.step(rng);
        }
        let counts = world.end(rng);
        seen.iter_mut()
            .zip(counts)
            .for_each(|(all, one)| *all += one);
    });
    assert!(
        seen.iter().all(|count| *count > 0),
        "each kind of step has an effect: {seen:?}"
    );
}
