//! Rejections as errors: each limit has its reason, and says when to try again if it knows.

use std::convert::Infallible;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{
    BreakerConfig, BreakerWindow, Bulkhead, CallStage, Cause, Command, CommandError, Event,
    Isolation, PoolConfig, RateConfig, Rejection,
};
use tidegate_tower::CommandExt;
use tower::{Layer, service_fn};

use crate::support::{
    SECOND, Step, active, builder, call, calm, counted, get, limited, now, responds, still,
};

/// Makes one call that gets this status.
fn ask(command: &Command, status: u16) -> Result<u16, CommandError<Infallible>> {
    let mut service = command
        .layer()
        .layer(responds::<Infallible>(status, Vec::new));
    now(call(&mut service, get())).map(|response| response.status().as_u16())
}

#[test]
fn all_permits_are_held() {
    let (_clock, _isolation, command) = limited(1);
    let mut service = command
        .layer()
        .layer(responds::<Infallible>(200, || vec![Step::Data("one")]));
    let held = now(call(&mut service, get())).unwrap();
    let error = ask(&command, 200).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
    assert_eq!(error.retry_after(), None);
    assert_eq!(
        error.to_string(),
        "command a was rejected: all permits are held, try again later; no fallback was tried"
    );
    drop(held);
    assert_eq!(ask(&command, 200), Ok(200));
}

#[test]
fn the_breaker_is_open_until_a_probe_succeeds() {
    let (clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        sleep: Duration::from_secs(5),
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker).build(&isolation).unwrap();
    assert_eq!(ask(&command, 503), Ok(503), "the caller gets the response");
    let error = ask(&command, 200).unwrap_err();
    assert!(error.is_short_circuited());
    assert_eq!(error.retry_after(), Some(Duration::new(5, 1)));
    clock.advance(Duration::new(5, 1));
    assert_eq!(ask(&command, 200), Ok(200));
    assert_eq!(ask(&command, 200), Ok(200));
}

#[test]
fn a_probe_whose_body_fails_opens_the_breaker_again_if_it_is_judged_at_its_end() {
    let (clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker).build(&isolation).unwrap();
    assert_eq!(ask(&command, 503), Ok(503));
    clock.advance(Duration::from_millis(5_001));
    let layer = command.layer().until_end();
    let mut service = layer.layer(responds::<Infallible>(200, || vec![Step::Fails]));
    let mut probe = now(call(&mut service, get())).unwrap().into_body();
    assert!(
        ask(&command, 200).unwrap_err().is_short_circuited(),
        "one probe is out"
    );
    assert!(crate::support::frame(&mut probe).is_ready());
    assert!(ask(&command, 200).unwrap_err().is_short_circuited());
}

#[test]
fn a_probe_closes_the_breaker_with_its_head() {
    let (clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker).build(&isolation).unwrap();
    assert_eq!(ask(&command, 503), Ok(503));
    clock.advance(Duration::from_millis(5_001));
    let mut service = command
        .layer()
        .layer(responds::<Infallible>(200, || vec![Step::Waits]));
    let probe = now(call(&mut service, get())).unwrap();
    assert_eq!(ask(&command, 200), Ok(200), "while the body is not read");
    assert_eq!(active(&command), 1);
    drop(probe);
}

#[test]
fn the_rate_limit_is_reached() {
    let (clock, isolation) = still();
    let rate = RateConfig {
        calls: 1,
        per: SECOND,
        burst: 1,
    };
    let command = builder("a").rate(rate).build(&isolation).unwrap();
    assert_eq!(ask(&command, 200), Ok(200));
    let error = ask(&command, 200).unwrap_err();
    assert!(matches!(error.cause(), Cause::Rejected(Rejection::Rate(_))));
    let after = error.retry_after().expect("the rate limit knows");
    clock.advance(after);
    assert_eq!(ask(&command, 200), Ok(200));
}

#[test]
fn the_isolation_was_stopped_or_shut_down() {
    for stop in [
        (|isolation| Isolation::shutdown_now(isolation)) as fn(&Isolation),
        |isolation| drop(isolation.shutdown(Duration::ZERO)),
    ] {
        let (_clock, isolation, command) = calm();
        assert_eq!(ask(&command, 200), Ok(200));
        stop(&isolation);
        let error = ask(&command, 200).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::Closed));
        assert_eq!(active(&command), 0);
        assert_eq!(command.snapshot().totals[Event::PoolRejected], 1);
    }
}

#[test]
fn a_command_with_threads_cannot_run_a_future() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&reports);
    let isolation = Isolation::builder().on_unhandled(move |source, problem| {
        log.lock().unwrap().push(format!("{source}: {problem}"));
    });
    let isolation = isolation.build().unwrap();
    let command = builder("a").threads(PoolConfig::default());
    let command = command.build(&isolation).unwrap();
    drop((command.layer(), command.layer(), command.plain_layer()));
    assert_eq!(reports.lock().unwrap().len(), 1, "once for each command");
    let text = reports.lock().unwrap()[0].clone();
    assert!(text.contains("the layer of command a failed"), "{text}");
    assert!(text.contains("build the command with permits"), "{text}");
    let error = ask(&command, 200).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
    assert_eq!((error.http_status(), error.grpc_code()), (500, 13));
    assert_eq!(reports.lock().unwrap().len(), 1, "and not for each call");
}

#[test]
fn a_command_that_gets_threads_later_is_reported_at_the_next_call() {
    let reports = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reports);
    let isolation = Isolation::builder().on_unhandled(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let isolation = isolation.build().unwrap();
    let command = builder("a").build(&isolation).unwrap();
    let layer = command.plain_layer();
    command
        .configure(|config| config.bulkhead = Bulkhead::Threads)
        .unwrap();
    assert_eq!(reports.load(Ordering::Relaxed), 0);
    let ask = || {
        let service = service_fn(|()| ready(Ok::<_, Infallible>(())));
        let error = now(call(&mut layer.layer(service), ())).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
    };
    ask();
    ask();
    assert_eq!(reports.load(Ordering::Relaxed), 1);
    command
        .configure(|config| config.bulkhead = Bulkhead::Permits)
        .unwrap();
    let service = service_fn(|()| ready(Ok::<_, Infallible>(())));
    assert_eq!(now(call(&mut layer.layer(service), ())), Ok(()), "live");
}

#[test]
fn a_hook_rejects_a_call() {
    let isolation = Isolation::builder().hook(|stage, _| match stage {
        CallStage::ExecutionStart => Err("not today".to_owned()),
        _ => Ok(()),
    });
    let isolation = isolation.build().unwrap();
    let command = builder("a").build(&isolation).unwrap();
    let error = ask(&command, 200).unwrap_err();
    assert!(matches!(error.cause(), Cause::Panicked(_)), "{error:?}");
    assert_eq!(active(&command), 0);
    assert!(counted(&command).contains(&(Event::Failure, 1)));
}
