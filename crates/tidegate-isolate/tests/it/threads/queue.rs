//! The queue of a pool: CoDel and disciplines.

use std::time::Duration;

use tidegate_isolate::{Cause, Event, PoolConfig, QueueDiscipline, Rejection};
use tidegate_testkit::{Gate, Log};

use crate::support::{alone, cause, hold, pool, pool_of, set};

#[test]
fn codel_rejects_long_waiters_and_notifies_them() {
    let config = PoolConfig {
        discipline: QueueDiscipline::codel(),
        ..pool_of(1, 10)
    };
    let (clock, isolation, command) = alone(|c| c.threads(config).no_timeout());
    let gates = [(); 3].map(|()| Gate::new());
    let first = hold(&command, &gates[0]);
    let queue = |until: &Gate| {
        let (inside, until) = (Gate::new(), until.clone());
        let open = inside.clone();
        let answer = command.queue(move |_| {
            open.open();
            until.wait();
            Ok(1)
        });
        (answer, inside)
    };
    let (second, inside) = queue(&gates[1]);
    clock.jump(Duration::from_millis(50));
    gates[0].open();
    inside.wait();
    let stale = command.queue(|_| panic!("must not run"));
    // The shortest wait of an interval was 50 ms: a queue persists.
    clock.jump(Duration::from_millis(120));
    let (fresh, inside) = queue(&gates[2]);
    gates[1].open();
    inside.wait();
    assert_eq!(cause(stale), Cause::Rejected(Rejection::Pool));
    gates[2].open();
    for answer in [first, second, fresh] {
        answer.wait().unwrap();
    }
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 1);
    assert_eq!(pool(&isolation).rejected, 1);
}

#[test]
fn the_discipline_is_live() {
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 5)).no_timeout());
    let (go_on, log) = (Gate::new(), Log::new());
    let _held = hold(&command, &go_on);
    let queued = ["old", "new"].map(|name| {
        let log = log.clone();
        command.queue(move |_| {
            log.push(name);
            Ok(1)
        })
    });
    let after = Duration::from_millis(5);
    set(&command, |c| {
        c.pool.discipline = QueueDiscipline::LifoUnderOverload { after }
    });
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "old"]);
}

#[test]
fn the_queue_follows_its_discipline() {
    let discipline = QueueDiscipline::LifoUnderOverload {
        after: Duration::from_millis(5),
    };
    let config = PoolConfig {
        discipline,
        ..pool_of(1, 5)
    };
    let (clock, _isolation, command) = alone(|c| c.threads(config).no_timeout());
    let (go_on, log) = (Gate::new(), Log::new());
    let _held = hold(&command, &go_on);
    let queued: Vec<_> = ["old", "mid", "new"]
        .into_iter()
        .map(|name| {
            let log = log.clone();
            command.queue(move |_| {
                log.push(name);
                Ok(1)
            })
        })
        .collect();
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "mid", "old"]);
}
