//! Promises that wait for a change of a channel.
//!
//! A caller may stop waiting: it cancels its completion, or drops it. The promises of such callers
//! are removed when others need their memory, so a caller that waits in vain again and again uses no
//! more memory than one that waits on.

use tidegate_promise::Promise;

/// Promises that wait for the same change.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<Promise<()>>);

impl Waiters {
    /// Adds a promise. Returns those that were abandoned, to be dropped with no lock held.
    ///
    /// It looks for them when there is no memory for one more, and then makes room for as many again
    /// as wait, so an addition costs a constant time on average.
    pub(super) fn add(&mut self, promise: Promise<()>) -> Vec<Promise<()>> {
        let mut abandoned = Vec::new();
        if self.0.len() == self.0.capacity() {
            let is_abandoned = |one: &Promise<()>| one.is_cancelled() || !one.is_observed();
            (abandoned, self.0) = self.take().into_iter().partition(is_abandoned);
            self.0.reserve(self.0.len() + 1);
        }
        self.0.push(promise);
        abandoned
    }

    /// Removes and returns all promises.
    pub(super) fn take(&mut self) -> Vec<Promise<()>> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_promise::{Completion, promise};
    use tidegate_testkit::Counter;

    use super::*;

    /// Stops waiting. Returns the completion if it stays.
    type End = fn(Completion<()>) -> Option<Completion<()>>;

    #[test]
    fn a_wait_that_is_cancelled_or_dropped_is_not_kept() {
        let ends: [End; 3] = [
            |done| done.cancel().then_some(done),
            |_dropped| None,
            |done| {
                drop(done.on_complete(|_| {}));
                done.cancel();
                None
            },
        ];
        for end in ends {
            let (mut waiters, mut kept) = (Waiters::default(), Vec::new());
            let mut waits = Vec::new();
            for round in 0..1_000 {
                let (own, done) = promise();
                drop(waiters.add(own));
                match round % 100 {
                    0 => waits.push(done),
                    _ => kept.extend(end(done)),
                }
            }
            assert!(waiters.0.len() <= 32, "{} are kept", waiters.0.len());
            for promise in waiters.take() {
                let _ = promise.succeed(());
            }
            assert_eq!(waits.len(), 10);
            assert!(waits.into_iter().all(|done| done.wait().is_ok()));
        }
    }

    #[test]
    fn a_wait_with_a_listener_is_kept_without_its_completion() {
        let (mut waiters, heard) = (Waiters::default(), Counter::new());
        for _ in 0..100 {
            let (own, done) = promise::<()>();
            let heard = heard.clone();
            done.finally(move |_| heard.note());
            assert!(waiters.add(own).is_empty());
        }
        waiters
            .take()
            .into_iter()
            .for_each(|one| drop(one.succeed(())));
        assert_eq!(heard.count(), 100);
    }
}
