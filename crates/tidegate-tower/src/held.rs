//! The call of a response whose head has arrived: what remains is to end it.

use tidegate_isolate::{CommandError, Entry, Verdict};

/// A call with the verdict on the head of its response. Dropping it ends the call with that verdict:
/// a caller that does not need the rest of a response has nothing against the dependency.
#[derive(Debug)]
pub(crate) struct HeldCall {
    /// `None` once the call has ended.
    entry: Option<Entry>,
    verdict: Verdict,
}

impl HeldCall {
    pub(crate) fn new(entry: Entry, verdict: Verdict) -> Self {
        Self {
            entry: Some(entry),
            verdict,
        }
    }

    /// Replaces the verdict.
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    /// Ends the call with its verdict and gives the permit back. Returns the error of a call that
    /// was too late.
    pub(crate) fn end<E>(mut self) -> Result<(), CommandError<E>> {
        match self.entry.take() {
            Some(entry) => entry.end(self.verdict),
            None => Ok(()),
        }
    }

    /// Returns the entry, for a call that ends in another way.
    pub(crate) fn into_entry(mut self) -> Option<Entry> {
        self.entry.take()
    }

    pub(crate) fn entry(&mut self) -> Option<&mut Entry> {
        self.entry.as_mut()
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.verdict(self.verdict);
        }
    }
}
