//! What a thread knows while it works for another.

use crate::context::{Entered, RequestContext};
use crate::plugin::{Install, Restore, contain};

/// What the calling thread had, on the working thread; dropping it puts back what was there.
pub(super) struct Surroundings {
    restore: Vec<Restore>,
    _context: Entered,
}

impl Surroundings {
    pub(super) fn install(context: Option<RequestContext>, captured: Vec<Install>) -> Self {
        let context = Entered::set(context);
        let restore = captured
            .into_iter()
            .filter_map(|install| contain(install).ok());
        Self {
            restore: restore.collect(),
            _context: context,
        }
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        // Backwards: the last that was installed is the first to go.
        while let Some(restore) = self.restore.pop() {
            let _ = contain(restore);
        }
    }
}
