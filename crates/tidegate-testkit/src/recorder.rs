//! A subscriber of `tracing` that remembers what it receives.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_core::span::Current;

/// The number of spans so far, of all recorders.
static SPANS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The spans that this thread has entered and not left, of all recorders.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Remembers events and spans. Clones are handles to the same memory.
///
/// Give a clone to `tracing::subscriber::with_default`, or to `set_global_default` in a test
/// binary of its own.
///
/// ```
/// use tidegate_testkit::Recorder;
///
/// let recorder = Recorder::new();
/// tracing::subscriber::with_default(recorder.clone(), || {
///     let span = tracing::info_span!("request", number = 7);
///     span.in_scope(|| tracing::event!(name: "sent", tracing::Level::INFO, bytes = 3));
/// });
/// let sent = &recorder.events("sent")[0];
/// assert_eq!(sent.field("bytes"), Some("3"));
/// assert_eq!(sent.spans, ["request"]);
/// assert_eq!(recorder.spans("request")[0].field("number"), Some("7"));
/// ```
#[derive(Clone, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    panics: AtomicBool,
    on_call: OnceLock<Box<OnCall>>,
    memory: Mutex<Memory>,
}

type OnCall = dyn Fn(&'static str) + Send + Sync;

#[derive(Debug, Default)]
struct Memory {
    events: Vec<RecordedEvent>,
    spans: HashMap<u64, RecordedSpan>,
    /// The ids of all spans, in the order in which they were made.
    order: Vec<u64>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Its name.
    pub name: &'static str,
    /// Its target.
    pub target: &'static str,
    /// Its level.
    pub level: Level,
    /// The names of the spans in which it happened, the innermost first.
    pub spans: Vec<&'static str>,
    fields: Fields,
}

/// A span.
#[derive(Clone, Debug)]
pub struct RecordedSpan {
    /// Its name.
    pub name: &'static str,
    /// Its target.
    pub target: &'static str,
    /// Its level.
    pub level: Level,
    /// The number of times it was entered.
    pub entered: u64,
    /// The number of times it was left.
    pub left: u64,
    /// The number of handles to it; with 0 it is closed.
    pub handles: u64,
    metadata: &'static Metadata<'static>,
    parent: Option<u64>,
    fields: Fields,
}

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Recorder {
    /// Creates a recorder that has received nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every method panic from now on, or no longer. What it receives in between is lost.
    pub fn set_panics(&self, panics: bool) {
        self.shared.panics.store(panics, Ordering::Relaxed);
    }

    /// Returns the events of this name so far.
    pub fn events(&self, name: &str) -> Vec<RecordedEvent> {
        let memory = self.memory();
        let named = memory.events.iter().filter(|event| event.name == name);
        named.cloned().collect()
    }

    /// Returns the spans of this name so far, in the order in which they were made.
    pub fn spans(&self, name: &str) -> Vec<RecordedSpan> {
        let memory = self.memory();
        let all = memory.order.iter().map(|id| &memory.spans[id]);
        all.filter(|span| span.name == name).cloned().collect()
    }

    /// Returns the names of the spans in which this thread is, the innermost first.
    pub fn current(&self) -> Vec<&'static str> {
        let innermost = ENTERED.with_borrow(|entered| entered.last().copied());
        self.memory().path(innermost)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        let memory = &self.shared.memory;
        memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `hook` with the name of each method that is called, with no lock held. Only the first
    /// hook counts.
    pub fn on_call(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        let _ = self.shared.on_call.set(Box::new(hook));
    }

    fn act(&self, method: &'static str) {
        let panics = self.shared.panics.load(Ordering::Relaxed);
        assert!(!panics, "a subscriber, on purpose");
        if let Some(hook) = self.shared.on_call.get() {
            hook(method);
        }
    }

    fn with_span(&self, id: &Id, change: impl FnOnce(&mut RecordedSpan)) {
        if let Some(span) = self.memory().spans.get_mut(&id.into_u64()) {
            change(span);
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.act("new_span");
        let id = SPANS.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let innermost = || ENTERED.with_borrow(|entered| entered.last().copied());
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if attributes.is_contextual() => innermost(),
            None => None,
        };
        let metadata = attributes.metadata();
        let span = RecordedSpan {
            name: metadata.name(),
            target: metadata.target(),
            level: *metadata.level(),
            entered: 0,
            left: 0,
            handles: 1,
            metadata,
            parent,
            fields,
        };
        let mut memory = self.memory();
        memory.spans.insert(id, span);
        memory.order.push(id);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.act("record");
        self.with_span(span, |span| values.record(&mut span.fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.act("event");
        let mut fields = Fields::default();
        event.record(&mut fields);
        let innermost = || ENTERED.with_borrow(|entered| entered.last().copied());
        let parent = match event.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if event.is_contextual() => innermost(),
            None => None,
        };
        let metadata = event.metadata();
        let mut memory = self.memory();
        let spans = memory.path(parent);
        memory.events.push(RecordedEvent {
            name: metadata.name(),
            target: metadata.target(),
            level: *metadata.level(),
            spans,
            fields,
        });
    }

    fn enter(&self, span: &Id) {
        self.act("enter");
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
        self.with_span(span, |span| span.entered += 1);
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|id| *id == span.into_u64()) {
                entered.remove(at);
            }
        });
        self.with_span(span, |span| span.left += 1);
        self.act("exit");
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.act("clone_span");
        self.with_span(id, |span| span.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut closed = false;
        self.with_span(&id, |span| {
            span.handles -= 1;
            closed = span.handles == 0;
        });
        self.act("try_close");
        closed
    }

    fn current_span(&self) -> Current {
        self.act("current_span");
        let innermost = ENTERED.with_borrow(|entered| entered.last().copied());
        let memory = self.memory();
        let found = innermost.and_then(|id| Some((id, memory.spans.get(&id)?)));
        found.map_or_else(Current::none, |(id, span)| {
            Current::new(Id::from_u64(id), span.metadata)
        })
    }
}

impl Memory {
    /// Returns the names from a span to its outermost ancestor.
    fn path(&self, from: Option<u64>) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut at = from;
        while let Some(span) = at.and_then(|id| self.spans.get(&id)) {
            names.push(span.name);
            at = span.parent;
        }
        names
    }
}

impl RecordedEvent {
    /// Returns the value of a field as text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.0.get(name).map(String::as_str)
    }
}

impl RecordedSpan {
    /// Returns the value of a field as text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.0.get(name).map(String::as_str)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
