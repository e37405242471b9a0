//! User code of one command that does not return blocks no other command. Each kind of user code
//! blocks here, and calls of another command still end at their timeout.

use std::future::{Pending, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock};
use tidegate_isolate::{
    BreakerConfig, BreakerTransition, BreakerWindow, Call, CallStage, Cause, Collapser,
    CollapserConfig, CollapserScope, Command, Criticality, Event, Hedge, Isolation,
    IsolationBuilder, Key, PermitConfig, Rejection, Retry,
};
use tidegate_testkit::{Counter, Gate, WATCHDOG, until};

use crate::support::{Answer, Numbers, SECOND, builder, hold, pool_of};

/// A place where user code blocks until it is released.
#[derive(Clone, Default)]
struct Stay {
    inside: Counter,
    leave: Gate,
}

impl Stay {
    fn stay(&self) {
        self.inside.hit();
        self.leave.wait();
    }

    /// Returns a value that blocks in its `Drop`.
    fn on_drop(&self) -> StaysOnDrop {
        StaysOnDrop(self.clone())
    }
}

struct StaysOnDrop(Stay);

impl Drop for StaysOnDrop {
    fn drop(&mut self) {
        self.0.stay();
    }
}

/// An isolation with a healthy command.
struct Fixture {
    clock: ManualClock,
    isolation: Isolation,
    healthy: Numbers,
    stay: Stay,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|builder, _| builder)
    }

    fn with(plug: impl FnOnce(IsolationBuilder, Stay) -> IsolationBuilder) -> Self {
        let (clock, stay) = (ManualClock::new(), Stay::default());
        let isolation = Isolation::builder().clock(&clock);
        let isolation = plug(isolation, stay.clone()).build().unwrap();
        let healthy = builder("healthy").threads(pool_of(8, 0)).timeout(SECOND);
        Self {
            healthy: healthy.build(&isolation).unwrap(),
            clock,
            isolation,
            stay,
        }
    }

    /// Returns a builder for a command with this many threads.
    fn threads(&self, threads: usize) -> tidegate_isolate::CommandBuilder<u32, &'static str> {
        builder("slow").threads(pool_of(threads, 8)).timeout(SECOND)
    }

    /// Starts a call whose work blocks, without counting it as blocked user code.
    fn begin(&self, command: &Numbers) -> Answer {
        hold(command, &self.stay.leave)
    }

    /// Checks that the healthy command's calls time out while `count` pieces of user code are
    /// blocked, then releases them.
    fn check(&self, count: u64) {
        self.stay.inside.wait_for(count);
        let leave = Gate::new();
        let answers = [(); 8].map(|()| hold(&self.healthy, &leave));
        self.clock.jump(SECOND);
        for mut answer in answers {
            let error = answer.wait_timeout(WATCHDOG).unwrap_err().failure();
            let error = error.expect("it ends at its timeout");
            assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
        }
        leave.open();
        self.stay.leave.open();
    }
}

#[test]
fn fallbacks() {
    let fixture = Fixture::new();
    let stay = fixture.stay.clone();
    let slow = fixture.threads(6).fallback(move |_| {
        stay.stay();
        Ok(1)
    });
    let slow = slow.build(&fixture.isolation).unwrap();
    let _answers = [(); 6].map(|()| fixture.begin(&slow));
    fixture.clock.jump(SECOND);
    fixture.check(6);
}

#[test]
fn listeners_of_an_answer() {
    let fixture = Fixture::new();
    let slow = fixture.threads(6).build(&fixture.isolation).unwrap();
    for _ in 0..6 {
        let stay = fixture.stay.clone();
        fixture.begin(&slow).finally(move |_| stay.stay());
    }
    fixture.clock.jump(SECOND);
    fixture.check(6);
}

#[test]
fn batches() {
    let fixture = Fixture::new();
    let command = Command::builder("slow").group("tests").no_timeout();
    let command = command.build(&fixture.isolation).unwrap();
    let config = CollapserConfig {
        scope: CollapserScope::Global,
        ..CollapserConfig::default()
    };
    let stay = fixture.stay.clone();
    let collapser: Collapser<u32, u32, &'static str> =
        Collapser::new(&command, config, move |_: &[u32], _: &_| {
            stay.stay();
            Err("too late")
        })
        .unwrap();
    for n in 1..=6 {
        drop(collapser.submit(n));
        fixture.clock.jump(Duration::from_millis(10));
        fixture.stay.inside.wait_for(u64::from(n));
    }
    fixture.check(6);
}

#[test]
fn hooks_of_tokens() {
    let fixture = Fixture::new();
    let on_threads = fixture.threads(3).build(&fixture.isolation).unwrap();
    let in_place = builder("in place").timeout(SECOND);
    let in_place = in_place.build(&fixture.isolation).unwrap();
    let begun = Counter::new();
    let work = || {
        let (stay, begun) = (fixture.stay.clone(), begun.clone());
        move |cancel: &CancelToken| {
            let inner = stay.clone();
            cancel.on_cancel(move || inner.stay()).forget();
            begun.hit();
            stay.leave.wait();
            Ok(1)
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            drop(on_threads.queue(work()));
            let (command, work) = (&in_place, work());
            scope.spawn(move || command.run(work));
        }
        begun.wait_for(6);
        fixture.clock.jump(SECOND);
        fixture.check(6);
    });
}

#[test]
fn hooks_of_a_token_that_are_dropped_uncalled() {
    let fixture = Fixture::new();
    let slow = builder("slow").timeout(SECOND);
    let slow = slow.build(&fixture.isolation).unwrap();
    std::thread::scope(|scope| {
        let (slow, stays) = (&slow, fixture.stay.on_drop());
        scope.spawn(move || {
            slow.run(move |cancel| {
                cancel.on_cancel(move || drop(stays)).forget();
                Ok(1)
            })
        });
        fixture.check(1);
    });
}

#[test]
fn listeners_of_a_breaker() {
    let fixture = Fixture::with(|isolation, stay| {
        isolation.on_transition(move |change: &BreakerTransition| {
            if &*change.key == "slow" {
                stay.stay();
            }
        })
    });
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(4),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let slow = fixture.threads(2).breaker(breaker);
    let slow = slow.build(&fixture.isolation).unwrap();
    let _answer = fixture.begin(&slow);
    fixture.clock.jump(SECOND);
    fixture.check(1);
}

#[test]
fn hooks_and_listeners_of_the_isolation() {
    let fixture = Fixture::with(|isolation, stay| {
        let hook = stay.clone();
        isolation
            .hook(move |stage: CallStage, key: &Key| {
                if stage == CallStage::Error && &**key == "slow" {
                    hook.stay();
                }
                Ok(())
            })
            .on_event(move |key, event| {
                if event == Event::Timeout && &**key == "slow by event" {
                    stay.stay();
                }
            })
    });
    let by_hook = fixture.threads(8).build(&fixture.isolation).unwrap();
    let by_event = builder("slow by event")
        .threads(pool_of(2, 0))
        .timeout(SECOND);
    let by_event = by_event.build(&fixture.isolation).unwrap();
    let _answers = [(); 5].map(|()| fixture.begin(&by_hook));
    let _answer = fixture.begin(&by_event);
    let stay = fixture.stay.clone();
    let observed = by_hook.call().observe(move |_| stay.stay());
    let leave = fixture.stay.leave.clone();
    let _observed = observed.queue(move |_| {
        leave.wait();
        Ok(1)
    });
    fixture.clock.jump(SECOND);
    fixture.check(7);
}

#[test]
fn the_drop_of_queued_work() {
    let fixture = Fixture::new();
    let slow = fixture.threads(1).build(&fixture.isolation).unwrap();
    let leave = fixture.stay.leave.clone();
    let inside = Gate::new();
    let open = inside.clone();
    let _held = slow.call().timeout(SECOND * 60).queue(move |_| {
        open.open();
        leave.wait();
        Ok(1)
    });
    inside.wait();
    for _ in 0..3 {
        let stays = fixture.stay.on_drop();
        drop(slow.queue(move |_| {
            let _stays = stays;
            Ok(1)
        }));
    }
    fixture.clock.jump(SECOND);
    fixture.check(3);
}

#[test]
fn the_drop_of_displaced_work() {
    let fixture = Fixture::new();
    let build = |key: &str| {
        let command = builder(key).pool("one").threads(pool_of(1, 1));
        command.timeout(SECOND).build(&fixture.isolation).unwrap()
    };
    let (slow, other) = (build("slow"), build("other"));
    let _held = fixture.begin(&other);
    let stays = fixture.stay.on_drop();
    let call = slow.call().criticality(Criticality::Sheddable);
    drop(call.queue(move |_| {
        let _stays = stays;
        Ok(1)
    }));
    let call = other.call().criticality(Criticality::Critical);
    let mut displacing = call.queue(|_| Ok(2));
    fixture.clock.jump(SECOND);
    let error = displacing.wait_timeout(WATCHDOG).unwrap_err().failure();
    assert!(
        error
            .expect("it has the place, and times out")
            .is_timed_out()
    );
    fixture.check(1);
}

#[test]
fn results_that_come_too_late() {
    let fixture = Fixture::new();
    let slow = Command::<StaysOnDrop, ()>::builder("slow").group("tests");
    let slow = slow.threads(pool_of(2, 0)).timeout(SECOND);
    let slow = slow.build(&fixture.isolation).unwrap();
    let (go_on, inside) = (Gate::new(), Gate::new());
    let (until, open, stays) = (go_on.clone(), inside.clone(), fixture.stay.on_drop());
    let mut answer = slow.queue(move |_| {
        open.open();
        until.wait();
        Ok(stays)
    });
    inside.wait();
    fixture.clock.jump(SECOND);
    assert!(answer.wait_timeout(WATCHDOG).is_err());
    go_on.open();
    fixture.check(1);
}

/// A waker that blocks when it is called.
struct StayingWaker(Stay);

impl Wake for StayingWaker {
    fn wake(self: Arc<Self>) {
        self.0.stay();
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn wakers() {
    let fixture = Fixture::new();
    let waker = Waker::from(Arc::new(StayingWaker(fixture.stay.clone())));
    let slow = builder("slow").permits(PermitConfig {
        max_wait: SECOND,
        ..PermitConfig::from(1)
    });
    let slow = slow.timeout(SECOND).build(&fixture.isolation).unwrap();
    let mut running = pin!(slow.run_async(|_| pending()));
    assert!(poll(running.as_mut(), &waker).is_pending());
    let mut waiting = pin!(slow.run_async(|_| pending()));
    assert!(poll(waiting.as_mut(), &waker).is_pending());

    let quick = builder("quick").build(&fixture.isolation).unwrap();
    for _ in 0..20 {
        quick.run(|_| Ok(1)).unwrap();
    }
    let mut hedged =
        pin!(Hedge::default().run_async(quick.call(), |call| call.run_async(|_| pending())));
    assert!(poll(hedged.as_mut(), &waker).is_pending());

    let retry = Retry::attempts(2).backoff(SECOND, 1.0);
    let retry = retry.jitter(0.0);
    let attempt = |call: Call<u32, &'static str>| call.run_async(|_| async { Err("no") });
    let mut again = pin!(retry.run_async(quick.call(), attempt));
    assert!(poll(again.as_mut(), &waker).is_pending());
    fixture.clock.jump(SECOND);
    fixture.check(4);
}

/// A waker that blocks when its last clone is dropped.
struct DroppedWaker(#[expect(dead_code, reason = "its drop is what counts")] StaysOnDrop);

impl Wake for DroppedWaker {
    fn wake(self: Arc<Self>) {}
}

fn never(_: CancelToken) -> Pending<Result<u32, &'static str>> {
    pending()
}

#[test]
fn the_drop_of_wakers() {
    let fixture = Fixture::new();
    let slow = builder("slow").permits(PermitConfig {
        max_wait: SECOND,
        ..PermitConfig::from(1)
    });
    let slow = slow.timeout(SECOND).build(&fixture.isolation).unwrap();
    let stays = || Waker::from(Arc::new(DroppedWaker(fixture.stay.on_drop())));
    std::thread::scope(|scope| {
        let call = || Box::pin(slow.run_async(never));
        let mut running = call();
        let first = stays();
        assert!(poll(running.as_mut(), &first).is_pending());
        let mut waiting = call();
        let second = stays();
        assert!(poll(waiting.as_mut(), &second).is_pending());
        for (mut future, waker) in [(running, first), (waiting, second)] {
            scope.spawn(move || {
                drop(waker);
                // Replaces the old waker, whose last clone is dropped.
                let _ = poll(future.as_mut(), Waker::noop());
            });
        }
        fixture.check(2);
    });
}

#[test]
fn stopping_and_shutting_down() {
    for stops in [true, false] {
        let fixture = Fixture::new();
        let slow = fixture.threads(2).no_timeout();
        let slow = slow.build(&fixture.isolation).unwrap();
        let (stay, inside) = (fixture.stay.clone(), Gate::new());
        let open = inside.clone();
        let _held = slow.queue(move |cancel: &CancelToken| {
            let inner = stay.clone();
            cancel.on_cancel(move || inner.stay()).forget();
            open.open();
            stay.leave.wait();
            Ok(1)
        });
        inside.wait();
        let config = CollapserConfig {
            scope: CollapserScope::Global,
            ..CollapserConfig::default()
        };
        let command = Command::builder("batches").group("tests");
        let command = command.build(&fixture.isolation).unwrap();
        let work = |_: &[u32], _: &CancelToken| Err("too late");
        let batches: Collapser<u32, u32, &'static str> =
            Collapser::new(&command, config, work).unwrap();
        let stay = fixture.stay.clone();
        batches.submit(1).finally(move |_| stay.stay());
        let leave = Gate::new();
        let mut other = hold(&fixture.healthy, &leave);
        if stops {
            fixture.isolation.shutdown_now();
        } else {
            drop(fixture.isolation.shutdown(Duration::from_millis(5)));
            fixture.clock.jump(Duration::from_millis(5));
        }
        let error = other.wait_timeout(WATCHDOG).unwrap_err().failure();
        assert!(
            error.is_some(),
            "it is notified although others stay inside"
        );
        if stops {
            fixture.stay.inside.wait_for(2);
        } else {
            fixture.stay.inside.wait_for(1);
        }
        leave.open();
        fixture.stay.leave.open();
    }
}

#[test]
fn a_command_whose_callbacks_do_not_return_refuses_new_calls() {
    let fixture = Fixture::new();
    let slow = builder("slow").threads(pool_of(1, 0)).timeout(SECOND);
    let slow = slow.build(&fixture.isolation).unwrap();
    let idle = || {
        fixture
            .isolation
            .pool("slow")
            .unwrap()
            .free_threads()
            .has_thread()
    };
    let refused = Arc::new(Mutex::new(None));
    for n in 0.. {
        assert!(n < 2_000, "there is a bound");
        let answer = slow.queue(|cancel| {
            until("the call is cancelled", || cancel.is_cancelled());
            Ok(1)
        });
        if answer.is_done() {
            *refused.lock().unwrap() = Some(answer);
            break;
        }
        let stay = fixture.stay.clone();
        answer.finally(move |_| stay.stay());
        fixture.clock.jump(SECOND);
        until("the bulkhead has a thread", idle);
    }
    let answer = refused.lock().unwrap().take().expect("one was refused");
    let error = answer.wait().unwrap_err().failure().unwrap();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Backlog));
    assert_eq!(slow.snapshot().callbacks_refused, 1);
    fixture.check(11);
    // Accepted calls end, and then there is room again.
    fixture.stay.inside.wait_for(1_025);
    until("a call is accepted", || {
        slow.queue(|_| Ok(1)).wait() == Ok(1)
    });
}
