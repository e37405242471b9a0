//! User code of one command that does not return blocks no other command. Each kind of user code
//! blocks here, and calls of another command still end at their timeout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock};
use tidegate_isolate::{
    BreakerConfig, BreakerTransition, BreakerWindow, CallStage, Cause, Collapser, CollapserConfig,
    CollapserScope, Command, Event, Isolation, IsolationBuilder, Key, Rejection,
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
