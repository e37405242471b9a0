//! Random handlers: calls that wait, are admitted, stream, time out, are cancelled and leave, while the
//! limit changes and executors end. The limit is never exceeded, each call ends once, and all permits
//! are back in the end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    BreakerMode, CommandError, Entry, Event, Isolation, PendingEntry, PermitConfig, Verdict,
};
use tidegate_testkit::{Rng, model, short_or_long, until};

use crate::steps::Steps;
use crate::support::{Numbers, builder, still};

const VERDICTS: [(Verdict, Event); 3] = [
    (Verdict::Success, Event::Success),
    (Verdict::Failure, Event::Failure),
    (Verdict::Ignored, Event::BadRequest),
];

/// The events of which each call ends with one.
const ENDS: [Event; 6] = [
    Event::Success,
    Event::Failure,
    Event::BadRequest,
    Event::Timeout,
    Event::Cancelled,
    Event::PermitsRejected,
];

/// What the closures of the calls did.
#[derive(Default)]
struct Closures {
    /// The entries that were received and not taken yet, each with the time of its call.
    entries: Vec<(Entry, u64)>,
    ends: HashMap<Event, u64>,
}

/// The closure of one call.
struct Closure {
    all: Arc<Mutex<Closures>>,
    start: u64,
    is_called: bool,
}

impl Closure {
    fn call(mut self, admitted: Result<Entry, CommandError<&'static str>>) {
        self.is_called = true;
        let mut all = self.all.lock().unwrap();
        match admitted {
            Ok(entry) => all.entries.push((entry, self.start)),
            Err(error) => *all.ends.entry(error.cause().event()).or_default() += 1,
        }
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        if !self.is_called {
            let mut all = self.all.lock().unwrap();
            *all.ends.entry(Event::Cancelled).or_default() += 1;
        }
    }
}

/// An entry that the upstream works for.
struct Stream {
    entry: Entry,
    deadline: u64,
    /// How the call ended, once that is decided.
    end: Option<Event>,
}

/// A random program, and what must have become of its calls.
struct Handlers {
    clock: ManualClock,
    isolation: Isolation,
    command: Numbers,
    timeout: u64,
    homes: Vec<Arc<Steps>>,
    closures: Arc<Mutex<Closures>>,
    pending: Vec<PendingEntry>,
    streams: Vec<Stream>,
    calls: u64,
    limit: usize,
    /// The most permits that may be held: the limit, or more until holders of an earlier limit end.
    bound: usize,
}

impl Handlers {
    fn new(rng: &mut Rng) -> Self {
        let (clock, isolation) = still();
        let limit = 1 + rng.index(4);
        let permits = PermitConfig {
            max_wait: Duration::from_millis(rng.below(400)),
            max_waiting: rng.index(6),
            ..PermitConfig::from(limit)
        };
        let timeout = Duration::from_millis(50 + rng.below(500));
        let command = builder("a").permits(permits).timeout(timeout);
        let command = command.configure(|c| c.breaker.mode = BreakerMode::Disabled);
        Self {
            command: command.build(&isolation).unwrap(),
            clock,
            isolation,
            timeout: timeout.as_nanos() as u64,
            homes: vec![Steps::new(), Steps::new()],
            closures: Arc::default(),
            pending: Vec::new(),
            streams: Vec::new(),
            calls: 0,
            limit,
            bound: limit,
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(100) {
            0..25 => self.begin(rng),
            25..45 => drop(self.homes[rng.index(2)].run()),
            45..60 => self.verdict(rng),
            60..65 => self.cancel(rng),
            65..80 => self.drop_stream(rng),
            80..86 => self.leave(rng),
            86..96 => self.advance(Duration::from_millis(rng.below(120))),
            96..98 => self.change_limit(1 + rng.index(4)),
            98 => self.replace_home(rng.index(2)),
            _ => self.pending.retain(PendingEntry::is_pending),
        }
        self.receive();
        self.check();
    }

    /// Makes a call in a handler.
    fn begin(&mut self, rng: &mut Rng) {
        self.calls += 1;
        let closure = Closure {
            all: Arc::clone(&self.closures),
            start: self.clock.nanos(),
            is_called: false,
        };
        let (home, command) = (&self.homes[rng.index(2)], &self.command);
        let then = move |admitted| closure.call(admitted);
        let pending = home.enter(|| command.admit_or_wait(&home.home(), then));
        match rng.chance(0.1) {
            true => pending.detach(),
            false => self.pending.push(pending),
        }
    }

    /// Takes the entries that the closures have received.
    fn receive(&mut self) {
        let received = std::mem::take(&mut self.closures.lock().unwrap().entries);
        let timeout = self.timeout;
        self.streams
            .extend(received.into_iter().map(|(entry, start)| Stream {
                entry,
                deadline: start + timeout,
                end: None,
            }));
    }

    fn verdict(&mut self, rng: &mut Rng) {
        let now = self.clock.nanos();
        let (verdict, event) = VERDICTS[rng.index(3)];
        if let Some(stream) = pick(&mut self.streams, rng) {
            let counts = match rng.index(2) {
                0 => stream.entry.verdict(verdict),
                _ => stream.entry.verdict_alone(verdict),
            };
            assert_eq!(counts, stream.end.is_none() && now < stream.deadline);
            if counts {
                stream.end = Some(event);
            }
        }
    }

    fn cancel(&mut self, rng: &mut Rng) {
        let now = self.clock.nanos();
        if let Some(stream) = pick(&mut self.streams, rng) {
            let counts = stream.entry.cancel();
            assert_eq!(counts, stream.end.is_none() && now < stream.deadline);
            if counts {
                stream.end = Some(Event::Cancelled);
            }
        }
    }

    /// Ends the use of a connection: its last byte was sent, or it was reset.
    fn drop_stream(&mut self, rng: &mut Rng) {
        if !self.streams.is_empty() {
            let at = rng.index(self.streams.len());
            self.end_stream(at);
        }
    }

    fn end_stream(&mut self, at: usize) {
        let Stream { entry, end, .. } = self.streams.swap_remove(at);
        drop(entry);
        let event = end.unwrap_or(Event::Cancelled);
        let mut closures = self.closures.lock().unwrap();
        *closures.ends.entry(event).or_default() += 1;
    }

    fn leave(&mut self, rng: &mut Rng) {
        if !self.pending.is_empty() {
            let at = rng.index(self.pending.len());
            drop(self.pending.swap_remove(at));
        }
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        let now = self.clock.nanos();
        for stream in &mut self.streams {
            if stream.end.is_none() && now >= stream.deadline {
                assert!(stream.entry.is_expired());
                stream.end = Some(Event::Timeout);
            }
        }
    }

    fn change_limit(&mut self, limit: usize) {
        let change = self.command.configure(|c| c.permits.limit = limit);
        change.unwrap();
        self.limit = limit;
        self.bound = self.bound.max(limit);
    }

    /// Ends an executor. What waits for it is given up.
    fn replace_home(&mut self, at: usize) {
        let old = std::mem::replace(&mut self.homes[at], Steps::new());
        old.close();
    }

    /// Checks what holds at any time.
    fn check(&mut self) {
        let snapshot = self.command.snapshot();
        assert!(self.streams.len() <= snapshot.active, "{snapshot}");
        assert!(snapshot.active <= self.bound, "{snapshot}");
        self.bound = self.limit.max(snapshot.active);
        let overstays = |stream: &&Stream| {
            let end = stream.end;
            end == Some(Event::Timeout) || end == Some(Event::Cancelled)
        };
        let overstaying = self.streams.iter().filter(overstays).count();
        assert_eq!(snapshot.overstaying, overstaying);
        assert_eq!(snapshot.oldest_overstaying.is_some(), overstaying > 0);
        let closures = self.closures.lock().unwrap();
        for event in [
            Event::Success,
            Event::Failure,
            Event::BadRequest,
            Event::Timeout,
        ] {
            let ended = closures.ends.get(&event).copied().unwrap_or(0);
            let streams = self.streams.iter();
            let streaming = streams.filter(|stream| stream.end == Some(event)).count();
            let expected = ended + streaming as u64;
            assert_eq!(
                snapshot.totals[event], expected,
                "{event:?} is counted at once"
            );
        }
    }

    /// Ends everything.
    fn end(mut self) {
        for home in &self.homes {
            home.run();
        }
        self.receive();
        self.pending.clear();
        for home in &self.homes {
            home.close();
        }
        while !self.streams.is_empty() {
            self.end_stream(0);
        }
        let counted = || {
            let totals = self.command.snapshot().totals;
            ENDS.map(|event| totals[event])
        };
        // Callback threads end the calls of executors that have ended, and detached calls wait for
        // their time.
        self.clock.advance(Duration::from_secs(1));
        let ended = || self.closures.lock().unwrap().ends.values().sum::<u64>();
        let is_over = || counted().iter().sum::<u64>() >= self.calls && ended() >= self.calls;
        until("each call ends once", is_over);
        let closures = self.closures.lock().unwrap();
        assert!(closures.entries.is_empty());
        let expected = ENDS.map(|event| closures.ends.get(&event).copied().unwrap_or(0));
        assert_eq!(counted(), expected, "{ENDS:?}");
        assert_eq!(expected.iter().sum::<u64>(), self.calls);
        let snapshot = self.command.snapshot();
        let left = (snapshot.active, snapshot.waiting, snapshot.overstaying);
        assert_eq!(left, (0, 0, 0));
        self.isolation.shutdown_now();
    }
}

fn pick<'a>(streams: &'a mut [Stream], rng: &mut Rng) -> Option<&'a mut Stream> {
    match streams.len() {
        0 => None,
        len => streams.get_mut(rng.index(len)),
    }
}

#[test]
fn handlers_never_exceed_the_limit_and_every_call_ends_once() {
    let (seeds, steps) = short_or_long((20, 400), (200, 10_000));
    model(0..seeds, |rng| {
        let mut handlers = Handlers::new(rng);
        for _ in 0..steps {
            handlers.step(rng);
        }
        handlers.end();
    });
}
