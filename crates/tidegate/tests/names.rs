//! What users write with the names of the facade that only stand in types: struct fields, arguments,
//! bounds, patterns, and implementations of a trait.
#![cfg(all(feature = "isolate", feature = "net"))]
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::sync::{Arc, Mutex};

use tidegate::isolate::{
    AdaptiveLimit, BreakerWindow, CallHandle, CircuitBreaker, Event, EventSet, Interrupt,
    LimitAlgorithm, SampleWindow, WindowConfig,
};
use tidegate::loops::{Lifecycle, ManualLoop, Placement};
use tidegate::net::{ChannelPlacement, ClientBuilder, ServerBuilder, pinned};
use tidegate::pool::{JobHandle, Lease, PoolError, PoolLimits};
use tidegate::prelude::*;
use tidegate::promise::{AbandonedError, ProgressPromise, promise, promise_on, promise_with_error};
use tidegate::{ExecutorId, RejectReason, Signal, Unhandled};

/// Runs everything on the calling thread.
struct Inline {
    id: ExecutorId,
    clock: Clock,
}

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        task.run();
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        signal.deliver();
        Ok(())
    }

    fn is_current(&self) -> bool {
        true
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "inline"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

#[test]
fn a_program_implements_an_executor() {
    let id = ExecutorId::next();
    let clock = Clock::system();
    let (promise, answer) = promise_on::<u32, Failure>(Arc::new(Inline { id, clock }));
    let heard = Arc::new(Mutex::new(0));
    let hears = Arc::clone(&heard);
    answer.on_complete(move |outcome| *hears.lock().unwrap() = *outcome.success().unwrap());
    promise.succeed(7).unwrap();
    assert_eq!(*heard.lock().unwrap(), 7);
}

/// A loop that a test drives, kept in a struct.
struct Driven {
    home: EventLoop,
    by_hand: ManualLoop,
}

impl Driven {
    fn is_running(&self) -> bool {
        self.home.lifecycle() == Lifecycle::Started
    }
}

#[test]
fn a_test_keeps_a_loop_that_it_drives_and_sees_what_is_unhandled() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let hook = move |_: &str, what: &Unhandled<'_>| {
        if let Unhandled::TaskPanic { message, .. } = what {
            sees.lock().unwrap().push(message.to_string());
        }
    };
    let built = EventLoop::builder("home").bound(1).on_unhandled(hook);
    let (home, by_hand) = built.build_manual().unwrap();
    let mut driven = Driven { home, by_hand };
    driven.home.execute(|| panic!("no ink")).unwrap();
    let refused = (0..100).find_map(|_| driven.home.execute(|| ()).err());
    assert_eq!(refused.unwrap().why(), RejectReason::Full);
    driven.by_hand.run_until_idle();
    assert!(driven.is_running());
    assert_eq!(*seen.lock().unwrap(), ["no ink"]);
}

fn name_of<P: Placement>(home: &EventLoop<P>) -> &str {
    home.name()
}

fn tuned<P: ChannelPlacement>(server: ServerBuilder<P>) -> ServerBuilder<P> {
    server.backlog(64)
}

fn patient<P: ChannelPlacement>(client: ClientBuilder<P>) -> ClientBuilder<P> {
    client.resolve_timeout(Duration::from_secs(60))
}

#[test]
fn functions_take_builders_and_loops_of_any_placement() {
    let group = pinned("io", 1).unwrap();
    assert_eq!(name_of(group.loops().next()), "io-0");
    let server = tuned(Server::builder(&group)).bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let stream = std::net::TcpStream::connect(server.local_addr()).unwrap();
    let client = patient(Client::builder(&group));
    assert!(client.clone().adopt(stream).wait().unwrap().is_active());
    let any = "127.0.0.1:0".parse().unwrap();
    assert!(client.clone().bind_udp(any).wait().unwrap().is_active());
    #[cfg(unix)]
    assert!(client.connect_unix("/nowhere/at/all").wait().is_err());
}

struct Job {
    handle: JobHandle,
    _thread: Lease,
}

#[test]
fn a_pool_is_resized_and_its_jobs_and_threads_are_kept() {
    let pool = WorkerPool::builder("workers")
        .core(1)
        .max(4)
        .build()
        .unwrap();
    let handle = pool.enqueue(Task::new(|| ())).unwrap();
    let job = Job {
        handle,
        _thread: pool.lease("mine", 1).unwrap(),
    };
    let removed = job.handle.remove();
    assert!(removed.is_none() || job.handle.was_queued());
    let wrong = PoolLimits {
        core: 5,
        ..pool.limits()
    };
    let why: PoolError = pool.set_limits(wrong).unwrap_err();
    assert!(!why.to_string().is_empty());
}

#[derive(Debug, PartialEq)]
struct OutOfStock;

impl From<AbandonedError> for OutOfStock {
    fn from(_: AbandonedError) -> Self {
        Self
    }
}

fn upload(promise: ProgressPromise<u32>) {
    promise.progress(1, 2).unwrap();
    promise.succeed(2).unwrap();
}

#[test]
fn promises_have_errors_of_their_own_and_progress() {
    let (stock, answer) = promise_with_error::<u32, OutOfStock>();
    stock.fail(OutOfStock).unwrap();
    assert!(matches!(answer.wait(), Err(WaitError::Failed(OutOfStock))));
    let (promise, sent) = Promise::with_progress(promise::<u32>());
    upload(promise);
    assert_eq!(sent.into_inner().wait().unwrap(), 2);
}

/// The policy of a dependency, kept in a struct.
struct Policy {
    algorithm: LimitAlgorithm,
    samples: SampleWindow,
    errors: WindowConfig,
    counted: EventSet,
}

#[test]
fn a_policy_is_data_and_a_call_can_be_cancelled() {
    let limit = AdaptiveLimit::vegas();
    let policy = Policy {
        algorithm: limit.algorithm,
        samples: SampleWindow::default(),
        errors: WindowConfig::new(Duration::from_secs(1), 10),
        counted: EventSet::of(&[Event::Success]),
    };
    assert!(policy.counted.contains(Event::Success));
    let isolation = Isolation::builder().build().unwrap();
    let prices: Command<u32> = Command::builder("prices")
        .group("catalog")
        .adaptive(AdaptiveLimit {
            algorithm: policy.algorithm,
            window: Some(policy.samples),
            ..limit
        })
        .build(&isolation)
        .unwrap();
    let mut call = prices.call();
    let stop: CallHandle = call.handle();
    stop.cancel(Interrupt::Yes);
    assert!(call.run(|_| Ok(1)).is_err());
    let config = BreakerConfig {
        window: BreakerWindow::Time(policy.errors),
        ..BreakerConfig::default()
    };
    let breaker = CircuitBreaker::new("prices", config, Clock::system()).unwrap();
    breaker.try_pass().unwrap().success();
}
