//! The receivers of the events of one entry, which its holder and the timer share.

use std::sync::Arc;

use tidegate_core::internal::trace::Span;

use crate::event::Event;
use crate::request::RequestContext;

/// The observer of an entry, the request whose log it is written into, and its span.
pub(crate) struct EntryWatch {
    pub(crate) observer: Option<Arc<dyn Fn(Event) + Send + Sync>>,
    pub(crate) context: Option<RequestContext>,
    pub(crate) span: Span,
}

impl EntryWatch {
    /// Records the event that ended the call in its span.
    pub(crate) fn record_end(&self, event: Event) {
        self.span.record("outcome", event.name());
    }
}

debug_fields!(EntryWatch);
