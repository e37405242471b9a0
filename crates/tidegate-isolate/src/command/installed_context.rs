//! The context that a worker thread takes over from the caller: the request, and the propagators'
//! values.

use std::sync::Arc;

use crate::error::contain;
use crate::plugin::{Install, Plugins, Restore};
use crate::request::{Entered, RequestContext};

/// The caller's context, installed on this thread. Dropping it restores the previous context.
pub(super) struct InstalledContext {
    restore: Vec<Restore>,
    /// The plug-ins to which panics of propagators are reported; `None` if there is nothing to
    /// restore.
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
        let mut restore = Vec::with_capacity(captured.len());
        for install in captured {
            let installed = contain(install);
            plugins.report_propagator_panic(&installed);
            restore.extend(installed.ok());
        }
        Self {
            restore,
            plugins: to_report,
            _context: context,
        }
    }
}

impl Drop for InstalledContext {
    fn drop(&mut self) {
        // In reverse order: the context that was installed last is removed first.
        while let Some(restore) = self.restore.pop() {
            let restored = contain(restore);
            if let Some(plugins) = &self.plugins {
                plugins.report_propagator_panic(&restored);
            }
        }
    }
}
