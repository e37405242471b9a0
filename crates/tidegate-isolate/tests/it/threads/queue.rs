//! The queue of a pool: displacement, partitions, CoDel and disciplines.

use std::time::Duration;

use tidegate_isolate::{
    Cause, Criticality, Event, Partitions, PoolConfig, QueueDiscipline, Rejection,
};
use tidegate_testkit::{Gate, Log, until};

use crate::support::{builder, cause, hold, pool, pool_of, still};

#[test]
fn what_matters_more_displaces_what_matters_less() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 2))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let _held = hold(&command, &go_on);
    let call = |criticality| command.call().criticality(criticality).queue(|_| Ok(1));
    let normal = call(Criticality::Normal);
    let sheddable = call(Criticality::Sheddable);
    assert!(
        call(Criticality::Sheddable).is_done(),
        "no waiter is less critical"
    );
    let high = call(Criticality::High);
    assert_eq!(cause(sheddable), Cause::Rejected(Rejection::Pool));
    go_on.open();
    assert_eq!((normal.wait().unwrap(), high.wait().unwrap()), (1, 1));
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 2);
}

#[test]
fn what_is_reserved_of_a_pool_is_not_taken_by_others() {
    let (_clock, isolation) = still();
    let config = PoolConfig {
        partitions: Partitions {
            normal: 0.0,
            high: 0.25,
            critical: 0.25,
        },
        ..pool_of(2, 2)
    };
    let command = builder("a").threads(config).build(&isolation).unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let call = |criticality| command.call().criticality(criticality).queue(|_| Ok(1));
    let refused = call(Criticality::Normal);
    assert_eq!(cause(refused), Cause::Rejected(Rejection::Reserved));
    assert_eq!(pool(&isolation).queued, 0, "though there is a place");
    let high = call(Criticality::High);
    assert!(!high.is_done() && call(Criticality::High).is_done());
    let critical = call(Criticality::Critical);
    assert!(!critical.is_done() && call(Criticality::Critical).is_done());
    assert!(high.cancel() && critical.cancel(), "free again at once");
    let high = call(Criticality::High);
    let critical = call(Criticality::Critical);
    assert!(!high.is_done() && !critical.is_done());
    assert_eq!(pool(&isolation).rejected, 3);
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 3);
    go_on.open();
    for answer in held.into_iter().chain([high, critical]) {
        answer.wait().unwrap();
    }
    until("no call is active", || pool(&isolation).active == 0);
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "nothing is held any more");
    let too_much = Partitions {
        normal: 0.6,
        high: 0.6,
        critical: 0.0,
    };
    let error = command.configure(|c| c.pool.partitions = too_much);
    assert_eq!(error.unwrap_err().property(), "partitions");
    command
        .configure(|c| c.pool.partitions = Partitions::default())
        .unwrap();
    let go_on = Gate::new();
    let _held = [hold(&command, &go_on), hold(&command, &go_on)];
    assert!(!call(Criticality::Normal).is_done(), "it is live");
    go_on.open();
}

#[test]
fn codel_rejects_long_waiters_and_notifies_them() {
    let (clock, isolation) = still();
    let config = PoolConfig {
        discipline: QueueDiscipline::codel(),
        ..pool_of(1, 10)
    };
    let command = builder("a").threads(config).no_timeout();
    let command = command.build(&isolation).unwrap();
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
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 5))
        .no_timeout()
        .build(&isolation)
        .unwrap();
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
    command
        .configure(|c| c.pool.discipline = QueueDiscipline::LifoUnderOverload { after })
        .unwrap();
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "old"]);
}

#[test]
fn the_queue_follows_its_discipline() {
    let (clock, isolation) = still();
    let discipline = QueueDiscipline::LifoUnderOverload {
        after: Duration::from_millis(5),
    };
    let config = PoolConfig {
        discipline,
        ..pool_of(1, 5)
    };
    let command = builder("a")
        .threads(config)
        .no_timeout()
        .build(&isolation)
        .unwrap();
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
