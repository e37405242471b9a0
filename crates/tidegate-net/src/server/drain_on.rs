//! Drains a server when a signal arrives.

use std::time::Duration;

use tidegate_loop::signal::Received;
use tidegate_promise::{Completion, Outcome, SharedPromise, promise};

use super::builder::Server;
use super::drain::DrainReport;

impl Server {
    /// [Drains](Server::drain) the server when `signal` arrives. Connections that are still open
    /// `deadline` after that are closed, and so are all connections if the same signal arrives a
    /// second time. The completion succeeds with the report of the drain. It fails if the signal
    /// cannot be awaited. Cancelling it before the signal arrives ends the wait for the signal.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate_loop::signal;
    /// # use tidegate_net::{Server, StreamHandler};
    /// # let group = tidegate_net::pinned("io", 1)?;
    /// # let server = Server::builder(&group)
    /// #     .pipeline(|p| p.add("hang up", StreamHandler::new(|stream| async { drop(stream) })))
    /// #     .bind("127.0.0.1:0")
    /// #     .wait()?;
    ///
    /// let report = server.drain_on(signal::terminate(), Duration::from_secs(30)).wait()?;
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// More than one signal: `Completion::any([signal::terminate(), signal::interrupt()])`.
    pub fn drain_on(
        &self,
        signal: Completion<Received>,
        deadline: Duration,
    ) -> Completion<DrainReport> {
        let (promise, done) = promise();
        let promise = promise.share();
        let (server, report) = (self.clone(), promise.clone());
        signal.on_complete(move |outcome| match outcome {
            Outcome::Success(received) => server.drain_until(received, deadline, report),
            Outcome::Failure(cause) => drop(report.try_fail(cause.clone())),
            Outcome::Cancelled => drop(report.cancel()),
        });
        promise.on_cancel(move || {
            signal.cancel();
        });
        done
    }

    /// Drains the server; closes all connections when the signal arrives again.
    fn drain_until(
        &self,
        received: &Received,
        deadline: Duration,
        report: SharedPromise<DrainReport>,
    ) {
        let again = received.next();
        let server = self.clone();
        again.on_complete(move |outcome| {
            if outcome.is_success() {
                drop(server.drain(Duration::ZERO));
            }
        });
        self.drain(deadline).finally(move |outcome| {
            // Releases the server, which the listener holds.
            again.cancel();
            match outcome {
                Outcome::Success(drained) => drop(report.try_succeed(drained.clone())),
                Outcome::Failure(cause) => drop(report.try_fail(cause.clone())),
                Outcome::Cancelled => drop(report.cancel()),
            }
        });
    }
}
