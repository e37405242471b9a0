//! Wrappers around calls: they nest in any order, and the outermost call has the last word.

use std::future::{Future, Ready, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tidegate_isolate::{
    Cause, CommandError, Event, Hedge, RateConfig, RateLimit, RequestContext, Retry, RetryBudget,
};

use crate::support::{
    Numbers, SECOND, alone, builder, counted, events, failed, made, poll_once, still,
};

type Call = tidegate_isolate::Call<u32, &'static str>;
type Answer = Result<u32, CommandError<&'static str>>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A limit that allows so many calls at once, and few later.
fn limit(burst: u32) -> RateLimit {
    let config = RateConfig {
        calls: 1,
        per: SECOND * 60,
        burst,
    };
    RateLimit::new(config).unwrap()
}

fn rich(attempts: u32) -> Retry<&'static str> {
    Retry::attempts(attempts).budget(&RetryBudget::new(100, 100))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layer {
    Cache,
    Rate,
    Retry,
    Hedge,
}

const LAYERS: [Layer; 4] = [Layer::Cache, Layer::Rate, Layer::Retry, Layer::Hedge];

/// What the layers and the work share.
#[derive(Clone)]
struct Fixture {
    limit: RateLimit,
    retry: Retry<&'static str>,
    /// How often the work ran.
    ran: Arc<AtomicU32>,
    /// In which run it succeeds.
    succeeds: u32,
}

impl Fixture {
    /// Makes the call through the layers, the first of them outermost.
    fn run(self, layers: Vec<Layer>, call: Call) -> Answering {
        let Some((layer, inner)) = layers.split_first() else {
            return Box::pin(call.run_async(move |_| async move {
                match self.ran.fetch_add(1, Ordering::Relaxed) + 1 {
                    n if n == self.succeeds => Ok(n),
                    _ => Err("no"),
                }
            }));
        };
        let (fixture, inner) = (self.clone(), inner.to_vec());
        let next = move |call| fixture.clone().run(inner.clone(), call);
        match layer {
            Layer::Cache => next(call.cache_key("x")),
            Layer::Rate => Box::pin(self.limit.run_async(call, next)),
            Layer::Retry => Box::pin(self.retry.run_async(call, next)),
            Layer::Hedge => Box::pin(Hedge::default().run_async(call, next)),
        }
    }
}

/// All orders of the layers.
fn orders() -> Vec<Vec<Layer>> {
    let mut orders = vec![vec![]];
    for layer in LAYERS {
        let longer = |order: &Vec<Layer>, at: usize| {
            let mut order = order.clone();
            order.insert(at, layer);
            order
        };
        orders = orders
            .iter()
            .flat_map(|order| (0..=order.len()).map(|at| longer(order, at)))
            .collect();
    }
    orders
}

#[test]
fn wrappers_compose_in_any_order() {
    assert_eq!(orders().len(), 24);
    for order in orders() {
        for succeeds in [2, u32::MAX] {
            let (_clock, isolation) = still();
            let fallbacks = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&fallbacks);
            let command = builder("a").fallback(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(99)
            });
            let command = command.build(&isolation).unwrap();
            let fixture = Fixture {
                limit: limit(9),
                retry: rich(2),
                ran: Arc::default(),
                succeeds,
            };
            let entered = RequestContext::new().enter();
            let mut call = fixture.clone().run(order.clone(), command.call());
            drop(entered);
            let answer = poll_once(call.as_mut());
            let at = |layer| order.iter().position(|one| *one == layer);
            // Inside of the retry, the cache has the error of the first attempt for the second.
            let runs = if at(Layer::Cache) < at(Layer::Retry) {
                2
            } else {
                1
            };
            let expected = if succeeds == runs { 2 } else { 99 };
            assert_eq!(answer, Poll::Ready(Ok(expected)), "{order:?}");
            assert_eq!(fixture.ran.load(Ordering::Relaxed), runs, "{order:?}");
            let tried = fallbacks.load(Ordering::Relaxed);
            assert_eq!(tried, u32::from(expected == 99), "{order:?}");
            let snapshot = command.snapshot();
            assert_eq!((snapshot.active, snapshot.fallbacks), (0, 0));
            assert_eq!(snapshot.totals[Event::Retried], 1, "{order:?}");
        }
    }
}

#[test]
fn the_fallback_is_tried_once_at_the_outside() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| panic!("the call has its own")));
    let (limit, retry) = (limit(9), rich(3));
    let call = command.call().fallback(|why| {
        assert!(why.is_failed());
        Ok(5)
    });
    let inner = rich(2);
    let answer = limit.run(call, |call| {
        retry.run(call, |call| inner.run(call, |call| call.run(|_| Err("no"))))
    });
    assert_eq!(answer, Ok(5));
    let totals = command.snapshot().totals;
    assert_eq!(totals[Event::Failure], 6, "three times two");
    assert_eq!(totals[Event::FallbackSuccess], 1);
}

#[test]
fn call_options_hold_for_all_attempts() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND * 9));
    let request = RequestContext::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = Arc::clone(&seen);
    let call = command
        .call()
        .timeout(SECOND)
        .context(&request)
        .observe(move |event| see.lock().unwrap().push(event));
    let error = rich(2).run(call, |call| {
        let clock = clock.clone();
        call.run(move |cancel| {
            assert_eq!(cancel.deadline(), Some(clock.now() + SECOND));
            assert!(RequestContext::current().is_some());
            Err("no")
        })
    });
    let error = error.unwrap_err();
    assert!(error.events().contains(Event::ExceptionThrown));
    let expected = [
        Event::Failure,
        Event::Retried,
        Event::Failure,
        Event::FallbackMissing,
        Event::ExceptionThrown,
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(request.log().len() >= 2, "each attempt is a call");
}

#[test]
fn a_cache_key_on_the_call_is_outermost() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(9)));
    let _entered = RequestContext::new().enter();
    let retry = rich(3);
    for _ in 0..2 {
        let answer = retry.run(command.call().cache_key("x"), |call| {
            call.run(|_| Err("no"))
        });
        assert_eq!(answer, Ok(9));
    }
    let attempt = |call: Call| call.run_async(|_| async { Ok(1) });
    let call = command.call().cache_key("x");
    let hedged = pin!(Hedge::default().run_async(call, attempt));
    assert_eq!(poll_once(hedged), Poll::Ready(Ok(9)), "the same result");
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Failure], totals[Event::FallbackSuccess]),
        (3, 1)
    );
    assert_eq!(totals[Event::ResponseFromCache], 2);
}

fn fail(retry: &Retry<&'static str>, call: Call) -> Answer {
    retry.run(call, |call| call.run(|_| Err("no")))
}

#[test]
fn a_rate_limit_outside_of_a_retry_takes_one_token() {
    let (_clock, _isolation, command) = alone(|c| c);
    let (outside, retry) = (limit(2), rich(3));
    for _ in 0..2 {
        let error = outside.run(command.call(), |call| fail(&retry, call));
        assert!(error.unwrap_err().is_failed());
    }
    let error = outside.run(command.call(), |call| fail(&retry, call));
    assert_eq!(error.unwrap_err().retry_after(), Some(SECOND * 60));
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::RateLimited]), (6, 1));
    let inside = limit(2);
    let error = retry.run(command.call(), |call| {
        inside.run(call, |call| call.run(|_| Err("no")))
    });
    let error = error.unwrap_err();
    assert!(error.retry_after().is_some(), "each attempt pays: {error}");
    assert_eq!(command.snapshot().totals[Event::Failure], 8);
}

#[test]
fn a_rate_limit_is_checked_and_shared_by_its_clones() {
    let none = RateConfig {
        calls: 0,
        per: SECOND,
        burst: 1,
    };
    assert!(RateLimit::new(none).is_err());
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(9)));
    let limit = limit(1);
    let run = |limit: &RateLimit| limit.run(command.call(), |call| call.run(|_| Ok(1)));
    assert_eq!((run(&limit), run(&limit.clone())), (Ok(1), Ok(9)));
}

#[test]
fn a_wrapped_future_that_is_dropped_ends_its_attempt_and_notifies_sharers() {
    let (_clock, _isolation, command) = alone(|c| c);
    let _entered = RequestContext::new().enter();
    let share = |command: &Numbers| -> Answering {
        let retry = rich(3);
        let attempt = |call: Call| call.run_async(|_| pending());
        Box::pin(retry.run_async(command.call().cache_key("x"), attempt))
    };
    let [mut first, mut second] = [(); 2].map(|()| share(&command));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!(command.snapshot().active, 1, "they share a run");
    drop(first);
    assert_eq!(command.snapshot().active, 0);
    let error = failed(poll_once(second.as_mut()), "it must not run any more");
    assert!(error.is_cancelled());
}

#[test]
fn a_queued_call_is_an_attempt_and_its_error_is_the_calls() {
    let (_clock, _isolation, command) = alone(|c| {
        c.fallback(|why| {
            assert!(why.is_failed());
            Ok(4)
        })
    });
    let retry = rich(2);
    let mut answer = pin!(retry.run_async(command.call(), |call: Call| call.queue(|_| Err("no"))));
    assert_eq!(poll_once(answer.as_mut()), Poll::Ready(Ok(4)));
    assert_eq!(command.snapshot().totals[Event::Failure], 2);
    let question = async |command: &Numbers| -> Answer { Ok(command.queue(|_| Ok(1)).await?) };
    assert_eq!(poll_once(pin!(question(&command))), Poll::Ready(Ok(1)));
}

#[test]
fn a_hedge_inside_of_a_retry_is_a_hedge_in_each_attempt() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    for _ in 0..200 {
        command.run(|_| Ok(0)).unwrap();
    }
    let (retry, hedge) = (rich(2), Hedge::default());
    let ran = AtomicU32::new(0);
    // All but the last run until their time is over.
    let attempt = |call: Call| {
        let n = ran.fetch_add(1, Ordering::Relaxed);
        call.run_async(move |_| async move { if n < 3 { pending().await } else { Ok(n) } })
    };
    let mut answer = pin!(retry.run_async(command.call(), |call| hedge.run_async(call, attempt)));
    for (pause, hedged) in [(Duration::from_millis(1), 1), (SECOND, 1)] {
        assert!(poll_once(answer.as_mut()).is_pending());
        clock.advance(pause);
        assert!(poll_once(answer.as_mut()).is_pending());
        assert_eq!(command.snapshot().totals[Event::Hedged], hedged);
    }
    assert_eq!(command.snapshot().totals[Event::Retried], 1);
    clock.advance(SECOND / 2);
    assert_eq!(poll_once(answer.as_mut()), Poll::Ready(Ok(3)));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.totals[Event::Hedged], snapshot.active), (2, 0));
}

#[test]
fn a_panic_in_a_wrapped_closure_ends_the_shared_run() {
    let (_clock, _isolation, command) = alone(|c| c);
    let _entered = RequestContext::new().enter();
    let (retry, shared) = (rich(1), || command.call().cache_key("x"));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        retry.run(shared(), |_| panic!("on purpose"))
    }));
    assert!(caught.is_err());
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let attempt = |_: Call| -> Ready<Answer> { panic!("on purpose") };
        poll_once(pin!(retry.run_async(shared(), attempt)))
    }));
    assert!(caught.is_err());
    let answer = retry.run(shared(), |call| call.run(|_| Ok(7)));
    assert_eq!(answer, Ok(7), "the next call runs again");
}

#[test]
fn a_retry_with_a_fallback_logs_each_event_once() {
    let (_clock, isolation, command) = alone(|c| c.fallback(|_| Ok(9)));
    let request = RequestContext::new();
    let call = command.call().context(&request);
    let retry = Retry::attempts(2);
    assert_eq!(retry.run(call, |call| call.run(|_| Err("no"))), Ok(9));
    let logged: Vec<_> = request.log().iter().map(|call| call.events).collect();
    let failure = events(&[Event::Failure]);
    assert_eq!(
        logged,
        [failure, failure, events(&[Event::FallbackSuccess])]
    );
    let text = request.log_text();
    assert_eq!(text.matches("FAILURE").count(), 1, "{text}");
    let strict = made(builder("b").bad_request_when(|_| true), &isolation);
    let request = RequestContext::new();
    let call = strict.call().context(&request);
    let error = retry.run(call, |call| call.run(|_| Err("you")));
    let happened = events(&[Event::BadRequest, Event::ExceptionThrown]);
    assert_eq!(
        error.unwrap_err().events(),
        happened,
        "the error has them all"
    );
    let logged: Vec<_> = request.log().iter().map(|call| call.events).collect();
    let [bad, thrown] = [Event::BadRequest, Event::ExceptionThrown].map(|event| events(&[event]));
    assert_eq!(logged, [bad, thrown]);
}

#[test]
fn an_attempt_that_is_an_entry_counts_its_error_once() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let _held = command.admit().unwrap();
    let answer = Retry::attempts(3).run(command.call(), |call| {
        let entry = call.admit()?;
        entry.verdict(true);
        Ok(1)
    });
    assert!(answer.unwrap_err().is_rejected());
    assert_eq!(
        counted(&command),
        [
            (Event::PermitsRejected, 3),
            (Event::FallbackMissing, 1),
            (Event::ExceptionThrown, 1),
            (Event::Retried, 2),
        ]
    );
}

#[test]
fn an_attempt_without_a_request_counts_its_error_once() {
    let (_clock, _isolation, command) = alone(|c| c);
    let answer = Retry::attempts(3).run(command.call(), |call| call.cache_key("x").run(|_| Ok(1)));
    assert_eq!(answer.unwrap_err().cause(), &Cause::NoRequest);
    assert_eq!(
        counted(&command),
        [(Event::Failure, 1), (Event::ExceptionThrown, 1)]
    );
}
