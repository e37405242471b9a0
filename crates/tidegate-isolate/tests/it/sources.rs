//! Sources of properties and wakers are user code: they may call back into the isolation, block,
//! and be changed at the same time.

use std::future::Future;
use std::pin::pin;

use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_isolate::{
    Cause, ChangeListener, ConfigError, Isolation, Properties, PropertySource, Rejection,
};
use tidegate_testkit::Gate;

use crate::support::{
    Numbers, builder, failed, made, poll_once, still, waiting, while_inside, with_properties,
};

const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: &str = "hystrix.command.a.execution.isolation.semaphore.maxConcurrentRequests";
const VOLUME: &str = "hystrix.command.a.circuitBreaker.requestVolumeThreshold";

/// Properties that call a closure between reading a value and returning it.
struct SourceWithCallback {
    properties: Properties,
    then: Box<dyn Fn(&str) + Send + Sync>,
}

impl PropertySource for SourceWithCallback {
    fn get(&self, name: &str) -> Option<String> {
        let value = self.properties.get(name);
        (self.then)(name);
        value
    }

    fn watch(&self, listener: ChangeListener) {
        self.properties.watch(listener);
    }
}

fn asking(properties: &Properties, then: impl Fn(&str) + Send + Sync + 'static) -> Isolation {
    let source = SourceWithCallback {
        properties: properties.clone(),
        then: Box::new(then),
    };
    Isolation::builder().properties(source).build().unwrap()
}

#[test]
fn a_source_may_come_back_to_the_isolation() {
    let known: Arc<OnceLock<(Isolation, Numbers)>> = Arc::default();
    let (properties, there) = (Properties::new(), Arc::downgrade(&known));
    let isolation = asking(&properties, move |_| {
        if let Some(there) = there.upgrade()
            && let Some((isolation, command)) = there.get()
        {
            assert!(isolation.snapshots().len() <= 2);
            assert_eq!(
                command.config().permits.limit,
                command.snapshot().config.permits.limit
            );
        }
    });
    let a = builder("a").build(&isolation).unwrap();
    known.set((isolation.clone(), a.clone())).unwrap();
    builder("b").build(&isolation).unwrap();
    properties.set(LIMIT, "3").unwrap();
    a.configure(|config| config.breaker.min_calls = 7).unwrap();
    assert_eq!(a.config().permits.limit, 3);
    assert_eq!(a.config().breaker.min_calls, 7);
}

#[test]
fn a_source_that_does_not_return_holds_up_no_other_command() {
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (arrived, until) = (inside.clone(), go_on.clone());
    let isolation = asking(&Properties::new(), move |name| {
        if name == LIMIT.replace(".a.", ".slow.") {
            arrived.open();
            until.wait();
        }
    });
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| builder("slow").build(&isolation).map(drop));
        inside.wait();
        let a = builder("a").build(&isolation).unwrap();
        a.configure(|config| config.permits.limit = 4).unwrap();
        assert_eq!((a.run(|_| Ok(1)), isolation.len()), (Ok(1), 1));
        go_on.open();
        slow.join().unwrap().unwrap();
    });
    assert_eq!(isolation.len(), 2);
}

#[test]
fn a_change_during_the_reading_of_the_sources_is_not_lost() {
    let (properties, next) = (Properties::new(), Arc::new(Mutex::new(Some("5"))));
    let (change, value) = (properties.clone(), Arc::clone(&next));
    let isolation = asking(&properties, move |name| {
        let value = (name == LIMIT).then(|| value.lock().unwrap().take());
        if let Some(value) = value.flatten() {
            change.set(LIMIT, value).unwrap();
        }
    });
    // While the command is built: the change finds no command of this key yet.
    let a = builder("a").build(&isolation).unwrap();
    assert_eq!(a.config().permits.limit, 5);
    // While the code changes another setting.
    *next.lock().unwrap() = Some("6");
    a.configure(|config| config.breaker.min_calls = 7).unwrap();
    let config = a.config();
    assert_eq!((config.permits.limit, config.breaker.min_calls), (6, 7));
}

#[test]
fn a_listener_of_properties_may_change_them() {
    let (properties, isolation) = with_properties();
    let properties = Arc::new(properties);
    let again = Arc::downgrade(&properties);
    properties.watch(Arc::new(move |name| match name {
        LIMIT => again.upgrade().unwrap().set(VOLUME, "9"),
        _ => Ok(()),
    }));
    let a = builder("a").build(&isolation).unwrap();
    properties.set(LIMIT, "3").unwrap();
    let config = a.config();
    assert_eq!((config.permits.limit, config.breaker.min_calls), (3, 9));
    // Also for an invalid change: the previous value is in force again.
    properties.set(LIMIT, "0").unwrap_err();
    assert_eq!(a.config().permits.limit, 3);
}

#[test]
fn callers_that_wait_are_served_after_waiting_was_switched_off() {
    let isolation = Isolation::builder().build().unwrap();
    let a = made(builder("a").permits(waiting(1, HOUR)), &isolation);
    let mut waits = pin!(a.run_async(|_| async { Ok(1) }));
    while_inside(&a, 1, || {
        assert!(poll_once(waits.as_mut()).is_pending());
        a.configure(|config| config.permits.max_wait = Duration::ZERO)
            .unwrap();
    });
    assert_eq!(poll_once(waits), Poll::Ready(Ok(1)));
}

/// A waker that opens a gate.
struct OpensOnDrop(Gate);

impl Wake for OpensOnDrop {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

#[test]
fn callers_that_wait_for_a_permit_are_woken_by_the_shutdown() {
    let (clock, isolation) = still();
    let a = made(
        builder("a").permits(waiting(1, HOUR)).no_timeout(),
        &isolation,
    );
    let woken = Gate::new();
    let waker = Waker::from(Arc::new(OpensOnDrop(woken.clone())));
    let closed = Cause::Rejected(Rejection::Closed);
    while_inside(&a, 1, || {
        let mut waits = pin!(a.run_async(|_| async { Ok(1) }));
        let polled = waits.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        clock.settle();
        std::thread::scope(|scope| {
            let sleepers = clock.sleepers();
            let blocked = scope.spawn(|| a.run(|_| Ok(1)));
            clock.await_sleepers(sleepers + 1);
            assert_eq!(a.snapshot().waiting, 2);
            isolation.shutdown_now();
            let error = blocked.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &closed);
        });
        woken.wait();
        let error = failed(poll_once(waits), "nothing would wake it any more");
        assert_eq!(error.cause(), &closed);
        // A future that comes later could not be woken at the end of its wait.
        let late = pin!(a.run_async(|_| async { Ok(1) }));
        assert!(poll_once(late).is_ready());
    });
}

/// A source like a file: its contents are fixed, and it cannot reject a name.
struct File {
    name: &'static str,
    accepts_unknown: bool,
}

impl PropertySource for File {
    fn get(&self, name: &str) -> Option<String> {
        (name == self.name).then(|| "5".to_owned())
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.to_owned()]
    }

    fn accepts_unknown(&self) -> bool {
        self.accepts_unknown
    }
}

#[test]
fn a_misspelt_name_in_a_source_refuses_the_isolation() {
    let build = |name, accepts_unknown| {
        let source = File {
            name,
            accepts_unknown,
        };
        Isolation::builder().properties(source).build()
    };
    let wrong = "hystrix.threadpool.catalog.coresize";
    let error: ConfigError = build(wrong, false).unwrap_err();
    let meant = "did you mean `hystrix.threadpool.catalog.coreSize`?";
    assert!(error.reason().starts_with(meant), "{error}");
    assert!(build(wrong, true).is_ok());
    assert!(build("spring.name", false).is_ok(), "another program's");
    assert!(build("hystrix.threadpool.catalog.coreSize", false).is_ok());
}

#[test]
fn a_misspelt_name_that_a_source_reports_later_is_an_error() {
    let (properties, lenient) = (Properties::new(), Properties::new().accept_unknown());
    let isolation = Isolation::builder().properties(properties.clone());
    let _isolation = isolation.properties(lenient.clone()).build().unwrap();
    let wrong = "hystrix.command.a.fallback.enable";
    let error = properties.set(wrong, "false").unwrap_err();
    assert!(
        error
            .reason()
            .contains("`hystrix.command.a.fallback.enabled`"),
        "{error}"
    );
    lenient.set(wrong, "false").unwrap();
    lenient.set("spring.name", "x").unwrap();
}
