//! What a thread of a pool does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{ClockMember, Executor, FastClock, LookOn, Stance, contain, enter, is_current};

use crate::pool::queue::Job;
use crate::pool::raw::{Next, Slept};

use super::counts::Took;
use super::lanes::{Post, Purpose};
use super::shared::{PoolTurn, Shared};

/// Panics of a queue in a row after which a thread gives up.
const QUEUE_PANICS: u32 = 2;

tidegate_core::prim::thread_local! {
    /// The job that this thread runs has said that it is about to end, and the desk knows.
    static COMING: Cell<bool> = const { Cell::new(false) };
}

impl Shared {
    /// A job of this pool says that it is about to end. Where there is a queue its thread finds
    /// what came meanwhile there. Once per job.
    pub(crate) fn about_to_end(&self) {
        if !self.has_queue() && is_current(self.id) && !COMING.with(|coming| coming.replace(true)) {
            self.desk.turn().coming += 1;
        }
    }
}

/// Runs jobs until the desk says that the thread may leave.
pub(crate) fn run(
    shared: &Arc<Shared>,
    post: &Arc<Post>,
    mut member: ClockMember,
    purpose: Purpose,
) {
    member.enter();
    let mark = enter(Arc::clone(shared) as Arc<dyn Executor>, Stance::Free);
    let entered = post.running.enter();
    let name = || std::thread::current().name().unwrap_or("?").to_owned();
    post.thread.get_or_init(name);
    let mut worker = Worker {
        shared,
        post,
        look: LookOn::new(),
        done: 0,
        took: None,
        last: false,
    };
    let mut job = worker.contained(match purpose {
        Purpose::Waiting => Worker::first_of_waiting,
        Purpose::OwnJob | Purpose::Spare => Worker::first,
    });
    while let Some(next) = job {
        worker.run(next);
        job = worker.contained(Worker::next);
    }
    let last = worker.last;
    drop(entered);
    drop(mark);
    if last {
        shared.end();
    }
}

struct Worker<'a> {
    shared: &'a Arc<Shared>,
    post: &'a Arc<Post>,
    look: LookOn,
    /// Jobs run and not counted yet: 0 or 1.
    done: u64,
    /// What the last job took, if that is measured.
    took: Option<Took>,
    /// It is the last thread of a stopped pool.
    last: bool,
}

impl Worker<'_> {
    /// The next job. A queue of the user's that panics again and again costs the pool this thread.
    fn contained(&mut self, mut take: fn(&mut Self) -> Option<Job>) -> Option<Job> {
        for _ in 0..QUEUE_PANICS {
            let mut next = None;
            let Err(panic) = contain(|| next = take(self)) else {
                return next;
            };
            self.shared.hear_panic("the queue of a pool", panic);
            take = Self::next;
        }
        let mut turn = self.shared.desk.turn();
        turn.uncount_thread();
        self.leave(&mut turn);
        None
    }

    /// The next job; `None` when the thread leaves.
    fn next(&mut self) -> Option<Job> {
        let has_come = COMING.with(|coming| coming.replace(false));
        let mut turn = self.shared.desk.turn();
        turn.coming -= usize::from(has_come);
        self.post.running.idle();
        turn.counts
            .add_done(std::mem::take(&mut self.done), self.took.take());
        let next = turn.next(&self.post.seat);
        self.settle(&mut turn, &next);
        self.shared.end_turn(turn, || ());
        match next {
            Next::Run(job) => Some(job),
            Next::Wait { look } => self.wait(look),
            Next::Leave => None,
        }
    }

    /// The job that the thread was started with, or whatever there is.
    fn first(&mut self) -> Option<Job> {
        let own = self.post.seat.try_take_with(|job| self.begin(job));
        own.or_else(|| self.next())
    }

    /// The first job of a thread that was started for what waits; another may be needed.
    fn first_of_waiting(&mut self) -> Option<Job> {
        let mut turn = self.shared.desk.turn();
        let (next, sent) = turn.started(&self.post.seat);
        self.settle(&mut turn, &next);
        self.shared.follow(turn, sent);
        match next {
            Next::Run(job) => Some(job),
            Next::Wait { look } => self.wait(look),
            Next::Leave => None,
        }
    }

    fn run(&mut self, job: Job) {
        self.done += 1;
        if job.is_cancelled() {
            self.shared.tells.cancelled.fetch_add(1, Ordering::Relaxed);
            let name = job.name();
            if let Err(panic) = contain(|| drop(job)) {
                self.shared.hear_panic(name, panic);
            }
            return;
        }
        let since = job.since;
        let task = job.into_task();
        let name = task.name();
        let clock = self.shared.times.as_ref();
        let began = clock.map(FastClock::nanos);
        if let Err(panic) = contain(|| task.run()) {
            self.shared.hear_panic(name, panic);
        }
        if let (Some(clock), Some(began)) = (clock, began) {
            self.took = Some(Took {
                waited: began.saturating_sub(since),
                ran: clock.nanos().saturating_sub(began),
            });
        }
    }

    /// Looks on for a while, then sleeps, until there is a job or the thread leaves.
    fn wait(&mut self, look: bool) -> Option<Job> {
        let Self { shared, post, .. } = *self;
        let seat = &post.seat;
        if look && !shared.clock.is_manual() {
            let _given = self.look.look_on(|| seat.is_given());
            if let Some(job) = seat.try_take_with(|job| self.begin(job)) {
                shared.look_at_low();
                return Some(job);
            }
        }
        let mut since = shared.clock.nanos();
        loop {
            let keep_alive = shared.keep_alive();
            let deadline = (keep_alive > 0).then(|| since.saturating_add(keep_alive));
            match seat.sleep_with(&shared.clock, deadline, |job| self.begin(job)) {
                Slept::Given { job, asleep } => {
                    match asleep {
                        // Another one may be needed.
                        true => shared.relieve(|turn| turn.arrived()),
                        false => shared.look_at_low(),
                    }
                    return Some(job);
                }
                // What the runtime has accepted since the end may wait.
                Slept::Closed => return self.next(),
                Slept::Woken => {
                    let now = shared.clock.nanos();
                    let keep_alive = shared.keep_alive();
                    let expired = keep_alive > 0 && now >= since.saturating_add(keep_alive);
                    match self.again(expired) {
                        Next::Run(job) => return Some(job),
                        Next::Leave => return None,
                        Next::Wait { .. } if expired => since = now,
                        Next::Wait { .. } => {}
                    }
                }
            }
        }
    }

    fn again(&mut self, expired: bool) -> Next<Job> {
        let mut turn = self.shared.desk.turn();
        let next = turn.again(&self.post.seat, expired);
        self.settle(&mut turn, &next);
        self.shared.end_turn(turn, || ());
        next
    }

    /// Shows what was decided while the turn lasts: a job that can no longer be handed back is seen
    /// to run by whoever ends the pool.
    #[inline]
    fn settle(&mut self, turn: &mut PoolTurn<'_>, next: &Next<Job>) {
        match next {
            Next::Run(job) => self.begin(job),
            Next::Wait { .. } => {}
            Next::Leave => self.leave(turn),
        }
    }

    #[inline]
    fn begin(&self, job: &Job) {
        self.post.running.begin(job.task());
    }

    /// The thread is not counted any more.
    #[cold]
    fn leave(&mut self, turn: &mut PoolTurn<'_>) {
        turn.strike(self.post);
        turn.counts.ended_threads += 1;
        self.last = turn.is_closed() && turn.threads() == 0;
    }
}
