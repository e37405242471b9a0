//! Fifty dependencies, four of them broken each in its own way, for a minute of virtual time: the
//! others notice nothing, the totals add up, and nothing is left behind.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_isolate::{CommandError, Event, RunAsync};
use tidegate_sync::{CancelToken, ManualClock};

use crate::support::{Numbers, builder, still};

const COMMANDS: usize = 50;
const TICK: Duration = Duration::from_millis(20);
const TICKS: usize = 3_000;
/// How many calls of each command come in a tick: a broken one is called above its capacity.
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

/// Answers when its time has come.
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
type Flying = Pin<Box<RunAsync<u32, &'static str, Making, Work>>>;

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
        let ends = [
            Event::Success,
            Event::Failure,
            Event::Timeout,
            Event::ShortCircuited,
            Event::PermitsRejected,
            Event::Cancelled,
        ];
        let ended: u64 = ends.iter().map(|event| totals[*event]).sum();
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
                "dependency {at} was called in vain: {totals:?}"
            );
        }
    }
}
