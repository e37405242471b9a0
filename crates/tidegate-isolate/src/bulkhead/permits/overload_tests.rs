//! An adaptive limit under more load than its dependency can do, simulated in virtual time.
//!
//! The dependency works on so many calls at once and keeps the others in a queue. It does not learn that
//! a caller has left, so it also works on calls that nobody waits for. Calls arrive at random, whether
//! or not others were answered, and are given up after 250 ms.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use tidegate_core::permits::PermitRef;

use super::*;
use crate::Criticality;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const PATIENCE: u64 = 250 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    /// The dependency has done the work of a call.
    Done(usize),
    /// The caller does not wait longer for the result of a call.
    Leaves(usize),
    /// The first call in the queue of the limit may have waited long enough.
    Expires,
}

struct Call {
    began: u64,
    is_over: bool,
}

/// A dependency, its limit and its callers.
struct World {
    gate: Gate,
    /// How many calls the dependency works on at once, and how long on average.
    room: usize,
    work: f64,
    /// Calls in a second, as a multiple of what the dependency can do.
    load: f64,
    now: u64,
    random: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    calls: Vec<Call>,
    /// Calls that wait for a permit.
    waiting: VecDeque<(Place, u64)>,
    busy: usize,
    /// Calls that wait in the dependency.
    line: VecDeque<usize>,
    /// The next arrival is among the events. It is not after one that was refused: until something
    /// else happens, further ones are refused, too.
    has_next: bool,
    in_time: u64,
}

impl World {
    fn new(limit: PermitConfig, (room, work): (usize, u64)) -> Self {
        Self {
            gate: Gate::new(&limit),
            room,
            work: work as f64,
            load: 0.0,
            now: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            events: BinaryHeap::new(),
            calls: Vec::new(),
            waiting: VecDeque::new(),
            busy: 0,
            line: VecDeque::new(),
            has_next: false,
            in_time: 0,
        }
    }

    /// Returns a random time with this mean.
    fn random(&mut self, mean: f64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let uniform = ((self.random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-uniform.ln() * mean) as u64
    }

    fn at(&mut self, after: u64, event: Event) {
        self.events.push(Reverse((self.now + after, event)));
    }

    /// Returns the calls that are answered in time, in a second, as a share of what the dependency
    /// can do, while time passes.
    fn run(&mut self, load: f64, time: u64) -> f64 {
        let (before, until) = (self.in_time, self.now + time);
        self.load = load;
        self.plan_arrival();
        while let Some(&Reverse((at, event))) = self.events.peek() {
            if at > until {
                break;
            }
            self.events.pop();
            self.now = at;
            match event {
                Event::Arrives => {
                    self.has_next = false;
                    if !self.arrive() {
                        continue;
                    }
                }
                Event::Done(call) => self.done(call),
                Event::Leaves(call) => self.end(call, true),
                Event::Expires => self.serve(),
            }
            self.plan_arrival();
        }
        self.now = until;
        let most = time as f64 / self.work * self.room as f64;
        (self.in_time - before) as f64 / most
    }

    fn plan_arrival(&mut self) {
        if !std::mem::replace(&mut self.has_next, true) {
            let gap = self.random(self.work / (self.load * self.room as f64));
            self.at(gap, Event::Arrives);
        }
    }

    /// Admits a call, or lets it wait. Returns `false` if it is refused.
    fn arrive(&mut self) -> bool {
        let permit = self.gate.try_enter(Criticality::Normal);
        if permit.map(PermitRef::forget).is_some() {
            self.begin(self.now);
            return true;
        }
        if !self.gate.may_wait() {
            return false;
        }
        let place = self.gate.enqueue_waiter(
            self.now,
            Criticality::Normal,
            self.now + PATIENCE,
            Waker::noop(),
        );
        let Ok(place) = place else {
            return false;
        };
        self.at(place.until - self.now, Event::Expires);
        self.waiting.push_back((place, self.now));
        true
    }

    /// Sends a call that has a permit to the dependency.
    fn begin(&mut self, arrived: u64) {
        let call = self.calls.len();
        self.calls.push(Call {
            began: self.now,
            is_over: false,
        });
        self.at(arrived + PATIENCE - self.now, Event::Leaves(call));
        self.line.push_back(call);
        self.work();
    }

    fn work(&mut self) {
        while self.busy < self.room
            && let Some(call) = self.line.pop_front()
        {
            self.busy += 1;
            let time = self.random(self.work);
            self.at(time, Event::Done(call));
        }
    }

    fn done(&mut self, call: usize) {
        self.busy -= 1;
        self.work();
        self.end(call, false);
    }

    fn end(&mut self, call: usize, is_late: bool) {
        let call = &mut self.calls[call];
        if std::mem::replace(&mut call.is_over, true) {
            return;
        }
        self.in_time += u64::from(!is_late);
        self.gate.sample(self.now, self.now - call.began, is_late);
        self.gate.give_back(|| self.now);
        self.serve();
    }

    /// Begins the calls that were given a permit, and removes those that have waited too long.
    fn serve(&mut self) {
        while let Some((place, arrived)) = self.waiting.front() {
            let arrived = *arrived;
            let Some(decided) = self.gate.poll_waiter(place, self.now, Waker::noop()) else {
                break;
            };
            let is_served = decided.map(PermitRef::forget).is_ok();
            self.waiting.pop_front();
            if is_served {
                self.begin(arrived);
            }
        }
    }
}

/// Returns the share of what the dependency can do that is answered in time: after ten seconds under
/// a load, and after ten more under half of what it can do. And the limit under the load.
fn shares(
    permits: impl Into<PermitConfig>,
    (room, work): (usize, u64),
    load: f64,
    waits: bool,
) -> (f64, f64, usize) {
    let permits = PermitConfig {
        max_wait: Duration::from_millis(if waits { 50 } else { 0 }),
        ..permits.into()
    };
    let mut world = World::new(permits, (room, work));
    world.run(load, 10 * SECOND);
    let under_load = world.run(load, 10 * SECOND);
    let limit = world.gate.limit();
    world.run(0.5, 10 * SECOND);
    (under_load, world.run(0.5, 5 * SECOND) / 0.5, limit)
}

fn starting_at(initial: usize, limit: &AdaptiveLimit) -> PermitConfig {
    PermitConfig {
        adaptive: Some(AdaptiveLimit {
            initial,
            ..limit.clone()
        }),
        ..PermitConfig::default()
    }
}

fn keeps_its_share(waits: bool) {
    for work in [10, 15, 20, 30, 40] {
        for load in [1.0, 3.0, 10.0] {
            let dependency = (10, work * MS);
            let fixed = [10, 24].map(|limit| shares(limit, dependency, load, waits).0);
            let best = fixed[0].max(fixed[1]);
            for initial in [1, 200] {
                let limit = starting_at(initial, &AdaptiveLimit::vegas());
                let (share, after, at) = shares(limit, dependency, load, waits);
                let case = format!("{work} ms, {load} times the load, from {initial} to {at}");
                assert!(share > 0.85 * best, "{share:.2} of {best:.2}: {case}");
                assert!(after > 0.85, "{after:.2} when the load has gone: {case}");
            }
        }
    }
}

#[test]
fn a_limit_keeps_what_its_dependency_can_do_under_overload() {
    keeps_its_share(false);
}

#[test]
fn a_queue_before_the_limit_does_not_make_it_collapse() {
    keeps_its_share(true);
}

#[test]
fn each_algorithm_settles_near_the_room_of_its_dependency() {
    for (limit, most) in [
        (AdaptiveLimit::vegas(), 50),
        (AdaptiveLimit::gradient2(), 65),
    ] {
        for initial in [1, 200] {
            let permits = starting_at(initial, &limit);
            let (share, _, at) = shares(permits, (30, 10 * MS), 3.0, false);
            let case = format!("{share:.2} from {initial} to {at}: {limit:?}");
            assert!((25..most).contains(&at) && share > 0.85, "{case}");
        }
    }
}
