//! Parts of a pool that the program supplies: a queue, a thread factory, an executor. A part that
//! breaks its contract is reported with its name, and all other pools go on.

mod queues;
mod reentry;
mod strategies;
mod threads;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tidegate_core::{ManualClock, Task, Unhandled};
use tidegate_isolate::{ConcurrencyStrategy, Isolation, IsolationBuilder};
use tidegate_pool::queue::{Job, JobKey, JobQueue, Popped};
use tidegate_testkit::Log;

use crate::support::{Answer, Numbers, builder, pool_of};

/// A queue of the program: first in, first out. The least critical call makes room.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    calls: VecDeque<(JobKey, Job)>,
    newest: u64,
}

impl JobQueue for Plain {
    fn push(&mut self, call: Job) -> JobKey {
        self.newest += 1;
        self.calls.push_back((JobKey(self.newest), call));
        JobKey(self.newest)
    }

    fn pop(&mut self) -> Option<Popped> {
        Some(Popped::Run(self.calls.pop_front()?.1))
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        let at = self.calls.iter().position(|(one, _)| *one == key);
        Some(self.calls.remove(at.expect("it knows what leaves"))?.1)
    }

    fn displace(&mut self, by: &Job) -> Option<Job> {
        let rank = |at: &usize| self.calls[*at].1.criticality();
        let least = (0..self.calls.len()).min_by_key(rank)?;
        let makes_room = rank(&least) < by.criticality();
        makes_room
            .then(|| self.calls.remove(least))?
            .map(|(_, call)| call)
    }
}

/// Runs a task on a thread of its own.
pub(crate) fn on_a_thread(name: &str, task: Task) -> Result<(), Task> {
    let place = Arc::new(Mutex::new(Some(task)));
    let mine = Arc::clone(&place);
    let run = move || {
        let task = mine.lock().unwrap().take();
        if let Some(task) = task {
            task.run();
        }
    };
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    match started {
        Ok(_) => Ok(()),
        Err(_) => Err(place.lock().unwrap().take().expect("nobody runs it")),
    }
}

/// Builds an isolation whose pools named `a` have these parts, and a receiver of what fails.
pub(super) fn with_parts(
    parts: impl Fn() -> ConcurrencyStrategy + Send + Sync + 'static,
) -> (ManualClock, Isolation, Receiver<String>) {
    let clock = ManualClock::new();
    let (tell, told) = channel();
    let isolation = reporting(tell)
        .clock(&clock)
        .concurrency_strategy(move |pool| match &**pool {
            "a" => parts(),
            _ => ConcurrencyStrategy::default(),
        });
    (clock, isolation.build().unwrap(), told)
}

pub(super) fn reporting(tell: Sender<String>) -> IsolationBuilder {
    Isolation::builder().on_unhandled(move |_, what| {
        if let Unhandled::PartFailed { .. } = what {
            tell.send(what.to_string()).unwrap();
        }
    })
}

/// Checks that another pool of the same isolation works.
pub(super) fn others_go_on(isolation: &Isolation) {
    let other = builder("other").threads(pool_of(1, 1)).build(isolation);
    assert_eq!(other.unwrap().run(|_| Ok(3)), Ok(3), "the rest goes on");
}

/// Queues calls that note their numbers while the only thread is busy.
pub(super) fn queue_up(
    command: &Numbers,
    log: &Log<u32>,
    numbers: std::ops::Range<u32>,
) -> Vec<Answer> {
    let call = |n: u32| {
        let log = log.clone();
        command.queue(move |_| {
            log.push(n);
            Ok(n)
        })
    };
    numbers.map(call).collect()
}
