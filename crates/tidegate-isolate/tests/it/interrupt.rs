//! A caller that cancels a call says whether running work is interrupted, and learns whether the
//! work had begun.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

use tidegate_core::{CancelToken, ManualClock};
use tidegate_isolate::{
    CallHandle, CancelOutcome, Cause, CollapserConfig, CollapserScope, Event, Hedge, Interrupt,
    Isolation, Rejection, RequestContext, Retry,
};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, until};

use crate::support::{
    Answer, Numbers, SECOND, alone, builder, failed, poll_once, pool, pool_of, still, with_handle,
};

/// A command with these threads, and whether its setting allows interrupts.
fn command(threads: usize, allows: bool) -> (ManualClock, Isolation, Numbers) {
    alone(|c| {
        c.threads(pool_of(threads, 4))
            .no_timeout()
            .configure(|c| c.interrupt_on_cancel = allows)
    })
}

/// Work that runs until a gate opens, and shows its token.
#[derive(Clone, Default)]
pub(crate) struct Held {
    pub(crate) inside: Gate,
    pub(crate) go_on: Gate,
    token: Arc<Mutex<Option<CancelToken>>>,
}

impl Held {
    pub(crate) fn work(
        &self,
    ) -> impl Fn(&CancelToken) -> Result<u32, &'static str> + Clone + Send + 'static {
        let held = self.clone();
        move |token| {
            *held.token.lock().unwrap() = Some(token.clone());
            held.inside.open();
            held.go_on.wait();
            Ok(7)
        }
    }

    /// Queues the work and waits until it runs.
    fn queue(&self, command: &Numbers) -> (Answer, CallHandle) {
        let (call, handle) = with_handle(command.call());
        let answer = call.queue(self.work());
        self.inside.wait();
        (answer, handle)
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        let token = self.token.lock().unwrap();
        token.as_ref().expect("the work has begun").is_cancelled()
    }
}

#[test]
fn the_setting_and_the_cancel_both_have_to_allow_it() {
    for (allows, asked, interrupted) in [
        (true, Some(Interrupt::Yes), true),
        (true, Some(Interrupt::No), false),
        (true, None, true),
        (false, Some(Interrupt::Yes), false),
        (false, Some(Interrupt::No), false),
        (false, None, false),
    ] {
        let (_clock, isolation, command) = command(1, allows);
        let held = Held::default();
        let (answer, handle) = held.queue(&command);
        assert!(handle.has_begun());
        match asked {
            Some(asked) => assert_eq!(handle.cancel(asked), CancelOutcome::Running),
            None => assert!(answer.cancel()),
        }
        assert_eq!(held.is_interrupted(), interrupted, "{allows} {asked:?}");
        assert!(answer.is_cancelled() && !answer.cancel());
        assert!(matches!(answer.wait(), Err(WaitError::Cancelled)));
        assert_eq!(handle.cancel(Interrupt::No), CancelOutcome::TooLate);
        assert_eq!(pool(&isolation).overstaying, 1);
        held.go_on.open();
        until("no call overstays", || pool(&isolation).overstaying == 0);
        let totals = command.snapshot().totals;
        let ended = (totals[Event::Cancelled], totals[Event::Success]);
        assert_eq!(ended, (1, 0), "it ends once");
    }
}

#[test]
fn an_interrupt_cannot_be_taken_back_and_may_come_later() {
    let (_clock, isolation, command) = command(2, true);
    let (first, second) = (Held::default(), Held::default());
    let (_one, yes) = first.queue(&command);
    let (_two, no) = second.queue(&command);
    assert_eq!(yes.cancel(Interrupt::Yes), CancelOutcome::Running);
    assert_eq!(yes.cancel(Interrupt::No), CancelOutcome::TooLate);
    assert!(first.is_interrupted(), "it stays interrupted");
    assert_eq!(no.cancel(Interrupt::No), CancelOutcome::Running);
    assert_eq!(no.cancel(Interrupt::No), CancelOutcome::TooLate);
    assert!(!second.is_interrupted());
    assert_eq!(no.clone().cancel(Interrupt::Yes), CancelOutcome::TooLate);
    assert!(
        second.is_interrupted(),
        "the work still runs, and hears of it"
    );
    first.go_on.open();
    second.go_on.open();
    until("no call overstays", || pool(&isolation).overstaying == 0);
    assert_eq!(command.snapshot().totals[Event::Cancelled], 2);
}

#[test]
fn a_late_interrupt_reaches_no_other_call() {
    let (_clock, _isolation, command) = command(1, true);
    let (call, ended) = with_handle(command.call());
    assert_eq!(call.queue(|_| Ok(1)).wait().unwrap(), 1);
    let held = Held::default();
    let (answer, _handle) = held.queue(&command);
    assert_eq!(ended.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    assert!(ended.has_begun(), "also after its end");
    assert!(!held.is_interrupted());
    held.go_on.open();
    assert_eq!(answer.wait().unwrap(), 7);
}

/// A future is cancelled by dropping it, so a handle that it ignores must not say otherwise.
#[test]
fn the_handle_of_a_future_says_that_its_work_has_begun_and_cannot_be_cancelled() {
    let (_clock, _isolation, command) = alone(|c| c.no_timeout());
    let (call, handle) = with_handle(command.call());
    let mut future = Box::pin(call.run_async(|_| std::future::pending()));
    assert!(!handle.has_begun(), "nothing happens before the first poll");
    assert!(poll_once(future.as_mut()).is_pending());
    assert!(handle.has_begun());
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    assert!(poll_once(future.as_mut()).is_pending());
    drop(future);
    assert!(handle.has_begun(), "also after its end");
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
}

#[test]
fn a_queued_call_never_runs_and_frees_its_place() {
    let (_clock, isolation, command) = command(1, true);
    let held = Held::default();
    let (answer, _handle) = held.queue(&command);
    for interrupt in [Interrupt::Yes, Interrupt::No] {
        let (call, handle) = with_handle(command.call());
        let queued = call.queue(|_| panic!("must not run"));
        assert_eq!(pool(&isolation).queued, 1);
        assert_eq!(handle.cancel(interrupt), CancelOutcome::NotBegun);
        assert_eq!(pool(&isolation).queued, 0, "at once");
        assert!(!handle.has_begun() && queued.is_cancelled());
    }
    held.go_on.open();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn a_call_that_was_cancelled_before_it_is_made_submits_nothing() {
    let (_clock, isolation, threads) = command(1, true);
    let permits = builder("p").build(&isolation).unwrap();
    for command in [&threads, &permits] {
        let cancelled = || {
            let (call, handle) = with_handle(command.call());
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
            call
        };
        let answer = cancelled().queue(|_| panic!("must not run"));
        let error = answer.wait().unwrap_err();
        assert!(error.is_cancelled() || error.failure().unwrap().is_cancelled());
        let error = cancelled().run(|_| panic!("must not run")).unwrap_err();
        assert!(error.is_cancelled());
        assert_eq!(command.snapshot().totals[Event::Cancelled], 2);
        assert_eq!(command.snapshot().active, 0);
    }
    assert_eq!(pool(&isolation).accepted, 0);
    let (call, handle) = with_handle(threads.call());
    drop(call);
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
}

#[test]
fn a_blocking_caller_is_released() {
    let (_clock, isolation, command) = command(1, true);
    let held = Held::default();
    let (call, handle) = with_handle(command.call().fallback(|_| panic!("must not run")));
    let work = held.work();
    std::thread::scope(|scope| {
        let caller = scope.spawn(move || call.run(work));
        held.inside.wait();
        assert_eq!(handle.cancel(Interrupt::No), CancelOutcome::Running);
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    assert!(!held.is_interrupted());
    held.go_on.open();
    until("no call overstays", || pool(&isolation).overstaying == 0);
}

#[test]
fn with_permits_only_the_token_is_tripped() {
    let (_clock, isolation) = still();
    for (allows, asked, interrupted) in [
        (true, Interrupt::Yes, true),
        (true, Interrupt::No, false),
        (false, Interrupt::Yes, false),
    ] {
        let key = format!("{allows} {asked:?}");
        let command = builder(&key).configure(|c| c.interrupt_on_cancel = allows);
        let command: Numbers = command.build(&isolation).unwrap();
        let held = Held::default();
        let (call, handle) = with_handle(command.call());
        let work = held.work();
        std::thread::scope(|scope| {
            let caller = scope.spawn(move || call.queue(work).wait());
            held.inside.wait();
            assert_eq!(handle.cancel(asked), CancelOutcome::Running);
            assert_eq!(held.is_interrupted(), interrupted, "{key}");
            assert_eq!(handle.cancel(asked), CancelOutcome::TooLate, "the second");
            held.go_on.open();
            assert_eq!(caller.join().unwrap().unwrap(), 7, "it cannot be left");
        });
        assert_eq!(handle.cancel(asked), CancelOutcome::TooLate);
    }
}

#[test]
fn a_shared_run_is_interrupted_unless_all_of_its_callers_say_no() {
    use Interrupt::{No, Yes};
    for (requests, interrupted) in [
        ([Some(No), Some(No)], false),
        ([Some(No), Some(Yes)], true),
        ([Some(Yes), Some(No)], true),
        ([Some(No), None], true),
        ([None, Some(No)], true),
    ] {
        let (_clock, isolation, command) = command(1, true);
        let held = Held::default();
        let _entered = RequestContext::new().enter();
        let mut callers = [(); 2].map(|()| {
            let (call, handle) = with_handle(command.call().cache_key("k"));
            (call.queue(held.work()), handle)
        });
        held.inside.wait();
        // The caller that executes the run leaves first.
        for (at, ((answer, handle), asked)) in callers.iter_mut().zip(requests).enumerate() {
            match asked {
                Some(asked) => assert_eq!(handle.cancel(asked), CancelOutcome::Running),
                None => assert!(answer.cancel()),
            }
            assert!(answer.is_cancelled());
            let is_last = at == 1;
            assert_eq!(
                held.is_interrupted(),
                is_last && interrupted,
                "{requests:?}"
            );
        }
        assert_eq!(pool(&isolation).overstaying, 1, "the run was cancelled");
        assert_eq!(callers[0].1.cancel(No), CancelOutcome::TooLate);
        assert_eq!(held.is_interrupted(), interrupted);
        assert_eq!(callers[0].1.cancel(Yes), CancelOutcome::TooLate);
        assert!(held.is_interrupted(), "nobody is left to object");
        held.go_on.open();
        until("no call overstays", || pool(&isolation).overstaying == 0);
        assert_eq!(command.snapshot().totals[Event::Cancelled], 1, "one run");
    }
}

#[test]
fn a_caller_that_leaves_a_shared_run_leaves_it_to_the_others() {
    let (_clock, _isolation, command) = command(1, true);
    let held = Held::default();
    let request = RequestContext::new();
    let _entered = request.enter();
    let share = || {
        let (call, handle) = with_handle(command.call().cache_key("k"));
        (call.queue(held.work()), handle)
    };
    let (first, leaves) = share();
    let (second, _stays) = share();
    held.inside.wait();
    assert_eq!(leaves.cancel(Interrupt::Yes), CancelOutcome::Running);
    assert!(first.is_cancelled() && !second.is_done());
    assert!(!held.is_interrupted());
    // A blocking caller shares it, too, and can leave.
    let (call, blocking) = with_handle(command.call().cache_key("k").context(&request));
    std::thread::scope(|scope| {
        let caller = scope.spawn(move || call.run(|_| panic!("it shares the run")));
        until("the caller waits", || blocking.has_begun());
        assert_eq!(blocking.cancel(Interrupt::No), CancelOutcome::Running);
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    held.go_on.open();
    assert_eq!(second.wait().unwrap(), 7);
    assert!(!held.is_interrupted());
}

#[test]
fn a_cancel_ends_the_attempts_of_a_retry() {
    let (_clock, isolation, command) = command(1, true);
    let retry = Retry::attempts(5).when(|_| true);
    let held = Held::default();
    let (call, handle) = with_handle(command.call());
    let work = held.work();
    let tried = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tried);
    let mut retrying = Box::pin(retry.run_async(call, move |attempt| {
        *count.lock().unwrap() += 1;
        attempt.queue(work.clone()).cancel_on_drop()
    }));
    assert!(poll_once(retrying.as_mut()).is_pending());
    held.inside.wait();
    assert_eq!(handle.cancel(Interrupt::No), CancelOutcome::Running);
    assert!(!held.is_interrupted());
    // The policy of the user tries again whatever happens.
    let error = failed(poll_once(retrying.as_mut()), "the call was cancelled");
    assert_eq!(error.cause(), &Cause::Cancelled);
    assert_eq!(*tried.lock().unwrap(), 1);
    assert_eq!(
        pool(&isolation).accepted,
        1,
        "no other attempt was submitted"
    );
    held.go_on.open();
    until("no call overstays", || pool(&isolation).overstaying == 0);
}

#[test]
fn a_cancel_ends_the_pause_before_a_retry() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout());
    let retry = Retry::attempts(5).backoff(SECOND, 1.0).when(|_| true);
    let tried = Counter::new();
    let pauses = || until("the caller pauses", || clock.next_deadline().is_some());
    let cancel = |handle: &CallHandle| {
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        assert!(handle.has_begun(), "in the first attempt");
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    };
    thread::scope(|scope| {
        let (call, handle) = with_handle(command.call());
        let waits = scope.spawn(|| {
            retry.run(call, |attempt| {
                tried.hit();
                attempt.run(|_| Err("no"))
            })
        });
        pauses();
        cancel(&handle);
        let error = waits.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    let (call, handle) = with_handle(command.call());
    let mut retrying = Box::pin(retry.run_async(call, |attempt| {
        tried.hit();
        std::future::ready(attempt.run(|_| Err("no")))
    }));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    assert!(retrying.as_mut().poll(&mut context).is_pending());
    pauses();
    cancel(&handle);
    assert_eq!(woken.0.count(), 1);
    let error = failed(
        retrying.as_mut().poll(&mut context),
        "the call was cancelled",
    );
    assert_eq!(error.cause(), &Cause::Cancelled);
    assert_eq!(tried.count(), 2, "each call had one attempt");
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Cancelled], totals[Event::Retried]), (2, 0));
}

/// Counts its wake-ups.
#[derive(Default)]
struct Woken(Counter);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.hit();
    }
}

#[test]
fn a_cancel_ends_both_attempts_of_a_hedge() {
    let (clock, isolation, command) = command(2, true);
    command.run(|_| Ok(1)).unwrap();
    let hedge = Hedge {
        min_samples: 1,
        at_least: SECOND,
        ..Hedge::default()
    };
    let attempts = [Held::default(), Held::default()];
    let mut next = attempts
        .iter()
        .map(Held::work)
        .collect::<Vec<_>>()
        .into_iter();
    let (call, handle) = with_handle(command.call());
    let mut hedged = Box::pin(hedge.run_async(call, move |attempt| {
        let work = next.next().expect("there are two attempts");
        attempt.queue(work).cancel_on_drop()
    }));
    assert!(poll_once(hedged.as_mut()).is_pending());
    attempts[0].inside.wait();
    clock.jump(SECOND * 2);
    until("the second attempt runs", || {
        assert!(poll_once(hedged.as_mut()).is_pending());
        pool(&isolation).active == 2
    });
    attempts[1].inside.wait();
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::Running);
    assert!(attempts.iter().all(Held::is_interrupted));
    let error = failed(poll_once(hedged.as_mut()), "the call was cancelled");
    assert_eq!(error.cause(), &Cause::Cancelled);
    attempts.iter().for_each(|held| held.go_on.open());
    until("no call overstays", || pool(&isolation).overstaying == 0);
}

#[test]
fn a_batch_is_cancelled_with_the_last_of_its_callers() {
    use std::collections::HashMap;
    for allows in [true, false] {
        let (_clock, isolation) = still();
        let command = tidegate_isolate::Command::builder("batch").group("tests");
        let command = command.threads(pool_of(1, 4)).no_timeout();
        let command = command.configure(|c| c.interrupt_on_cancel = allows);
        let command = command.build(&isolation).unwrap();
        let held = Held::default();
        let work = held.work();
        let config = CollapserConfig {
            scope: CollapserScope::Global,
            max_batch: 2,
            ..CollapserConfig::default()
        };
        let collapser = tidegate_isolate::Collapser::new(
            &command,
            config,
            move |arguments: &[u32], token| -> Result<HashMap<u32, u32>, &'static str> {
                let value = work(token)?;
                Ok(arguments.iter().map(|one| (*one, value)).collect())
            },
        );
        let collapser = collapser.unwrap();
        let (one, two) = (collapser.submit(1), collapser.submit(2));
        held.inside.wait();
        assert!(one.cancel());
        assert!(!held.is_interrupted(), "the other still wants its answer");
        assert!(two.cancel());
        assert_eq!(held.is_interrupted(), allows, "it follows the setting");
        assert_eq!(pool(&isolation).overstaying, 1);
        // A batch that is queued leaves the queue.
        let (three, four) = (collapser.submit(3), collapser.submit(4));
        assert_eq!(pool(&isolation).queued, 1);
        assert!(three.cancel() && four.cancel());
        assert_eq!(pool(&isolation).queued, 0);
        held.go_on.open();
        until("no call overstays", || pool(&isolation).overstaying == 0);
        assert_eq!(command.snapshot().totals[Event::Cancelled], 2);
    }
}

#[test]
fn a_refused_call_and_a_closed_isolation_are_too_late_to_cancel() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)));
    let held = Held::default();
    let (answer, _handle) = held.queue(&command);
    let (call, handle) = with_handle(command.call());
    let refused = call.queue(|_| panic!("must not run"));
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    let error = refused.wait().unwrap_err().failure().unwrap();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Pool));
    held.go_on.open();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn cancels_race_with_ends_and_timeouts_and_each_call_ends_once() {
    let (clock, isolation) = still();
    let command = builder("a").threads(pool_of(2, 8)).timeout(SECOND);
    let command = command.configure(|c| {
        c.interrupt_on_cancel = true;
        c.breaker.mode = tidegate_isolate::BreakerMode::Disabled;
    });
    let command = command.build(&isolation).unwrap();
    let calls = 300;
    std::thread::scope(|scope| {
        for n in 0..calls {
            let mut call = command.call();
            let handles = [call.handle(), call.handle()];
            let answer = call.queue(move |_| Ok(n));
            let [one, two] = handles;
            let other = scope.spawn(move || one.cancel(Interrupt::No));
            if n % 7 == 0 {
                clock.jump(SECOND);
            }
            let mine = two.cancel(Interrupt::Yes);
            let found = [mine, other.join().unwrap()];
            let firsts = found.iter().filter(|one| **one != CancelOutcome::TooLate);
            let firsts = firsts.count();
            assert!(firsts <= 1, "{found:?}");
            let ended = answer.wait();
            assert_eq!(firsts == 1, matches!(ended, Err(WaitError::Cancelled)));
        }
    });
    until("no call is active", || {
        command.snapshot().active == 0 && pool(&isolation).overstaying == 0
    });
    let totals = command.snapshot().totals;
    let ended = totals[Event::Success] + totals[Event::Timeout] + totals[Event::PoolRejected];
    assert_eq!(ended + totals[Event::Cancelled], u64::from(calls));
}
