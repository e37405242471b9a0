//! Signals, each time they come.

use tidegate::promise::{Completion, Outcome};
use tidegate_loop::signal::Received;

/// Calls `act` each time a signal comes, until it returns `false`. It runs where signals are delivered,
/// and must not block.
pub(crate) fn each(signal: Completion<Received>, mut act: impl FnMut() -> bool + Send + 'static) {
    signal.finally(move |outcome| {
        if let Outcome::Success(received) = outcome {
            // The next one is awaited before this one is told, so that none in between is lost.
            let next = received.next();
            if act() {
                each(next, act);
            }
        }
    });
}
