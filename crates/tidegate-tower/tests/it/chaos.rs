//! Random calls against a count of what must be held: whatever happens to a future or a body, its
//! permit is held while it lives and comes back with its end, and each call is counted once.

use std::convert::Infallible;
use std::future::pending;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use tidegate_isolate::{BreakerMode, Command, Event};
use tidegate_testkit::{Rng, model, short_or_long};
use tidegate_tower::{CommandBody, CommandExt, CommandService};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, service_fn};

use crate::support::{Script, Step, active, builder, frame, headers, poll_once, response, still};

const PERMITS: usize = 4;

type Upstream = BoxCloneSyncService<Request<u64>, Response<Script>, Infallible>;
type Calls = CommandService<Upstream>;

/// What a caller has in its hands.
enum Held {
    Future(Pin<Box<<Calls as Service<Request<u64>>>::Future>>),
    Body(Box<CommandBody<Script>>),
}

/// Responds as the seed in the request says.
async fn upstream(request: Request<u64>) -> Result<Response<Script>, Infallible> {
    let mut rng = Rng::new(request.into_body());
    match rng.below(4) {
        0 => return pending().await,
        // Without the panic hook, which would print thousands of messages.
        1 => resume_unwind(Box::new("out of ink")),
        _ => {}
    }
    let step = |rng: &mut Rng| match rng.below(8) {
        0 => Step::Fails,
        2 => Step::Waits,
        3 => Step::Endless,
        4 => Step::Trailers(headers("grpc-status", "14")),
        _ => Step::Data("data"),
    };
    let steps: Vec<_> = (0..rng.below(4)).map(|_| step(&mut rng)).collect();
    Ok(response(200 + 300 * rng.below(2) as u16, steps))
}

/// Does one thing with what a caller has. Returns what is left of it.
fn go_on(held: Held, rng: &mut Rng) -> Option<Held> {
    match held {
        _ if rng.chance(0.2) => None,
        Held::Future(mut future) => match poll_once(future.as_mut()) {
            Poll::Pending => Some(Held::Future(future)),
            Poll::Ready(Ok(response)) => Some(Held::Body(Box::new(response.into_body()))),
            Poll::Ready(Err(_)) => None,
        },
        Held::Body(mut body) => match frame(&mut *body) {
            Poll::Ready(None | Some(Err(_))) => None,
            Poll::Pending | Poll::Ready(Some(Ok(_))) => Some(Held::Body(body)),
        },
    }
}

fn ended(command: &Command) -> u64 {
    let totals = command.snapshot().totals;
    let ends = [
        Event::Success,
        Event::Failure,
        Event::Timeout,
        Event::Cancelled,
        Event::PermitsRejected,
    ];
    ends.iter().map(|event| totals[*event]).sum()
}

#[test]
fn permits_are_held_while_calls_live_and_each_call_is_counted_once() {
    model(0..short_or_long(200, 20_000), |rng| {
        let (clock, isolation) = still();
        let command = builder("a")
            .permits(PERMITS)
            .configure(|c| c.breaker.mode = BreakerMode::Disabled);
        let command = command.build(&isolation).unwrap();
        let mut service = command
            .layer()
            .layer(BoxCloneSyncService::new(service_fn(upstream)));
        let mut all: Vec<Held> = Vec::new();
        let mut calls = 0;
        for _ in 0..40 {
            match rng.below(8) {
                0..=2 => {
                    let future = service.call(Request::new(rng.next_u64()));
                    all.push(Held::Future(Box::pin(future)));
                    calls += 1;
                }
                3 => clock.advance(Duration::from_millis(300)),
                _ if !all.is_empty() => {
                    let held = all.swap_remove(rng.index(all.len()));
                    all.extend(go_on(held, rng));
                }
                _ => {}
            }
            assert!(active(&command) as usize <= PERMITS.min(all.len()));
        }
        drop((all, service));
        assert_eq!(active(&command), 0);
        assert_eq!(ended(&command), calls);
    });
}
