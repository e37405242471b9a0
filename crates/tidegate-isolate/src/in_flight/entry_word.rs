//! Records that the holder of an entry has reported how its call ended.
//!
//! The holder ends a call once: by a verdict, by cancelling it, or by dropping the entry. The word
//! of the call decides whether the holder or the timer was first, and the first one reports the
//! outcome. Neither of them gives the permit back: only the drop of the entry does.

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
    /// Calls `finish`, which ends the timeout of the call, if this is the first report. Returns its
    /// result, or `None` for later reports.
    #[inline]
    pub fn report<R>(&self, finish: impl FnOnce() -> R) -> Option<R> {
        // Relaxed: the swap only decides which report is first. Later reports read no data of the
        // first.
        if self.0.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(finish())
    }

    /// Does what [`report`](Self::report) does, without an atomic exchange: no other report can come
    /// at the same time.
    #[inline]
    pub fn report_alone<R>(&mut self, finish: impl FnOnce() -> R) -> Option<R> {
        if self.is_reported() {
            return None;
        }
        // Relaxed: the word is borrowed by this thread alone.
        self.0.store(true, Ordering::Relaxed);
        Some(finish())
    }

    /// Returns `true` if there was a report.
    #[inline]
    pub fn is_reported(&self) -> bool {
        // Relaxed: all other uses of the entry have ended before its drop reads this. `Debug` needs
        // no order.
        self.0.load(Ordering::Relaxed)
    }
}
