//! A queue of the user's own that is hostile: values whose drop panics or uses the pool, and methods
//! that end the pool. No job is lost, no thread of the pool dies, and the queue is named.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{JobHandle, PoolPolicy, WorkerPool};
use tidegate_testkit::{Bomb, Counter, DropCount, Gate, explode};

use super::users_queue::heard;
use super::{fixed, hold, release};
use crate::SECOND;

/// What a queue does in place of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    RunsABomb,
    ShedsABomb,
    RemovesABomb,
    DisplacesABomb,
    RunsAFuse,
    RemovesAFuse,
    DisplacesAFuse,
    ExplodesInPush,
    ExplodesInPop,
    ExplodesInRemove,
    ExplodesInDisplace,
    ExplodesInLen,
}

impl Deed {
    fn lights_a_fuse(self) -> bool {
        matches!(
            self,
            Self::RunsAFuse | Self::RemovesAFuse | Self::DisplacesAFuse
        )
    }
}

/// A queue that does its deed once it has three jobs. Its own drop panics, too.
struct Hostile {
    jobs: JobList,
    deed: Deed,
    is_due: bool,
    _drop: Bomb,
}

impl Hostile {
    fn new(deed: Deed) -> Self {
        Self {
            jobs: JobList::default(),
            deed,
            is_due: false,
            _drop: Bomb::new(),
        }
    }

    fn does(&self, deed: Deed) -> bool {
        self.is_due && self.deed == deed
    }

    fn explodes_in(&self, deed: Deed) {
        if self.does(deed) {
            explode();
        }
    }
}

/// A job of no pool, whose drop panics.
fn bomb() -> Job {
    let bomb = Bomb::new();
    Job::new(Task::new(move || drop(bomb)))
}

/// Adds a token to a job of the pool, so that the drop of the job panics.
fn fuse(job: Job) -> Job {
    let (token, bomb) = (CancelToken::new(), Bomb::new());
    token.on_cancel(move || drop(bomb)).forget();
    job.token(&token)
}

impl JobQueue for Hostile {
    fn push(&mut self, job: Job) -> JobKey {
        self.is_due |= self.jobs.len() == 2;
        self.explodes_in(Deed::ExplodesInPush);
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.explodes_in(Deed::ExplodesInPop);
        if self.does(Deed::RunsABomb) {
            return Some(Popped::Run(bomb()));
        }
        if self.does(Deed::ShedsABomb) {
            return Some(Popped::Shed(bomb()));
        }
        let job = self.jobs.pop_back()?;
        Some(Popped::Run(match self.does(Deed::RunsAFuse) {
            true => fuse(job),
            false => job,
        }))
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.explodes_in(Deed::ExplodesInRemove);
        if self.does(Deed::RemovesABomb) {
            return Some(bomb());
        }
        let job = self.jobs.remove(key)?;
        Some(match self.does(Deed::RemovesAFuse) {
            true => fuse(job),
            false => job,
        })
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.explodes_in(Deed::ExplodesInDisplace);
        if self.does(Deed::DisplacesABomb) {
            return Some(bomb());
        }
        let job = self.jobs.pop_front()?;
        Some(match self.does(Deed::DisplacesAFuse) {
            true => fuse(job),
            false => job,
        })
    }

    fn len(&self) -> usize {
        self.explodes_in(Deed::ExplodesInLen);
        self.jobs.len()
    }
}

#[test]
fn values_and_panics_of_a_queue_whose_drop_panics_cost_neither_a_job_nor_a_thread() {
    for deed in [
        Deed::RunsABomb,
        Deed::ShedsABomb,
        Deed::RemovesABomb,
        Deed::DisplacesABomb,
        Deed::RunsAFuse,
        Deed::RemovesAFuse,
        Deed::DisplacesAFuse,
        Deed::ExplodesInPush,
        Deed::ExplodesInPop,
        Deed::ExplodesInRemove,
        Deed::ExplodesInDisplace,
        Deed::ExplodesInLen,
    ] {
        let clock = ManualClock::new();
        let (hook, errors) = heard();
        let pool = fixed(&clock, 1, 4).queue_of(Hostile::new(deed));
        let pool = pool.policy(PoolPolicy::DropOldest).report_to(hook.clone());
        let pool = pool.build().unwrap();
        let (gate, made, dropped) = (hold(&pool), Counter::new(), Counter::new());
        let job = || {
            made.hit();
            let held = DropCount::new(&dropped);
            Task::new(move || drop(held))
        };
        // The first job that runs takes out the second, of which the queue knows, and then submits
        // more than there is room for.
        let second = Arc::<Mutex<Option<JobHandle>>>::default();
        let (taken_out, busy) = (Arc::clone(&second), Counter::new());
        let mut more: Vec<Task> = (0..6).map(|_| job()).collect();
        let submits = pool.clone();
        let more = Arc::new(Mutex::new(std::mem::take(&mut more)));
        for number in 0..4 {
            let (held, taken_out, busy) = (job(), Arc::clone(&taken_out), busy.clone());
            let (submits, more) = (submits.clone(), Arc::clone(&more));
            let accepted = pool.enqueue(Task::new(move || {
                held.run();
                busy.hit();
                drop(
                    taken_out
                        .lock()
                        .unwrap()
                        .take()
                        .and_then(|job| job.remove()),
                );
                for task in std::mem::take(&mut *more.lock().unwrap()) {
                    drop(submits.execute_task(task));
                }
            }));
            if number == 1 {
                *second.lock().unwrap() = Some(accepted.unwrap());
            }
        }
        drop(submits);
        release(&clock, vec![gate]);
        assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7, "{deed:?}");
        hook.flush().unwrap();
        let errors = errors.take();
        // A token drops its hooks in containment, so a job with a fuse does no harm.
        assert_eq!(
            errors.is_empty(),
            deed.lights_a_fuse(),
            "{deed:?}: {errors:?}"
        );
        let names_queue = |one: &String| one.starts_with("the queue of pool `workers` failed");
        assert!(
            errors.len() <= 1 && errors.iter().all(names_queue),
            "{errors:?}"
        );
        clock.settle();
        let metrics = pool.metrics();
        assert_eq!((metrics.threads, metrics.queued), (1, 0), "{deed:?}");
        let gone = metrics.displaced + metrics.removed + metrics.shed;
        assert_eq!(metrics.accepted, metrics.done + gone, "{deed:?}");
        let report = pool.shutdown(SECOND).wait().unwrap();
        assert!(report.handed_back.is_empty() && report.stuck.is_empty());
        assert_eq!(dropped.count(), made.count(), "{deed:?}");
    }
}

/// Uses the pool and panics when it is dropped.
struct UsesPool(WorkerPool, Counter);

impl Drop for UsesPool {
    fn drop(&mut self) {
        let _ = (self.0.metrics(), self.0.limits(), self.0.dump());
        drop(self.0.execute(|| ()));
        self.1.hit();
        drop(Bomb::new());
    }
}

/// Creates a job with a token whose last drop uses the pool and panics.
fn with_token(pool: &WorkerPool, drops: &Counter) -> Job {
    let (token, used) = (CancelToken::new(), UsesPool(pool.clone(), drops.clone()));
    token.on_cancel(move || drop(used)).forget();
    Job::new(Task::new(|| ())).token(&token)
}

#[test]
fn a_token_that_goes_with_the_queue_may_use_the_pool_and_panic() {
    let over = Counter::new();
    for way in 0..3 {
        let over = over.clone();
        // On a thread of its own: a wait for ever is a failure.
        let test = move || {
            let clock = ManualClock::new();
            let (hook, _errors) = heard();
            let pool = fixed(&clock, 1, 600).queue_of(Hostile::new(Deed::ExplodesInPop));
            let pool = pool.report_to(hook).build().unwrap();
            let (gate, drops) = (hold(&pool), Counter::new());
            // The queue has not heard of these jobs, which have left.
            for _ in 0..20 {
                let job = pool.enqueue(with_token(&pool, &drops)).unwrap();
                drop(job.remove().unwrap());
            }
            match way {
                // They are forgotten when there are many of them.
                0 => {
                    for _ in 0..300 {
                        drop(pool.enqueue(Task::new(|| ())).unwrap().remove());
                    }
                }
                // They are dropped at the end.
                1 => drop(pool.shutdown(Duration::ZERO)),
                // They are dropped when the queue is given up.
                _ => {
                    for _ in 0..3 {
                        pool.execute(|| ()).unwrap();
                    }
                    gate.open();
                    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
                }
            }
            gate.open();
            drops.wait_for(20);
            assert_eq!(pool.metrics().panics, 0);
            pool.shutdown(SECOND).wait().unwrap();
            over.hit();
        };
        thread::Builder::new().spawn(test).unwrap();
    }
    over.wait_for(3);
}

/// What a method of the queue does with its pool.
type Act = Arc<Mutex<Option<Box<dyn FnMut(&str) + Send>>>>;

/// A queue that calls a function in each of its methods.
#[derive(Default)]
struct Acts {
    jobs: JobList,
    act: Act,
}

impl Acts {
    fn act(&self, method: &str) {
        if let Ok(mut act) = self.act.try_lock()
            && let Some(act) = &mut *act
        {
            act(method);
        }
    }
}

impl JobQueue for Acts {
    fn push(&mut self, job: Job) -> JobKey {
        self.act("push");
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.act("pop");
        self.jobs.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.act("remove");
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.act("displace");
        self.jobs.pop_front()
    }

    fn len(&self) -> usize {
        self.act("len");
        self.jobs.len()
    }
}

/// Ends the pool in one of three ways in `method` of its queue.
fn ends_in(method: &'static str, way: u32) {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let queue = Acts::default();
    let act = Arc::clone(&queue.act);
    let pool = fixed(&clock, 2, 4).queue_of(queue).report_to(hook.clone());
    let pool = pool.policy(PoolPolicy::DropOldest).build().unwrap();
    let (made, dropped, ran) = (Counter::new(), Counter::new(), Counter::new());
    let job = || {
        made.hit();
        let (held, ran) = (DropCount::new(&dropped), ran.clone());
        Task::new(move || {
            ran.hit();
            drop(held);
        })
    };
    let gates = [hold(&pool), hold(&pool)];
    let mut handles: Vec<_> = (0..3).map(|_| pool.enqueue(job()).unwrap()).collect();
    // The queue hears of the jobs before one of them is removed.
    gates[0].open();
    ran.wait_for(3);
    handles.clear();
    let again = hold(&pool);
    for _ in 0..4 {
        handles.push(pool.enqueue(job()).unwrap());
    }
    let mut mine = Some(pool.clone());
    let ended = Gate::new();
    let told = ended.clone();
    *act.lock().unwrap() = Some(Box::new(move |called: &str| {
        if called != method {
            return;
        }
        let Some(pool) = mine.take() else { return };
        assert!(!pool.dump().facts().is_empty());
        match way {
            0 => drop(pool.shutdown(Duration::ZERO)),
            1 => drop(pool.shutdown(60 * SECOND)),
            // Perhaps the last handle.
            _ => drop(pool),
        }
        told.open();
    }));
    // Asks the queue which job makes room, and then about a job that leaves.
    drop(pool.execute_task(job()));
    drop(handles.pop().and_then(|job| job.remove()));
    let back = pool.handed_back();
    let end = pool.termination();
    drop(handles);
    drop(pool);
    gates[1].open();
    again.open();
    ended.wait();
    end.wait().unwrap();
    drop(act.lock().unwrap().take());
    back.take().into_iter().for_each(Task::run);
    drop((end, back));
    tidegate_testkit::until("each job has ended", || dropped.count() == made.count());
    hook.flush().unwrap();
    assert!(errors.is_empty(), "{method} {way}: {:?}", errors.take());
}

#[test]
fn a_queue_may_end_its_pool_in_each_method() {
    for method in ["push", "pop", "remove", "displace", "len"] {
        for way in 0..3 {
            ends_in(method, way);
        }
    }
}
