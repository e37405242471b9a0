//! A view over an executor that refuses: accepted tasks run or are handed back, and no others.

use std::sync::{Arc, Mutex};
use std::thread;

use tidegate_core::executor::{ExecutorId, Signal, is_current};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, ThreadBuilder};
use tidegate_pool::OrderedView;
use tidegate_testkit::{Counter, Gate, Log, model, until, yield_times};

use super::pool::Pool;

type Script = Box<dyn FnOnce() + Send>;

/// Refuses every task, after running a script in the middle of the refusal. Accepts or refuses
/// signals.
struct Picky {
    id: ExecutorId,
    clock: Clock,
    meanwhile: Mutex<Option<Script>>,
    signals: Result<(), RejectReason>,
    taken: Mutex<Vec<Signal>>,
}

impl Picky {
    fn new(signals: Result<(), RejectReason>) -> Arc<Self> {
        Arc::new(Self {
            id: ExecutorId::next(),
            clock: Clock::system(),
            meanwhile: Mutex::default(),
            signals,
            taken: Mutex::default(),
        })
    }

    /// Creates a view over this executor. `meanwhile` is submitted to it while its own first task
    /// is refused.
    fn view(self: &Arc<Self>, meanwhile: impl FnOnce() + Send + 'static) -> OrderedView {
        let view = OrderedView::over(Arc::clone(self) as _).expect("it is not ordered");
        let other = view.clone();
        let script = move || other.execute(meanwhile).expect("a turn is under way");
        *self.meanwhile.lock().expect("no panic") = Some(Box::new(script));
        view
    }
}

impl Executor for Picky {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        let script = self.meanwhile.lock().expect("no panic").take();
        if let Some(script) = script {
            script();
        }
        Err(Rejected::new(task, RejectReason::Full))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.signals {
            Ok(()) => {
                self.taken.lock().expect("no panic").push(signal);
                Ok(())
            }
            Err(why) => Err(Rejected::new(signal, why)),
        }
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "picky"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        2
    }
}

#[test]
fn a_task_that_trusted_a_refused_turn_goes_by_signal() {
    let (picky, ran) = (Picky::new(Ok(())), Counter::new());
    let view = picky.view(ran.hits());
    let refused = view.execute(|| panic!("never runs")).unwrap_err();
    assert_eq!((refused.why(), ran.count()), (RejectReason::Full, 0));
    let taken = std::mem::take(&mut *picky.taken.lock().unwrap());
    assert_eq!(taken.len(), 1);
    taken.into_iter().for_each(Signal::deliver);
    assert_eq!(
        (ran.count(), view.pending_tasks(), view.panics()),
        (1, 0, 0)
    );
}

#[test]
fn a_task_that_trusted_a_refused_turn_is_handed_back_at_the_end() {
    let (picky, ran) = (Picky::new(Err(RejectReason::Closed)), Counter::new());
    let view = picky.view(ran.hits());
    drop(view.execute(|| panic!("never runs")).unwrap_err());
    let back = view.handed_back().take();
    assert_eq!((back.len(), ran.count()), (1, 0));
    assert_eq!(view.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
}

#[test]
fn a_task_that_trusted_a_refused_turn_runs_here_if_no_thread_can_be_had() {
    let (picky, log) = (Picky::new(Err(RejectReason::NoThread)), Log::new());
    let seen = log.clone();
    let view = picky.view(move || seen.push(thread::current().id()));
    drop(view.execute(|| panic!("never runs")).unwrap_err());
    assert_eq!(log.take(), [thread::current().id()]);
    let refused = view.execute(|| ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full, "the view is still open");
}

#[test]
fn a_signal_dropped_by_a_dying_executor_hands_back() {
    let (picky, ran) = (Picky::new(Ok(())), Counter::new());
    let view = picky.view(ran.hits());
    drop(view.execute(|| panic!("never runs")).unwrap_err());
    let taken = std::mem::take(&mut *picky.taken.lock().unwrap());
    drop(taken);
    assert_eq!((view.handed_back().len(), ran.count()), (1, 0));
}

#[test]
fn what_a_nearly_full_pool_accepts_runs_once_and_in_order() {
    model(0..8, |rng| {
        let pool = Pool::new(2);
        pool.set(|queue| queue.bound = Some(rng.index(3)));
        let view = OrderedView::builder(pool.executor())
            .bound(16)
            .max_tasks_per_turn(1 + rng.index(4))
            .build()
            .unwrap();
        let (ran, accepted, done) = (Log::new(), Log::new(), Gate::new());
        let noise = {
            // Other submitters fill the pool now and then.
            let (core, done) = (pool.executor(), done.clone());
            let fill = move || {
                until("the producers are done", || {
                    let _ = core.execute(Task::new(|| yield_times(1)));
                    done.is_open()
                });
            };
            ThreadBuilder::new("noise").spawn(fill).unwrap()
        };
        let producers = [0, 1, 2].map(|producer| {
            let (view, ran, accepted) = (view.clone(), ran.clone(), accepted.clone());
            let produce = move || accepted.push((producer, produce(&view, producer, &ran)));
            ThreadBuilder::new("producer").spawn(produce).unwrap()
        });
        assert!(
            producers
                .map(|thread| thread.join().unwrap())
                .iter()
                .all(|joined| *joined)
        );
        done.open();
        assert!(noise.join().unwrap());
        pool.set(|queue| queue.bound = None);
        let last = Gate::new();
        let open = || Task::new(last.opens());
        // The view itself may still be full.
        until("the view has room", || {
            Executor::execute(&view, open()).is_ok()
        });
        last.wait();
        let ran = ran.take();
        for (producer, accepted) in accepted.take() {
            let of_one = ran.iter().filter(|(one, _)| *one == producer);
            assert!(of_one.map(|(_, number)| *number).eq(0..accepted));
        }
        assert!(view.panics() == 0 && view.handed_back().is_empty());
    });
}

/// Submits a thousand tasks to the view. Returns how many it accepted.
fn produce(view: &OrderedView, producer: u32, ran: &Log<(u32, u32)>) -> u32 {
    let mut accepted = 0;
    for _ in 0..1_000 {
        accepted += u32::from(view.execute(ran.pushes((producer, accepted))).is_ok());
    }
    accepted
}
