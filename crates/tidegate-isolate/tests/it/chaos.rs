//! Fifty dependencies, four of them broken in different ways, for a minute of virtual time: the
//! others are not affected, the totals add up, and no resource is leaked.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock};
use tidegate_isolate::{CommandError, Event};
use tidegate_testkit::{Gate, until};

use crate::support::{Numbers, builder, pool_of, still};

/// Every outcome of a call on threads or with permits; each call has exactly one.
const ENDS: [Event; 7] = [
    Event::Success,
    Event::Failure,
    Event::Timeout,
    Event::ShortCircuited,
    Event::PermitsRejected,
    Event::PoolRejected,
    Event::Cancelled,
];

const COMMANDS: usize = 50;
const TICK: Duration = Duration::from_millis(20);
const TICKS: usize = 3_000;
/// The number of calls of each command in a tick: a broken command is called above its capacity.
const CALLS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Health {
    Fine,
    Failing,
    Slow,
    Panicking,
    Hanging,
}

fn health_of(at: usize) -> Health {
    match at {
        7 => Health::Failing,
        19 => Health::Slow,
        23 => Health::Panicking,
        42 => Health::Hanging,
        _ => Health::Fine,
    }
}

/// Completes at its time.
struct Work {
    clock: ManualClock,
    ready: u64,
    health: Health,
}

impl Future for Work {
    type Output = Result<u32, &'static str>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.clock.nanos() < self.ready {
            return Poll::Pending;
        }
        match self.health {
            Health::Failing => Poll::Ready(Err("down")),
            Health::Panicking => panic!("on purpose"),
            _ => Poll::Ready(Ok(1)),
        }
    }
}

type Making = Box<dyn FnOnce(CancelToken) -> Work>;
type Flying = Pin<Box<dyn Future<Output = Result<u32, CommandError<&'static str>>>>>;

fn begin(command: &Numbers, clock: &ManualClock, health: Health) -> Flying {
    let takes = match health {
        Health::Hanging => Duration::from_secs(1_000_000),
        Health::Slow => TIMEOUT * 5,
        _ => TICK,
    };
    let ready = clock.nanos() + takes.as_nanos() as u64;
    let clock = clock.clone();
    let make: Making = Box::new(move |_| Work {
        clock,
        ready,
        health,
    });
    Box::pin(command.run_async(make))
}

fn poll(flying: &mut Flying) -> Option<Result<u32, CommandError<&'static str>>> {
    match flying
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn healthy_commands_do_not_notice_broken_ones() {
    let (clock, isolation) = still();
    let build = |at: usize| {
        let key = format!("dependency-{at}");
        builder(&key).timeout(TIMEOUT).build(&isolation).unwrap()
    };
    let commands: Vec<Numbers> = (0..COMMANDS).map(build).collect();
    let mut flying: Vec<Flying> = Vec::new();
    for _ in 0..TICKS {
        for (at, command) in commands.iter().enumerate() {
            for _ in 0..CALLS {
                let mut call = begin(command, &clock, health_of(at));
                if poll(&mut call).is_none() {
                    flying.push(call);
                }
            }
        }
        clock.advance(TICK);
        flying.retain_mut(|call| poll(call).is_none());
    }
    drop(flying);

    let made = (TICKS * CALLS) as u64;
    for (at, command) in commands.iter().enumerate() {
        let snapshot = command.snapshot();
        let totals = snapshot.totals;
        let ended: u64 = ENDS.iter().map(|event| totals[*event]).sum();
        assert_eq!(ended, made, "dependency {at}: {totals:?}");
        assert_eq!(snapshot.active, 0, "dependency {at} leaks permits");
        if health_of(at) == Health::Fine {
            assert_eq!(
                totals[Event::Success],
                made,
                "dependency {at} lost throughput"
            );
            let p99 = snapshot.latencies.total.percentile(99.0);
            assert!(p99 <= TICK + TICK / 20, "dependency {at} takes {p99:?}");
        } else {
            let short = totals[Event::ShortCircuited];
            assert!(
                short > made / 2,
                "dependency {at} was called although its breaker should be open: {totals:?}"
            );
        }
    }
}

/// Does the work of a call on a thread. Slow work obeys its cancel token, hanging work does not.
fn work(
    health: Health,
    end: &Gate,
) -> impl FnOnce(&CancelToken) -> Result<u32, &'static str> + use<> {
    let end = end.clone();
    move |cancel| match health {
        Health::Fine => Ok(1),
        Health::Failing => Err("down"),
        Health::Panicking => panic!("on purpose"),
        Health::Hanging => {
            end.wait();
            Ok(1)
        }
        Health::Slow => {
            let notified = Gate::new();
            let tell = notified.clone();
            let _hook = cancel.on_cancel(move || tell.open());
            notified.wait();
            Ok(1)
        }
    }
}

#[test]
fn healthy_pools_do_not_notice_broken_ones() {
    let (clock, isolation) = still();
    let build = |at: usize| {
        let key = format!("dependency-{at}");
        // Room for all calls of a tick, even if the thread has not returned from the last one.
        let command = builder(&key).pool(&*key).threads(pool_of(1, CALLS));
        command.timeout(TIMEOUT).build(&isolation).unwrap()
    };
    let commands: Vec<Numbers> = (0..COMMANDS).map(build).collect();
    let end = Gate::new();
    let mut broken = Vec::new();
    // Fewer ticks than with permits, but the same total time: each call needs a real thread.
    let (tick, ticks) = (TICK * 10, TICKS / 10);
    for _ in 0..ticks {
        for (at, command) in commands.iter().enumerate() {
            let health = health_of(at);
            let mut answers = [(); CALLS].map(|()| command.queue(work(health, &end)));
            if health == Health::Fine {
                for answer in answers {
                    assert_eq!(answer.wait().unwrap(), 1, "dependency {at}");
                }
            } else {
                answers.reverse();
                broken.extend(answers);
            }
        }
        clock.jump(tick);
    }
    clock.jump(TIMEOUT);
    let hangs = |key: &str| {
        let pools = isolation.pool_snapshots();
        let pool = pools.into_iter().find(|pool| pool.key.as_str() == key);
        pool.map(|pool| pool.overstaying)
    };
    assert_eq!(
        hangs("dependency-42"),
        Some(1),
        "it has its thread, and no other"
    );
    assert_eq!(hangs("dependency-3"), Some(0));
    end.open();
    for answer in broken {
        let _ = answer.wait();
    }
    let made = (ticks * CALLS) as u64;
    for (at, command) in commands.iter().enumerate() {
        until("no call is active", || command.snapshot().active == 0);
        let totals = command.snapshot().totals;
        let ended: u64 = ENDS.iter().map(|event| totals[*event]).sum();
        assert_eq!(ended, made, "dependency {at}: {totals:?}");
        let expected = if health_of(at) == Health::Fine {
            made
        } else {
            0
        };
        assert_eq!(totals[Event::Success], expected, "dependency {at}");
    }
    for pool in isolation.pool_snapshots() {
        assert_eq!((pool.queued, pool.overstaying), (0, 0), "{}", pool.key);
    }
}
