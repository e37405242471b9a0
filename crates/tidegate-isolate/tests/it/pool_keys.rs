//! Keys and listeners of pools from outside: keys that come and go on several threads, an enum of the
//! program as a key, and queue sizes that mean direct hand-off.

use tidegate_isolate::{Bulkhead, Cause, Isolation, Key, Rejection};
use tidegate_testkit::{Gate, Log, Rng, model, rounds};

use crate::support::{
    builder, hold, isolated, made, pool, pool_of, set_property, still, with_properties,
};

/// The pools of a program.
#[derive(Clone, Copy, PartialEq)]
enum Pools {
    Legacy,
    Reports,
}

impl From<Pools> for Key {
    fn from(pool: Pools) -> Self {
        Self::from(match pool {
            Pools::Legacy => "legacy",
            Pools::Reports => "reports",
        })
    }
}

#[test]
fn a_key_is_interned_once_under_a_race_whatever_it_is_made_of() {
    for _ in 0..rounds(20) {
        let (_clock, isolation) = still();
        let start = Gate::new();
        let commands: Vec<_> = std::thread::scope(|scope| {
            let build = |n: usize| {
                let (isolation, start) = (&isolation, &start);
                move || {
                    let command = builder(&format!("key-{n}"));
                    let command = match n % 4 {
                        0 => command.pool(Pools::Legacy),
                        1 => command.pool("legacy"),
                        2 => command.pool(String::from("legacy")),
                        _ => command.pool(Pools::Reports),
                    };
                    start.wait();
                    command.threads(pool_of(1, 1)).build(isolation).unwrap()
                }
            };
            let built: Vec<_> = (0..8).map(|n| scope.spawn(build(n))).collect();
            start.open();
            built.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for (n, command) in commands.iter().enumerate() {
            let first = &commands[usize::from(n % 4 == 3) * 3];
            assert!(command.pool().is_same(first.pool()), "{n}");
            assert!(command.group().is_same(commands[0].group()), "{n}");
        }
        assert_eq!((isolation.pool_key_count(), isolation.pool_count()), (2, 2));
    }
}

/// Builds, changes and removes commands at random.
fn disturb(rng: &mut Rng, isolation: &Isolation) {
    let mut mine = Vec::new();
    for _ in 0..60 {
        let key = format!("key-{}", rng.below(6));
        let pool = [Pools::Legacy, Pools::Reports][rng.index(2)];
        match rng.below(5) {
            0 => {
                isolation.remove(&key);
            }
            1 => drop(mine.pop()),
            2 => {
                let snapshots = isolation.pool_snapshots();
                assert!(snapshots.len() <= 2, "{snapshots:?}");
                assert!(isolation.pool_key_count() <= 2);
            }
            _ => {
                let command = builder(&key).pool(pool);
                // Refused if the key has another pool.
                if let Ok(command) = command.build(isolation) {
                    let _ = command.configure(|c| {
                        (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 9));
                    });
                    assert_eq!(command.run(|_| Ok(1)), Ok(1));
                    mine.push(command);
                }
            }
        }
    }
}

#[test]
fn listeners_of_pools_agree_with_the_pools_whatever_comes_and_goes() {
    model(0..rounds(10) as u64, |rng| {
        let announced = Log::new();
        let note = announced.clone();
        let isolation = isolated(|i| i.on_pool_added(move |pool| note.push(pool.clone())));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (mut mine, isolation) = (rng.fork(), &isolation);
                scope.spawn(move || disturb(&mut mine, isolation));
            }
        });
        let announced = announced.take();
        for pool in isolation.pool_snapshots() {
            assert!(announced.contains(&pool.key), "{}", pool.key);
        }
        for n in 0..6 {
            isolation.remove(&format!("key-{n}"));
        }
        assert_eq!((isolation.pool_key_count(), isolation.pool_count()), (0, 0));
    });
}

#[test]
fn a_queue_size_of_zero_or_less_hands_over_to_a_thread_or_rejects() {
    for size in ["-1", "-2", "-2147483649", "0"] {
        let (properties, isolation) = with_properties();
        set_property(&properties, "hystrix.threadpool.a.maxQueueSize", size);
        let command = made(builder("a").threads(pool_of(1, 7)), &isolation);
        let go_on = Gate::new();
        let held = hold(&command, &go_on);
        let refused = command.run(|_| Ok(1)).unwrap_err();
        assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Pool), "{size}");
        assert_eq!(pool(&isolation).queued, 0);
        set_property(&properties, "hystrix.threadpool.a.maxQueueSize", "1");
        let queued = command.queue(|_| Ok(2));
        go_on.open();
        assert_eq!((held.wait().unwrap(), queued.wait().unwrap()), (0, 2));
    }
}
