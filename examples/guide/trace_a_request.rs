//! What a subscriber of `tracing` prints: calls, breakers and refusals, in the span of the request.

use tidegate::isolate::BreakerWindow;
use tidegate::prelude::*;
use tracing::{Level, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;

fn main() -> tidegate::Result<()> {
    // A program in production prints the time too, and often the level INFO: then without spans of
    // calls and connections.
    tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .without_time()
        .init();

    let isolation = Isolation::builder().build()?;
    let stock: Command<u32, std::io::Error> = Command::builder("stock")
        .group("shop")
        .breaker(BreakerConfig {
            window: BreakerWindow::Count(10),
            min_calls: 3,
            ..BreakerConfig::default()
        })
        .build(&isolation)?;
    let home = EventLoop::builder("home").build()?;

    let request = info_span!("request", id = 7).entered();
    // A call is a span. What the work reports is inside.
    stock.run(|_cancel| {
        info!("asking the warehouse");
        Ok(3)
    })?;
    // The current span goes along to other threads.
    home.submit(|| info!("on the event loop"))?.wait()?;
    // The second failure opens the breaker. Rejected calls are reported at most once per second.
    for _ in 0..3 {
        let _ = stock.run(|_cancel| Err(std::io::ErrorKind::ConnectionRefused.into()));
    }
    home.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
    drop(request);
    Ok(())
}
