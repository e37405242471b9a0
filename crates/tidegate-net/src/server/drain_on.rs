//! Drains a server when a signal arrives.

use std::time::Duration;

use tidegate_loop::signal::Received;
use tidegate_promise::{Completion, SharedPromise, promise};

use super::builder::Server;
use super::drain::DrainReport;
use crate::awaited::result;

impl Server {
    /// The time that [`Server::drain_on`] gives connections to end. Kubernetes kills a process 30
    /// seconds after it asked it to end, so this is a little less.
    pub const DRAIN_DEADLINE: Duration = Duration::from_secs(25);

    /// [Drains](Server::drain) the server when `signal` arrives, with the deadline
    /// [`Server::DRAIN_DEADLINE`]. If the same signal arrives a second time, all connections are
    /// closed at once.
    ///
    /// The completion succeeds with the report of the drain, after a second signal with that of
    /// the connections that were open then. It fails if the signal cannot be awaited. Dropping it
    /// changes nothing. Cancelling it before the signal arrives ends the wait for the signal. The
    /// server and its event loops exist until then.
    ///
    /// ```no_run
    /// use tidegate_loop::signal;
    /// # use tidegate_net::{Server, StreamHandler};
    /// # let group = tidegate_net::pinned("io", 1)?;
    /// # let server = Server::builder(&group)
    /// #     .pipeline(|p| p.add("hang up", StreamHandler::new(|stream| async { drop(stream) })))
    /// #     .bind("127.0.0.1:0")
    /// #     .wait()?;
    ///
    /// let report = server.drain_on(signal::terminate()).wait()?;
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// For the first of several signals:
    /// `Completion::any([signal::terminate(), signal::interrupt()])`.
    pub fn drain_on(&self, signal: Completion<Received>) -> Completion<DrainReport> {
        self.drain_on_timeout(signal, Self::DRAIN_DEADLINE)
    }

    /// [`Server::drain_on`] with another deadline, counted from the signal.
    pub fn drain_on_timeout(
        &self,
        signal: Completion<Received>,
        deadline: Duration,
    ) -> Completion<DrainReport> {
        let (promise, done) = promise();
        let promise = promise.share();
        let (server, report) = (self.clone(), promise.clone());
        signal.on_complete(move |outcome| match result(outcome) {
            // `false` if the caller has cancelled at this moment.
            Ok(received) if report.set_uncancellable() => {
                server.drain_twice(received, deadline, report);
            }
            Ok(_) => {}
            Err(why) => drop(report.try_fail(why)),
        });
        promise.on_cancel(move || {
            signal.cancel();
        });
        done
    }

    /// Drains the server, and once more without a deadline to wait for when the signal arrives
    /// again. One of the two drains makes the report.
    fn drain_twice(
        &self,
        received: &Received,
        deadline: Duration,
        report: SharedPromise<DrainReport>,
    ) {
        let again = received.next();
        let (server, second) = (self.clone(), report.clone());
        again.on_complete(move |outcome| {
            if outcome.is_success() {
                let drained = server.drain(Duration::ZERO);
                drained.finally(move |outcome| {
                    let _ = second.try_complete(result(outcome).cloned());
                });
            }
        });
        self.drain(deadline).finally(move |outcome| {
            // Cancelling releases the server, which the listener above holds. It fails if the
            // signal has arrived again: then the other drain makes the report.
            if again.cancel() {
                let _ = report.try_complete(result(outcome).cloned());
            }
        });
    }
}
