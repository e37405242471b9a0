//! What a thread of a pool does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_sync::{
    ClockMember, Executor, FastClock, LookOn, Next, Running, Seat, Slept, Stance, contain, enter,
};

use super::job::Job;
use super::shared::Shared;
use super::times::Took;

tidegate_sync::prim::thread_local! {
    /// The job that this thread runs has said that it is about to end, and the desk knows.
    static COMING: Cell<bool> = const { Cell::new(false) };
}

/// Says that the job which the calling thread runs for `shared` is about to end. Once per job.
pub(super) fn is_coming(shared: &Shared) {
    if !COMING.with(|coming| coming.replace(true)) {
        shared.desk.turn().coming += 1;
    }
}

/// Runs jobs until the desk says that the thread may leave.
pub(super) fn run(shared: &Arc<Shared>, seat: &Arc<Seat<Job>>, mut member: ClockMember) {
    member.enter();
    let running = Arc::new(Running::default());
    let mark = enter(Arc::clone(shared) as Arc<dyn Executor>, Stance::Free);
    let entered = running.enter();
    let thread = std::thread::current().name().unwrap_or("?").to_owned();
    let number = shared.desk.turn().enroll(thread, Arc::clone(&running));
    let mut worker = Worker {
        shared,
        seat,
        running: &running,
        number,
        look: LookOn::new(),
        done: 0,
        took: None,
        last: false,
    };
    let mut job = seat.try_take();
    while let Some(next) = job.take().or_else(|| worker.next_contained()) {
        worker.run(next);
    }
    let last = worker.last;
    drop(entered);
    drop(mark);
    if last {
        shared.end(Vec::new());
    }
}

struct Worker<'a> {
    shared: &'a Arc<Shared>,
    seat: &'a Arc<Seat<Job>>,
    running: &'a Arc<Running>,
    number: u64,
    look: LookOn,
    /// Jobs run and not counted yet: 0 or 1.
    done: u64,
    /// What the last job took, if that is measured.
    took: Option<Took>,
    /// It is the last thread of a stopped pool.
    last: bool,
}

impl Worker<'_> {
    /// The next job. A queue of the user's that panics costs the pool this thread.
    fn next_contained(&mut self) -> Option<Job> {
        let mut next = None;
        if let Err(panic) = contain(|| next = self.next()) {
            self.shared.hear_panic("the queue of a pool", panic);
            let mut turn = self.shared.desk.turn();
            turn.uncount_thread();
            turn.strike(self.number);
            self.last = turn.is_closed() && turn.threads() == 0;
        }
        next
    }

    /// The next job; `None` when the thread leaves.
    fn next(&mut self) -> Option<Job> {
        let has_come = COMING.with(|coming| coming.replace(false));
        let mut turn = self.shared.desk.turn();
        turn.coming -= usize::from(has_come);
        turn.counts
            .add_done(std::mem::take(&mut self.done), self.took.take());
        match turn.next(self.seat) {
            Next::Run(job) => {
                self.shared.end_turn(turn);
                Some(job)
            }
            Next::Wait { look } => {
                self.shared.end_turn(turn);
                self.wait(look)
            }
            Next::Leave => {
                turn.strike(self.number);
                self.last = turn.is_closed() && turn.threads() == 0;
                self.shared.end_turn(turn);
                None
            }
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
        self.running.begin(&task);
        let name = task.name();
        let clock = self.shared.times.as_ref();
        let began = clock.map(FastClock::nanos);
        if let Err(panic) = contain(|| task.run()) {
            self.shared.hear_panic(name, panic);
        }
        self.running.idle();
        if let (Some(clock), Some(began)) = (clock, began) {
            self.took = Some(Took {
                waited: began.saturating_sub(since),
                ran: clock.nanos().saturating_sub(began),
            });
        }
    }

    /// Looks on for a while, then sleeps, until there is a job or the thread leaves.
    fn wait(&mut self, look: bool) -> Option<Job> {
        let Self { shared, seat, .. } = *self;
        if look && !shared.clock.is_manual() {
            let _given = self.look.look_on(|| seat.is_given());
            if let Some(job) = seat.try_take() {
                return Some(job);
            }
        }
        let mut since = shared.clock.nanos();
        loop {
            let keep_alive = shared.keep_alive();
            let deadline = (keep_alive > 0).then(|| since.saturating_add(keep_alive));
            match seat.sleep(&shared.clock, deadline) {
                Slept::Given { job, asleep } => {
                    if asleep {
                        self.arrive();
                    }
                    return Some(job);
                }
                Slept::Woken => {
                    let now = shared.clock.nanos();
                    let keep_alive = shared.keep_alive();
                    let expired = keep_alive > 0 && now >= since.saturating_add(keep_alive);
                    if self.leaves(expired) {
                        return None;
                    }
                    if expired {
                        since = now;
                    }
                }
            }
        }
    }

    /// Says that the woken thread is there; another one may be needed.
    fn arrive(&self) {
        let mut turn = self.shared.desk.turn();
        let wake = turn.arrived();
        turn.counts.wakeups += u64::from(wake.is_some());
        self.shared.end_turn(turn);
        drop(wake);
    }

    fn leaves(&mut self, expired: bool) -> bool {
        let mut turn = self.shared.desk.turn();
        if !matches!(turn.again(self.seat, expired), Next::Leave) {
            return false;
        }
        turn.strike(self.number);
        self.last = turn.is_closed() && turn.threads() == 0;
        self.shared.end_turn(turn);
        true
    }
}
