//! The pool, with numbers as connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testkit::{Rng, model, rounds};

use super::*;
use crate::client::pool::Reservation;

type Numbers = Arc<Pool<u32>>;

fn now(pool: &Numbers, at: usize) -> Grant<u32> {
    match pool.acquire(at, false, |_| {}) {
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
        Grant::Reused(_) => panic!("none is idle"),
    }
}

fn reused(grant: Grant<u32>) -> u32 {
    match grant {
        Grant::Reused(idle) => idle.connection,
        Grant::New(_) => panic!("one is idle"),
    }
}

/// Waits, and logs what comes.
fn wait(pool: &Numbers, log: &Log<Grant<u32>>) -> super::super::pool::Ticket {
    let log = log.clone();
    match pool.acquire(0, false, move |grant| log.push(grant)) {
        Acquired::Later(ticket) => ticket,
        _ => panic!("none is free"),
    }
}

#[test]
fn the_connection_that_was_used_last_comes_first_and_of_the_own_loop() {
    let pool = Pool::new(2, 3, 0, false);
    let leases = [lease(&pool, 0), lease(&pool, 0), lease(&pool, 1)];
    for (lease, number) in leases.iter().zip(1..) {
        lease.make_idle(number);
    }
    assert_eq!(reused(now(&pool, 0)), 2);
    assert_eq!(reused(now(&pool, 0)), 1);
    // All permits are held: a connection of the other loop is better than none.
    assert_eq!(reused(now(&pool, 0)), 3);
    assert!(matches!(pool.acquire(0, false, |_| {}), Acquired::Full));
}

#[test]
fn a_loop_without_an_idle_connection_takes_one_of_the_loop_that_has_most() {
    let pool = Pool::new(3, 8, 0, true);
    let leases = [lease(&pool, 1), lease(&pool, 2), lease(&pool, 2)];
    for (lease, number) in leases.iter().zip(1..) {
        lease.make_idle(number);
    }
    for (number, at) in [(3, 2), (2, 2), (1, 1)] {
        let Grant::Reused(idle) = now(&pool, 0) else {
            panic!("an idle one comes before a new one");
        };
        assert_eq!((idle.connection, idle.at()), (number, at));
    }
    assert!(matches!(now(&pool, 0), Grant::New(_)), "none is idle");
    assert_eq!(pool.load(), (3, 0));
}

#[test]
fn an_idle_connection_has_one_taker() {
    const IDLE: u32 = 100;
    let pool: Numbers = Pool::new(2, IDLE as usize, 0, true);
    let leases: Vec<_> = (0..IDLE).map(|_| lease(&pool, 1)).collect();
    for (lease, number) in leases.iter().zip(0..) {
        lease.make_idle(number);
    }
    let taken = Log::new();
    std::thread::scope(|scope| {
        for at in 0..2 {
            let (pool, taken) = (&pool, taken.clone());
            scope.spawn(move || {
                while let Acquired::Now(grant) = pool.acquire(at, false, |_| {}) {
                    taken.push(reused(grant));
                }
            });
        }
    });
    let mut taken = taken.take();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..IDLE));
}

#[test]
fn the_attempts_of_a_connect_hold_one_permit_until_all_have_ended() {
    let pool: Numbers = Pool::new(1, 1, 0, false);
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
fn a_fresh_one_is_made_although_one_is_idle_if_the_limit_allows() {
    let pool = Pool::new(1, 2, 0, false);
    let first = lease(&pool, 0);
    first.make_idle(1);
    let Acquired::Now(Grant::New(second)) = pool.acquire(0, true, |_| {}) else {
        panic!("the limit allows two");
    };
    let Acquired::Now(grant) = pool.acquire(0, true, |_| {}) else {
        panic!("one is idle");
    };
    assert_eq!(reused(grant), 1);
    drop((first, second));
    assert_eq!(pool.load(), (0, 0));
}

#[test]
fn waiting_calls_are_served_in_order_by_connections_and_by_permits() {
    let pool = Pool::new(1, 1, 3, false);
    let held = lease(&pool, 0);
    let log = Log::new();
    for _ in 0..3 {
        wait(&pool, &log);
    }
    assert!(matches!(pool.acquire(0, false, |_| {}), Acquired::Full));
    held.make_idle(7);
    assert_eq!(log.take().into_iter().map(reused).collect::<Vec<_>>(), [7]);
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
    let pool = Pool::new(1, 1, 1, false);
    let held = lease(&pool, 0);
    let log = Log::new();
    let ticket = wait(&pool, &log);
    assert!(matches!(pool.acquire(0, false, |_| {}), Acquired::Full));
    assert!(pool.leave(ticket));
    assert!(!pool.leave(ticket));
    let ticket = wait(&pool, &log);
    drop(held);
    assert!(!pool.leave(ticket), "its callback was called");
    assert_eq!(log.len(), 1);
}

#[test]
fn a_connection_that_ended_is_not_handed_out() {
    let pool = Pool::new(1, 2, 0, false);
    let (first, second) = (lease(&pool, 0), lease(&pool, 0));
    first.make_idle(1);
    second.make_idle(2);
    drop(second);
    assert_eq!(reused(now(&pool, 0)), 1);
    drop(first);
    assert_eq!(pool.load(), (0, 0));
}

#[test]
fn a_model_of_random_steps_never_exceeds_the_limit_and_loses_nothing() {
    let seeds = 0..u64::try_from(rounds(50)).unwrap();
    model(seeds, |rng| {
        let limit = 1 + rng.index(4);
        let pool: Numbers = Pool::new(2, limit, 5, rng.chance(0.5));
        let granted = Log::new();
        let mut tickets = Vec::new();
        let (mut busy, mut idle): (Vec<Lease<u32>>, Vec<Lease<u32>>) = Default::default();
        let (mut asked, mut left) = (0_usize, 0_usize);
        for _ in 0..400 {
            random_step(
                rng,
                &pool,
                &granted,
                &mut tickets,
                (&mut busy, &mut idle),
                (&mut asked, &mut left),
            );
            for grant in granted.take() {
                asked -= 1;
                match grant {
                    Grant::New(lease) => busy.push(lease),
                    Grant::Reused(one) => {
                        let id = u64::from(one.connection);
                        let at = idle.iter().position(|lease| lease.id() == id).unwrap();
                        busy.push(idle.remove(at));
                    }
                }
            }
            assert!(busy.len() + idle.len() <= limit);
            assert_eq!(pool.load(), (busy.len() + idle.len(), asked));
            assert!(
                asked == 0 || busy.len() == limit,
                "no call waits beside a free connection"
            );
        }
        drop((busy, idle));
        // A permit that is dropped goes to the next call that waits.
        while !granted.take().is_empty() {}
        assert_eq!(pool.load(), (0, 0));
    });
}

type Leases<'a> = (&'a mut Vec<Lease<u32>>, &'a mut Vec<Lease<u32>>);

fn random_step(
    rng: &mut Rng,
    pool: &Numbers,
    granted: &Log<Grant<u32>>,
    tickets: &mut Vec<super::super::pool::Ticket>,
    (busy, idle): Leases<'_>,
    (asked, left): (&mut usize, &mut usize),
) {
    match rng.below(5) {
        0 | 1 => {
            let log = granted.clone();
            *asked += 1;
            let then = move |grant| log.push(grant);
            match pool.acquire(rng.index(2), rng.chance(0.2), then) {
                Acquired::Now(grant) => granted.push(grant),
                Acquired::Later(ticket) => tickets.push(ticket),
                Acquired::Full => *asked -= 1,
            }
        }
        2 if !busy.is_empty() => {
            let lease = busy.swap_remove(rng.index(busy.len()));
            let number = u32::try_from(lease.id()).unwrap();
            idle.push(lease);
            let lease = idle.last().unwrap();
            lease.make_idle(number);
        }
        3 if !busy.is_empty() => drop(busy.swap_remove(rng.index(busy.len()))),
        4 if !tickets.is_empty() => {
            let ticket = tickets.swap_remove(rng.index(tickets.len()));
            if pool.leave(ticket) {
                *asked -= 1;
                *left += 1;
            }
        }
        _ if !idle.is_empty() => drop(idle.swap_remove(rng.index(idle.len()))),
        _ => {}
    }
}

#[test]
fn threads_share_the_limit_and_every_call_ends() {
    const LIMIT: usize = 3;
    let pool: Numbers = Pool::new(2, LIMIT, 1000, true);
    let (open, served) = (
        Arc::new(AtomicUsize::new(0)),
        tidegate_testkit::Counter::new(),
    );
    let calls = 4 * 500_u64;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, open, served) = (&pool, &open, &served);
            scope.spawn(move || {
                for _ in 0..500 {
                    let (own, counter) = (Arc::clone(open), served.clone());
                    let use_it = move |grant| {
                        // The connection lives as long as its lease.
                        if let Grant::New(lease) = grant {
                            assert!(own.fetch_add(1, Ordering::Relaxed) < LIMIT);
                            own.fetch_sub(1, Ordering::Relaxed);
                            drop(lease);
                        }
                        counter.hit();
                    };
                    let now = use_it.clone();
                    match pool.acquire(thread % 2, false, use_it) {
                        Acquired::Now(grant) => now(grant),
                        Acquired::Later(_) => {}
                        Acquired::Full => panic!("there is room for all"),
                    }
                }
            });
        }
    });
    served.wait_for(calls);
    assert_eq!((served.count(), pool.load()), (calls, (0, 0)));
}
