//! The pool, with numbers as connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_testkit::{Rng, model, rounds, until_some};

use super::*;
use crate::client::pool::{Bounds, Free, Reservation, Ticket};

type Numbers = Arc<Pool<u32>>;

/// Creates a pool that closes nothing.
fn pool(loops: usize, connections: usize, waiting: usize) -> Numbers {
    Pool::new(loops, bounds(connections, waiting), |_| {})
}

fn now(pool: &Numbers, at: usize) -> Grant<u32> {
    match pool.acquire(Some(at), false, |_| {}) {
        Acquired::Now(grant) => grant,
        _ => panic!("one is free"),
    }
}

fn lease(pool: &Numbers, at: usize) -> Lease<u32> {
    match now(pool, at) {
        Grant::New(mut lease) => {
            lease.set_loop(at);
            lease
        }
        Grant::Free(_) | Grant::Returned(_) => panic!("none is free"),
    }
}

fn free(grant: Grant<u32>) -> u32 {
    match grant {
        Grant::Free(free) | Grant::Returned(free) => free.connection,
        Grant::New(_) => panic!("one is free"),
    }
}

/// Waits, and logs what comes. Returns whether loops are to be asked.
fn wait(pool: &Numbers, log: &Log<Grant<u32>>) -> (Ticket, bool) {
    let log = log.clone();
    match pool.acquire(Some(0), false, move |grant| log.push(grant)) {
        Acquired::Later { ticket, asks } => (ticket, asks),
        _ => panic!("none is free"),
    }
}

fn is_full(pool: &Numbers) -> bool {
    matches!(pool.acquire(Some(0), false, |_| {}), Acquired::Full)
}

#[test]
fn a_loop_uses_its_own_connections_then_new_ones_and_asks_others_at_the_limit() {
    let pool = pool(2, 4, 0);
    let leases = [lease(&pool, 0), lease(&pool, 0), lease(&pool, 1)];
    for (lease, number) in leases.iter().zip(1..) {
        lease.make_free(number, false);
    }
    // The one that was used last comes first.
    assert_eq!((free(now(&pool, 0)), free(now(&pool, 0))), (2, 1));
    let new = lease(&pool, 0);
    // All permits are held. The other loop has one, so the call may wait for it.
    let log = Log::new();
    assert!(wait(&pool, &log).1 && log.is_empty());
    assert!((0..2).all(|at| pool.is_used(at)));
    pool.offer_own(1);
    assert_eq!(free(log.take().remove(0)), 3);
    assert!(is_full(&pool), "no call may wait");
    // From now on a loop finds what others return.
    new.make_free(4, false);
    assert_eq!(free(now(&pool, 1)), 4);
    assert_eq!(pool.load(), (4, 0));
}

#[test]
fn other_threads_share_connections_that_a_loop_takes_of_its_own() {
    let pool = pool(3, 4, 0);
    let leases = [lease(&pool, 1), lease(&pool, 2), lease(&pool, 2)];
    for (lease, number) in leases.iter().zip(1..) {
        lease.make_free(number, true);
    }
    assert_eq!(pool.try_free(Some(1)).unwrap().connection, 1);
    assert!(pool.try_free(Some(1)).is_none());
    for number in [3, 2] {
        let free = pool.try_free(None).unwrap();
        assert_eq!((free.connection, free.place.at()), (number, 2));
    }
    assert!(matches!(now(&pool, 0), Grant::New(_)), "none is free");
}

#[test]
fn the_limit_of_free_connections_closes_the_oldest_of_the_loop_that_returns_one() {
    static CLOSED: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());
    for shared in [false, true] {
        let bounds = Bounds {
            keep: 3,
            ..bounds(8, 0)
        };
        let pool = Pool::new(2, bounds, |number| CLOSED.lock().unwrap().push(number));
        let at = [0, 0, 1, 1, 0];
        let leases = at.map(|at| lease(&pool, at));
        for (lease, number) in leases.iter().zip(1..) {
            lease.make_free(number, shared);
        }
        assert_eq!(std::mem::take(&mut *CLOSED.lock().unwrap()), [3, 1]);
        let mut kept = pool.take_free();
        kept.sort_unstable();
        assert_eq!(kept, [2, 4, 5]);
        drop(leases);
        assert_eq!(pool.load(), (0, 0));
    }
}

#[test]
fn the_attempts_of_a_connect_hold_one_permit_until_all_have_ended() {
    let pool = pool(1, 1, 0);
    let first = Reservation::new(lease(&pool, 0));
    let second = Arc::clone(&first);
    drop(first);
    assert_eq!(pool.load(), (1, 0), "one attempt has not ended");
    drop(second);
    assert_eq!(pool.load(), (0, 0));
    let reservation = Reservation::new(lease(&pool, 0));
    let lease = reservation.take().unwrap();
    assert!(reservation.take().is_none());
    drop(reservation);
    assert_eq!(pool.load(), (1, 0), "the connection has it now");
    drop(lease);
    assert_eq!(pool.load(), (0, 0));
}

#[test]
fn a_fresh_one_is_made_although_one_is_free_if_the_limit_allows() {
    let pool = pool(1, 2, 0);
    let first = lease(&pool, 0);
    first.make_free(1, false);
    let Acquired::Now(Grant::New(second)) = pool.acquire(Some(0), true, |_| {}) else {
        panic!("the limit allows two");
    };
    let Acquired::Now(grant) = pool.acquire(Some(0), true, |_| {}) else {
        panic!("one is free");
    };
    assert_eq!(free(grant), 1);
    drop((first, second));
    assert_eq!(pool.load(), (0, 0));
}

#[test]
fn waiting_calls_are_served_in_order_by_connections_and_by_permits() {
    let pool = pool(1, 1, 3);
    let held = lease(&pool, 0);
    let log = Log::new();
    for _ in 0..3 {
        wait(&pool, &log);
    }
    assert!(is_full(&pool));
    held.make_free(7, false);
    assert_eq!(log.take().into_iter().map(free).collect::<Vec<_>>(), [7]);
    drop(held);
    let granted = log.take();
    assert!(matches!(granted.as_slice(), [Grant::New(_)]));
    assert_eq!(pool.load(), (1, 1));
    drop(granted);
    assert!(matches!(log.take().as_slice(), [Grant::New(_)]));
    assert_eq!(pool.load(), (0, 0));
}

#[test]
fn a_call_that_leaves_frees_its_place_at_once() {
    let pool = pool(1, 1, 1);
    let held = lease(&pool, 0);
    let log = Log::new();
    let (ticket, _) = wait(&pool, &log);
    assert!(is_full(&pool));
    assert!(pool.leave(ticket));
    assert!(!pool.leave(ticket));
    let (ticket, _) = wait(&pool, &log);
    drop(held);
    assert!(!pool.leave(ticket), "its callback was called");
    assert_eq!(log.len(), 1);
}

#[test]
fn a_connection_that_ended_is_not_handed_out() {
    let pool = pool(1, 2, 0);
    let (first, second) = (lease(&pool, 0), lease(&pool, 0));
    first.make_free(1, false);
    second.make_free(2, false);
    drop(second);
    assert_eq!(free(now(&pool, 0)), 1);
    drop(first);
    assert_eq!(pool.load(), (0, 0));
}

/// A pool whose loops run in one thread, and what is done with it.
struct Model {
    pool: Numbers,
    granted: Log<Grant<u32>>,
    tickets: Vec<Ticket>,
    /// Loops that were asked and have not run the task.
    asked: [bool; LOOPS],
    busy: Vec<Lease<u32>>,
    free: Vec<Lease<u32>>,
    waiting: usize,
}

const LOOPS: usize = 3;

impl Model {
    fn step(&mut self, rng: &mut Rng) {
        match rng.below(7) {
            0 | 1 => self.acquire(rng),
            2 if !self.busy.is_empty() => {
                let lease = self.busy.swap_remove(rng.index(self.busy.len()));
                let number = u32::try_from(lease.id()).unwrap();
                self.free.push(lease);
                let lease = self.free.last().unwrap();
                lease.make_free(number, rng.chance(0.1));
            }
            3 if !self.busy.is_empty() => {
                drop(self.busy.swap_remove(rng.index(self.busy.len())));
            }
            4 if !self.tickets.is_empty() => {
                let ticket = self.tickets.swap_remove(rng.index(self.tickets.len()));
                self.waiting -= usize::from(self.pool.leave(ticket));
            }
            5 => {
                let at = rng.index(LOOPS);
                if std::mem::take(&mut self.asked[at]) {
                    self.pool.offer_own(at);
                }
            }
            _ if !self.free.is_empty() => drop(self.free.swap_remove(rng.index(self.free.len()))),
            _ => {}
        }
        self.settle(rng);
    }

    fn acquire(&mut self, rng: &mut Rng) {
        let log = self.granted.clone();
        let at = (!rng.chance(0.1)).then(|| rng.index(LOOPS));
        let then = move |grant| log.push(grant);
        match self.pool.acquire(at, rng.chance(0.2), then) {
            Acquired::Now(grant) => {
                self.waiting += 1;
                self.granted.push(grant);
            }
            Acquired::Later { ticket, asks } => {
                self.waiting += 1;
                self.tickets.push(ticket);
                for at in (0..LOOPS).filter(|at| asks && self.pool.is_used(*at)) {
                    self.asked[at] = true;
                }
            }
            Acquired::Full => {}
        }
    }

    fn settle(&mut self, rng: &mut Rng) {
        for grant in self.granted.take() {
            self.waiting -= 1;
            match grant {
                Grant::New(mut lease) => {
                    lease.set_loop(rng.index(LOOPS));
                    self.busy.push(lease);
                }
                Grant::Free(Free { connection, .. }) | Grant::Returned(Free { connection, .. }) => {
                    let is_it = |lease: &Lease<u32>| lease.id() == u64::from(connection);
                    let at = self.free.iter().position(is_it);
                    self.busy
                        .push(self.free.remove(at.expect("it has one taker")));
                }
            }
        }
    }

    /// A call waits only if no permit is free, and no connection but those of loops that were asked.
    fn check(&self, limit: usize) {
        let open = self.busy.len() + self.free.len();
        assert!(open <= limit);
        assert_eq!(self.pool.load(), (open, self.waiting));
        if self.waiting > 0 {
            let asked = |lease: &Lease<u32>| self.asked[lease.at()];
            assert!(open == limit && self.free.iter().all(asked));
        }
    }
}

#[test]
fn a_model_of_random_steps_never_exceeds_the_limit_and_loses_nothing() {
    model(0..u64::try_from(rounds(100)).unwrap(), |rng| {
        let limit = 1 + rng.index(6);
        let mut model = Model {
            pool: pool(LOOPS, limit, 5),
            granted: Log::new(),
            tickets: Vec::new(),
            asked: [false; LOOPS],
            busy: Vec::new(),
            free: Vec::new(),
            waiting: 0,
        };
        for _ in 0..400 {
            model.step(rng);
            model.check(limit);
        }
        let Model { pool, granted, .. } = model;
        drop((model.busy, model.free));
        // A permit that is dropped goes to the next call that waits.
        while !granted.take().is_empty() {}
        assert_eq!(pool.load(), (0, 0));
    });
}

/// What a loop is told.
enum Told {
    Offer,
    Granted(Grant<u32>),
    /// The response has come to this connection of the loop.
    Return(u32),
    Close(u32),
    End,
}

/// A thread as a loop: makes calls one after the other, and does what it is told.
struct LoopThread {
    at: usize,
    pool: Numbers,
    rng: Rng,
    told: Receiver<Told>,
    loops: Vec<Sender<Told>>,
    leases: HashMap<u32, Lease<u32>>,
}

impl LoopThread {
    fn run(mut self, calls: usize, left: &AtomicUsize) {
        for _ in 0..calls {
            while let Ok(told) = self.told.try_recv() {
                self.turn(told);
            }
            if self.rng.chance(0.01) {
                let close = |number| self.loops[number as usize % LOOPS].send(Told::Close(number));
                self.pool
                    .take_free()
                    .into_iter()
                    .for_each(|one| close(one).unwrap());
            }
            self.call();
        }
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.loops
                .iter()
                .for_each(|one| one.send(Told::End).unwrap());
        }
        while !self.turn(self.next()) {}
    }

    fn call(&mut self) {
        let own = self.loops[self.at].clone();
        let then = move |grant| own.send(Told::Granted(grant)).unwrap();
        let fresh = self.rng.chance(0.1);
        match self.pool.acquire(Some(self.at), fresh, then) {
            Acquired::Now(grant) => self.use_it(grant),
            Acquired::Later { asks, .. } => {
                let used = (0..LOOPS).filter(|at| asks && self.pool.is_used(*at));
                used.for_each(|at| self.loops[at].send(Told::Offer).unwrap());
                while !self.turn(self.next()) {}
            }
            Acquired::Full => panic!("there is room for all"),
        }
    }

    fn next(&self) -> Told {
        until_some("every call is served", || self.told.try_recv().ok())
    }

    /// Does something. Returns `true` if that ends a call, or everything.
    fn turn(&mut self, told: Told) -> bool {
        match told {
            Told::Offer => self.pool.offer_own(self.at),
            // Some connections end.
            Told::Return(number) if self.rng.chance(0.05) => drop(self.leases.remove(&number)),
            Told::Close(number) => drop(self.leases.remove(&number)),
            Told::Return(number) => self.leases[&number].make_free(number, false),
            Told::Granted(grant) => {
                self.use_it(grant);
                return true;
            }
            Told::End => return true,
        }
        false
    }

    fn use_it(&mut self, grant: Grant<u32>) {
        let number = match grant {
            Grant::New(mut lease) => {
                lease.set_loop(self.at);
                let number = u32::try_from(lease.id()).unwrap() * LOOPS as u32 + self.at as u32;
                self.leases.insert(number, lease);
                number
            }
            Grant::Free(free) | Grant::Returned(free) => free.connection,
        };
        let at = number as usize % LOOPS;
        self.loops[at].send(Told::Return(number)).unwrap();
    }
}

#[test]
fn loops_share_the_limit_and_no_call_is_lost_between_them() {
    for limit in 1..=4 {
        let pool = pool(LOOPS, limit, 1000);
        let (loops, told): (Vec<_>, Vec<_>) = (0..LOOPS).map(|_| channel()).unzip();
        let left = AtomicUsize::new(LOOPS);
        std::thread::scope(|scope| {
            for (at, told) in told.into_iter().enumerate() {
                let one = LoopThread {
                    at,
                    pool: Arc::clone(&pool),
                    rng: Rng::new(at as u64),
                    told,
                    loops: loops.clone(),
                    leases: HashMap::new(),
                };
                let left = &left;
                scope.spawn(move || one.run(rounds(5000), left));
            }
        });
        drop(loops);
        assert_eq!(pool.load(), (0, 0));
    }
}
