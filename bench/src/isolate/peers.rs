//! The layers that other Rust programs combine to get part of what a command does.

use std::future::Future;
use std::hint::spin_loop;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use failsafe::CircuitBreaker as _;
use tower::{BoxError, Layer, Service};
use tower_resilience_bulkhead::{BulkheadConfigBuilder, BulkheadLayer};
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, DefaultClassifier};

use super::{Failure, LIMIT, TIMEOUT, runtime, seen, work};

/// Polls a service until it is ready, then its response. Nothing here waits for long: at most for a
/// lock that another thread is about to release.
#[inline]
pub(super) fn call<S: Service<u64>>(service: &mut S, n: u64) -> Result<S::Response, S::Error> {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match service.poll_ready(&mut context) {
            Poll::Ready(ready) => break ready?,
            Poll::Pending => spin_loop(),
        }
    }
    let mut answer = pin!(service.call(n));
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => spin_loop(),
        }
    }
}

/// The guarded service.
#[derive(Clone, Copy)]
struct Work;

impl Service<u64> for Work {
    type Response = u64;
    type Error = Failure;
    type Future = std::future::Ready<Result<u64, Failure>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, n: u64) -> Self::Future {
        std::future::ready(work(n))
    }
}

type Breaker = failsafe::StateMachine<
    failsafe::failure_policy::OrElse<
        failsafe::failure_policy::SuccessRateOverTimeWindow<failsafe::backoff::EqualJittered>,
        failsafe::failure_policy::ConsecutiveFailures<failsafe::backoff::EqualJittered>,
    >,
    (),
>;

/// Layers that provide most of what a command does, without metrics.
pub(super) struct Stack {
    limit: tower::limit::GlobalConcurrencyLimitLayer,
    breaker: Breaker,
}

impl Stack {
    pub(super) fn new() -> Self {
        Self {
            limit: tower::limit::GlobalConcurrencyLimitLayer::new(LIMIT),
            breaker: failsafe::Config::new().build(),
        }
    }

    /// Makes `count` calls inside a runtime, whose timer the timeouts need. Every thread has a
    /// service of its own; the permits and the breaker are shared.
    pub(super) fn calls(&self, count: u64) {
        let mut service = tower::timeout::Timeout::new(self.limit.layer(Work), TIMEOUT);
        for n in 0..count {
            seen(self.breaker.call(|| call(&mut service, n)));
        }
    }
}

/// The same with the layers of tower-resilience, and tower's timeout.
pub(super) struct Resilient {
    bulkhead: BulkheadLayer,
    breaker: CircuitBreakerLayer<DefaultClassifier>,
}

impl Resilient {
    pub(super) fn new() -> Self {
        let breaker = CircuitBreakerLayer::builder().build();
        Self {
            bulkhead: bulkhead(LIMIT, |it| it),
            breaker: breaker.expect("the settings agree with each other"),
        }
    }

    /// The same as [`Stack::calls`].
    pub(super) fn calls(&self, count: u64) {
        let bulkhead = self.bulkhead.layer(Work);
        let timed = tower::timeout::Timeout::new(bulkhead, TIMEOUT);
        let mut service = self.breaker.layer(timed);
        for n in 0..count {
            seen(call(&mut service, n));
        }
    }
}

fn bulkhead(
    limit: usize,
    how: impl FnOnce(BulkheadConfigBuilder) -> BulkheadConfigBuilder,
) -> BulkheadLayer {
    let builder = how(BulkheadLayer::builder().max_concurrent_calls(limit));
    builder.build().expect("the settings agree with each other")
}

pub(super) fn plain_bulkhead(
    limit: usize,
) -> impl Service<u64, Response = u64, Error: Send> + use<> {
    bulkhead(limit, |it| it).layer(Work)
}

/// Creates a bulkhead that rejects calls: its only permit is held.
pub(super) fn full_bulkhead() -> impl Service<u64, Response = u64> {
    let bulkhead = bulkhead(1, BulkheadConfigBuilder::reject_when_full);
    hold(bulkhead.layer(Forever));
    bulkhead.layer(Work)
}

/// The same, but `LoadShed` rejects the calls before the bulkhead gets them.
pub(super) fn shed_bulkhead() -> impl Service<u64, Response = u64, Error = BoxError> {
    let bulkhead = bulkhead(1, BulkheadConfigBuilder::backpressure);
    hold(bulkhead.layer(Forever));
    tower::load_shed::LoadShed::new(bulkhead.layer(Work))
}

/// Creates a stack that rejects calls: its only permit is held.
pub(super) fn shed() -> impl Service<u64, Response = u64, Error = BoxError> {
    let limit = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    hold(limit.layer(Forever));
    tower::load_shed::LoadShed::new(limit.layer(Work))
}

/// A service whose calls never end.
#[derive(Clone, Copy)]
struct Forever;

impl Service<u64> for Forever {
    type Response = u64;
    type Error = Failure;
    type Future = std::future::Pending<Result<u64, Failure>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _n: u64) -> Self::Future {
        std::future::pending()
    }
}

/// Makes a call that never ends and therefore holds its permit.
fn hold<S: Service<u64>>(mut service: S) {
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    let mut answer = Box::pin(service.call(0));
    assert!(answer.as_mut().poll(&mut context).is_pending());
    std::mem::forget(answer);
}
