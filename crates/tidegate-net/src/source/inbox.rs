//! Notes of other threads to the selector of a loop, the list of its sources, and the task of a
//! source on its way to the thread that runs it.
//!
//! Notes are queued under a lock that is held for a push or a swap, never while user code runs. One
//! signal to the loop announces them, which the loop never refuses. So a loop that waits is woken
//! once, however many notes are queued, and a loop that is awake is not woken at all.
//!
//! # Invariants
//!
//! * Notes are carried out in their order.
//! * A note has one outcome: it is carried out, or it is refused because the loop has ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tidegate_core::executor::{ExecutorId, PromiseHome};
use tidegate_core::internal::{Deliver, Delivery, PlainTask, SignalBlock, discard, lock};
use tidegate_core::{Blocking, CaughtPanic, Dump, Executor, RejectReason, Task, Unhandled};
use tidegate_pool::internal::run_task_of;
use tidegate_promise::{Completion, Promise, promise, promise_on};

use super::event_source::NewSource;
use super::handle::{SourceHandle, SourceInfo};
use super::home::Home;
use super::selector::ReactorView;
use super::state::SourceState;
use crate::errors::NetError;

/// The highest number of updates and registrations that wait for a loop.
pub(super) const MAX_UPDATES: usize = 65_536;

/// The inbox of a selector, as its handles and the loop share it.
pub(crate) type SharedInbox = Arc<SignalBlock<Inbox>>;

/// An update: runs with the view of the selector, or is refused.
pub(super) type Update = Box<dyn FnOnce(Result<&mut ReactorView<'_>, NetError>) + Send>;

/// A note to the loop.
pub(super) enum Note {
    Update(Update),
    Register(NewSource, Promise<SourceHandle>),
    /// Applies the interests of a source.
    Apply(Arc<SourceState>),
    Close(Arc<SourceState>, Promise<()>),
    /// A task of this source was not run, because no thread took it.
    Untaken(Arc<SourceState>, Task),
}

impl Note {
    /// Returns `true` if the number of such notes is limited. There is at most one of the others
    /// for each source or call that exists already.
    fn is_limited(&self) -> bool {
        matches!(self, Self::Update(_) | Self::Register(..))
    }

    /// Refuses the note with `why`, on the calling thread.
    pub(super) fn refuse(self, why: NetError) {
        match self {
            Self::Update(update) => update(Err(why)),
            Self::Register(new, promise) => {
                new.discard();
                let _ = promise.fail(why);
            }
            // The source is closed with its loop.
            Self::Close(_, promise) => drop(promise.succeed(())),
            Self::Apply(state) => state.hook(),
            Self::Untaken(_, task) => discard(task),
        }
    }
}

/// Notes to a selector, and the list of its sources.
pub(crate) struct Inbox {
    /// Set once, when the loop is built.
    home: OnceLock<Arc<Home>>,
    /// `true` while notes are queued. Written under the lock; the loop reads it without. A loop that
    /// reads an old value gets the signal that follows the write, and reads again.
    any: AtomicBool,
    queue: Mutex<Queue>,
    /// The sources by token, for lists and dumps from any thread.
    sources: Mutex<BTreeMap<u64, Arc<SourceState>>>,
}

#[derive(Default)]
struct Queue {
    notes: VecDeque<Note>,
    /// The sources with a task that has not ended, by token.
    tasks: BTreeMap<u64, Arc<SourceState>>,
    /// The loop waits for these tasks, to end.
    awaited: bool,
    /// The loop has ended.
    closed: bool,
}

impl Inbox {
    pub(super) fn new() -> SharedInbox {
        SignalBlock::new(Self {
            home: OnceLock::new(),
            any: AtomicBool::new(false),
            queue: Mutex::default(),
            sources: Mutex::default(),
        })
    }

    /// Sets the loop to which the inbox belongs. Called once, before a handle of it exists.
    pub(crate) fn set_home(
        &self,
        executor: &Arc<dyn Executor>,
        start: impl Fn() -> Result<(), RejectReason> + Send + Sync + 'static,
    ) {
        let _ = self.home.set(Arc::new(Home::of(executor, start)));
    }

    fn home(&self) -> Option<Arc<dyn Executor>> {
        self.home.get()?.executor()
    }

    /// Creates a promise that the loop completes. A wait for it is checked as one for the loop.
    pub(super) fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        match self.home.get() {
            Some(home) => promise_on(Arc::clone(home) as _),
            None => promise(),
        }
    }

    /// Returns the identity of the loop.
    pub(super) fn home_id(&self) -> Option<ExecutorId> {
        self.home.get().map(|home| PromiseHome::id(&**home))
    }

    /// Returns the name of the loop.
    pub(super) fn name(&self) -> &str {
        self.home
            .get()
            .map_or("", |home| PromiseHome::name(&**home))
    }

    pub(super) fn ended_error(&self) -> NetError {
        NetError::LoopEnded {
            event_loop: self.name().to_owned(),
        }
    }

    /// Reports the panic of user code to the hook for unhandled errors.
    #[cold]
    pub(super) fn report(&self, who: &str, panic: &CaughtPanic) {
        if let Some(home) = self.home() {
            let message = panic.message();
            home.unhandled(&Unhandled::TaskPanic { task: who, message });
        }
    }

    /// Queues `note` and wakes the loop if it waits. Refuses the note on the calling thread if the
    /// loop has ended or has too many updates.
    pub(super) fn push(inbox: &SharedInbox, note: Note) {
        let mut queue = inbox.lock();
        let limited = note.is_limited();
        let refused = if queue.closed {
            Some(inbox.ended_error())
        } else if limited && queue.notes.len() >= MAX_UPDATES {
            Some(NetError::TooManyUpdates {
                event_loop: inbox.name().to_owned(),
                max: MAX_UPDATES,
            })
        } else {
            None
        };
        if let Some(why) = refused {
            drop(queue);
            return note.refuse(why);
        }
        // A loop with notes has a thread, and so has one with sources.
        let starts = limited && queue.notes.is_empty();
        inbox.add(&mut queue, note);
        drop(queue);
        match starts {
            true => Self::start(inbox),
            false => Self::ring(inbox),
        }
    }

    fn add(&self, queue: &mut Queue, note: Note) {
        queue.notes.push_back(note);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Gives the loop a thread, then wakes it. If there is no thread, refuses all notes: a signal
    /// alone would wait for the next start.
    #[cold]
    fn start(inbox: &SharedInbox) {
        let started = inbox.home.get().map_or(Ok(()), |home| (home.start)());
        match started {
            Err(RejectReason::NoThread) => inbox.refuse_all(|| NetError::NotOpened {
                what: format!("event loop `{}` runs no updates", inbox.name()),
                why: RejectReason::NoThread.to_string(),
            }),
            _ => Self::ring(inbox),
        }
    }

    /// Wakes the loop, once for all notes that it has not taken.
    fn ring(inbox: &SharedInbox) {
        let Some(signal) = inbox.raise() else {
            return;
        };
        match inbox.home() {
            // Refused: the loop has ended. Dropping the signal delivers it as orphaned.
            Some(home) => drop(home.signal(signal)),
            None => drop(signal),
        }
    }

    /// Returns `true` if notes are queued.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Moves the queued notes into `into`, which is empty.
    pub(super) fn take(&self, into: &mut VecDeque<Note>) {
        let mut queue = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::swap(&mut queue.notes, into);
    }

    /// Records a task of `source`, until [`end_task`](Inbox::end_task).
    pub(super) fn begin_task(&self, source: &Arc<SourceState>) {
        let token = source.token.bits();
        self.lock().tasks.insert(token, Arc::clone(source));
    }

    /// Returns the names of the sources with a task that has not ended.
    pub(super) fn tasks(&self) -> Vec<String> {
        let queue = self.lock();
        let names = queue.tasks.values().map(|source| source.name.to_string());
        names.collect()
    }

    /// Ends a task of `source`. If it was not run, the loop gets it back. That is one step: a loop
    /// that ends finds the task among those that have not ended, or among the notes.
    pub(super) fn end_task(inbox: &SharedInbox, source: &Arc<SourceState>, untaken: Option<Task>) {
        let mut queue = inbox.lock();
        let ended = queue.tasks.remove(&source.token.bits());
        let last = queue.tasks.is_empty() && std::mem::take(&mut queue.awaited);
        let untaken = untaken.map(|task| Note::Untaken(Arc::clone(source), task));
        let (is_untaken, is_closed) = (untaken.is_some(), queue.closed);
        let mut refused = None;
        match untaken {
            Some(note) if is_closed => refused = Some(note),
            Some(note) => inbox.add(&mut queue, note),
            None => {}
        }
        drop(queue);
        drop(ended);
        if let Some(note) = refused {
            note.refuse(inbox.ended_error());
        } else if is_untaken || last {
            Self::ring(inbox);
        }
        if !is_untaken && source.end_task() {
            Self::push(inbox, Note::Apply(Arc::clone(source)));
        }
    }

    /// Returns `true` if a task of a source has not ended. The end of the last one then wakes the
    /// loop.
    pub(super) fn await_tasks(&self) -> bool {
        let mut queue = self.lock();
        queue.awaited = !queue.tasks.is_empty();
        queue.awaited
    }

    /// Closes the queue. Returns the notes that are left.
    pub(super) fn close(&self) -> VecDeque<Note> {
        self.lock().closed = true;
        let mut left = VecDeque::new();
        self.take(&mut left);
        left
    }

    fn refuse_all(&self, why: impl Fn() -> NetError) {
        let mut left = VecDeque::new();
        self.take(&mut left);
        for note in left {
            note.refuse(why());
        }
    }

    pub(super) fn add_source(&self, source: &Arc<SourceState>) {
        let token = source.token.bits();
        self.lock_sources().insert(token, Arc::clone(source));
    }

    pub(super) fn remove_source(&self, source: &SourceState) {
        self.lock_sources().remove(&source.token.bits());
    }

    /// Returns the sources, in the order of their tokens.
    pub(super) fn sources(&self) -> Vec<Arc<SourceState>> {
        self.lock_sources().values().cloned().collect()
    }

    /// Returns what handles and updates see of the sources.
    pub(super) fn list(&self) -> Vec<SourceInfo> {
        let sources = self.lock_sources();
        sources
            .values()
            .map(|state| SourceInfo::of(state))
            .collect()
    }

    /// Returns the number of sources.
    pub(crate) fn source_count(&self) -> u64 {
        self.lock_sources().len() as u64
    }

    /// Adds the sources to a dump of their loop. Called on any thread.
    #[cold]
    pub(crate) fn dump(&self, dump: Dump) -> Dump {
        let waiting = self.lock().notes.len();
        let sources = self.lock_sources();
        let total = sources.len();
        let listed = sources.values().take(Dump::MAX_CHILDREN).cloned();
        let listed: Vec<_> = listed.collect();
        drop(sources);
        let dump = dump.fact("updates_queued", waiting);
        if total == 0 {
            return dump;
        }
        let each = listed.iter().map(|source| source.dump());
        dump.list("user_sources", total, each)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn lock_sources(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<SourceState>>> {
        lock(&self.sources)
    }
}

impl Deliver for Inbox {
    fn deliver(block: SharedInbox, how: Delivery) {
        // On the loop there is nothing to do: its driver takes the notes at its step.
        if how == Delivery::Orphaned {
            block.refuse_all(|| block.ended_error());
        }
    }
}

/// Returns a task that runs `task` and tells the loop of its end.
pub(super) fn of_source(task: Task, source: &Arc<SourceState>, inbox: &SharedInbox) -> Task {
    source.begin_task();
    inbox.begin_task(source);
    let (kind, name, long) = (task.blocking(), task.name(), task.is_long());
    let guard = SourceTask {
        task: Some(task),
        source: Arc::clone(source),
        inbox: Arc::clone(inbox),
    };
    let run = move || guard.run();
    match kind {
        Blocking::May if long => PlainTask::long(run),
        Blocking::May => PlainTask::named(name, run),
        Blocking::Adapts | Blocking::Never => PlainTask::of(kind, run),
    }
}

/// The task that a source returned. If it is dropped without having run, because no thread took it,
/// the loop gets it back.
struct SourceTask {
    /// `None` once it runs.
    task: Option<Task>,
    source: Arc<SourceState>,
    inbox: SharedInbox,
}

impl SourceTask {
    fn run(mut self) {
        // The guard is dropped after the task, also if the task panics.
        if let Some(task) = self.task.take() {
            match self.inbox.home_id() {
                Some(home) => run_task_of(home, || task.run()),
                None => task.run(),
            }
        }
    }
}

impl Drop for SourceTask {
    fn drop(&mut self) {
        Inbox::end_task(&self.inbox, &self.source, self.task.take());
    }
}
