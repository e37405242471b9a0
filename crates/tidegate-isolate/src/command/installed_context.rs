//! What a working thread takes over from the calling one: the request, and what propagators carry.

use std::sync::Arc;

use crate::error::contain;
use crate::plugin::{Install, Plugins, Restore};
use crate::request::{Entered, RequestContext};

/// What the calling thread had, on the working thread; dropping it puts back what was there.
pub(super) struct InstalledContext {
    restore: Vec<Restore>,
    /// To report what panics; none if there is nothing to restore.
    plugins: Option<Arc<Plugins>>,
    _context: Entered,
}

impl InstalledContext {
    pub(super) fn install(
        plugins: &Arc<Plugins>,
        context: Option<RequestContext>,
        captured: Vec<Install>,
    ) -> Self {
        let context = Entered::set(context);
        let to_report = (!captured.is_empty()).then(|| Arc::clone(plugins));
        let installed = captured.into_iter().map(contain);
        let heard = installed.inspect(|one| plugins.heard_propagator(one));
        Self {
            restore: heard.filter_map(Result::ok).collect(),
            plugins: to_report,
            _context: context,
        }
    }
}

impl Drop for InstalledContext {
    fn drop(&mut self) {
        // Backwards: the last that was installed is the first to go.
        while let Some(restore) = self.restore.pop() {
            let restored = contain(restore);
            if let Some(plugins) = &self.plugins {
                plugins.heard_propagator(&restored);
            }
        }
    }
}
