//! Time as an argument: the same code runs with the real clock and, in a test, with a manual one.

use std::sync::mpsc::{Sender, channel};

use tidegate::isolate::BreakerState;
use tidegate::prelude::*;

const IDLE: Duration = Duration::from_secs(30 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// Logs users out after half an hour without a request.
struct Sessions {
    home: EventLoop,
    log: Sender<String>,
}

impl Sessions {
    fn log_in(&self, user: &'static str) -> tidegate::Result<CoarseTimer> {
        let log = self.log.clone();
        let end = move || drop(log.send(format!("{user} was logged out")));
        Ok(self.home.schedule_coarse(IDLE, end)?)
    }
}

fn main() -> tidegate::Result<()> {
    let clock = ManualClock::new(); // stands still until `advance`
    let home = EventLoop::builder("home").clock(&clock).build()?;
    let (log, events) = channel();
    let sessions = Sessions {
        home: home.clone(),
        log,
    };
    let since = |when: &str| println!("{when}: {:?}", events.try_iter().collect::<Vec<_>>());

    let anna = sessions.log_in("Anna")?;
    let _bert = sessions.log_in("Bert")?;
    clock.advance(20 * MINUTE);
    anna.reset(IDLE); // a request of Anna
    clock.advance(15 * MINUTE);
    since("after 35 minutes");
    clock.advance(15 * MINUTE); // returns when everything that is due has run
    since("after 50 minutes");

    // Timeouts and breakers of commands use the clock of their isolation.
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build()?;
    let stock: Command<u32, String> = Command::builder("stock")
        .group("shop")
        .timeout(Duration::from_millis(100))
        .build(&isolation)?;
    let state = |when: &str| println!("{when}: {:?}", stock.snapshot().breaker);

    for _ in 0..20 {
        let clock = clock.clone();
        let late = stock.run(move |cancel| {
            clock.advance(Duration::from_millis(100)); // the work takes this long
            assert!(cancel.is_cancelled());
            Ok(1)
        });
        assert!(late.is_err_and(|error| error.is_timed_out()));
    }
    clock.advance(Duration::from_millis(500)); // a bucket of the breaker's window closes
    state("after 20 timeouts");
    clock.advance(Duration::from_secs(6)); // longer than the sleep of the breaker
    assert_eq!(stock.run(|_cancel| Ok(7)), Ok(7)); // the probe
    state("after a good probe");
    assert_eq!(stock.snapshot().breaker, BreakerState::Closed);
    Ok(())
}
