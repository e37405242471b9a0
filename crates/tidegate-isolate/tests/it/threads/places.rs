//! The places of a pool: displacement and partitions.

use tidegate_isolate::{Cause, Criticality, Event, Partitions, PoolConfig, Rejection};
use tidegate_testkit::{Gate, until};

use super::kit::alone;
use crate::support::{cause, hold, pool, pool_of, set};

#[test]
fn what_matters_more_displaces_what_matters_less() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 2)));
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
    let config = PoolConfig {
        partitions: Partitions {
            normal: 0.0,
            high: 0.25,
            critical: 0.25,
        },
        ..pool_of(2, 2)
    };
    let (_clock, isolation, command) = alone(|c| c.threads(config));
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
    set(&command, |c| c.pool.partitions = Partitions::default());
    let go_on = Gate::new();
    let _held = [hold(&command, &go_on), hold(&command, &go_on)];
    assert!(!call(Criticality::Normal).is_done(), "it is live");
    go_on.open();
}
