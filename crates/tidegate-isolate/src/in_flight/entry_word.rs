//! Whether the holder of an entry has said how its call ended.
//!
//! The holder says it once: with a verdict, or by dropping the entry. The word of the call decides
//! between that and the timer, which only ends the call's time. Neither gives the permit back: that
//! is the drop alone.

use tidegate_core::internal::prim::{AtomicBool, Ordering};

/// Set by the first report of an entry.
///
/// ```
/// use tidegate_isolate::internal::{CallWord, EntryWord};
///
/// let (word, entry) = (CallWord::default(), EntryWord::default());
/// word.begin();
/// assert_eq!(entry.report(|| word.finish()), Some(true));
/// assert_eq!(entry.report(|| word.finish()), None, "only the first counts");
/// ```
#[derive(Debug, Default)]
pub struct EntryWord(AtomicBool);

impl EntryWord {
    /// Ends the time of the call with `finish`, if this is the first report; returns what that
    /// returned: `true` if the call ended in time.
    #[inline]
    pub fn report(&self, finish: impl FnOnce() -> bool) -> Option<bool> {
        // Relaxed: it only decides which report is the first. The others read nothing of it.
        if self.0.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(finish())
    }

    /// Returns `true` if there was a report.
    #[inline]
    pub fn is_reported(&self) -> bool {
        // Relaxed: for the drop, before which all other uses of the entry have ended.
        self.0.load(Ordering::Relaxed)
    }
}
