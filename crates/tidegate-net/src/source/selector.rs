//! The selector of one loop: its user-defined sources, and the steps between two polls.
//!
//! The driver of the loop owns it and calls [`produce`](Selector::produce) until there is no task,
//! then polls. `produce` takes its steps in this order: it selects the sources that are ready, one
//! task at a time; then it carries out the notes of other threads that came before the last poll
//! was over, in their order; then it applies interests. Notes that come later wait for the next
//! poll, so updates that submit updates cannot starve sources and channels.
//!
//! On some systems the poller reports a change of readiness once. A source that was selected is
//! therefore armed again, which makes the poller report it once more if it is still ready. A source
//! without interests leaves the poller: otherwise a hang-up would be reported again and again.
//!
//! User code runs with nothing borrowed but the selector itself, which no other code can reach.
//!
//! # Invariants
//!
//! * The poller watches the descriptor of a slot for `watched`. The descriptor is the selector's own
//!   copy: the poller knows it by its number, and if other code could close it, another file could
//!   get the number.
//! * A source is told of its end once, after its descriptor has left the poller.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use tidegate_core::internal::{PlainTask, Running, contain};
use tidegate_core::{Blocking, CaughtPanic, Task};
use tidegate_promise::Failure;

use super::event_source::{AnySource, EventSource, NewSource, refused};
use super::handle::{SourceHandle, SourceInfo};
use super::inbox::{Inbox, Note, SharedInbox, of_source};
use super::state::SourceState;
use crate::errors::NetError;
use crate::events::Slab;
use crate::sys::{AsFd, BorrowedFd, Change, Interest, OwnedFd, Ready, Token, borrow};

/// Changes what the poller of the loop watches.
pub(crate) trait Control {
    /// See [`Poller::control`](crate::sys::Poller::control).
    fn control(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()>;
}

/// Stands for an update in the record of what the loop runs.
struct SelectorUpdate;

/// The poller of a loop that has ended.
struct NoPoller;

impl Control for NoPoller {
    fn control(&mut self, _: BorrowedFd<'_>, _: Token, _: Change) -> io::Result<()> {
        Ok(())
    }
}

/// A source in its slot.
struct Slot {
    state: Arc<SourceState>,
    source: Box<dyn AnySource>,
    descriptor: OwnedFd,
    /// What the poller watches; nothing if it does not watch the descriptor.
    watched: Interest,
    /// The source is in the list `touched`.
    touched: bool,
    /// The source was selected, and not asked for its interests since.
    selected: bool,
}

impl Slot {
    /// Changes what the poller watches at the descriptor.
    fn control(&self, control: &mut dyn Control, change: Change) -> io::Result<()> {
        control.control(borrow(&self.descriptor), self.state.token, change)
    }

    /// Calls the source, which the record of the loop and dumps show meanwhile.
    fn call<R>(&mut self, run: impl FnOnce(&mut dyn AnySource) -> R) -> Result<R, CaughtPanic> {
        let (label, source) = (self.source.label(), &mut *self.source);
        self.state.set_in_callback(true);
        let called = call(&label, || run(source));
        self.state.set_in_callback(false);
        called
    }
}

/// The user-defined sources of one loop.
pub(crate) struct Selector {
    pub(super) inbox: SharedInbox,
    slots: Slab<Slot>,
    /// Events that are to be delivered.
    selected: VecDeque<Ready>,
    /// Sources whose interests have to be applied before the next poll.
    touched: Vec<Token>,
    /// Notes of other threads that are to be carried out before the next poll.
    notes: VecDeque<Note>,
    /// Notes were taken since the last poll.
    taken: bool,
    /// Tasks that no thread took, and how many of them are offered again before the next poll.
    untaken: VecDeque<(Arc<SourceState>, Task)>,
    offered: usize,
    /// User code has run since the last task was produced.
    ran: bool,
    /// There is nothing to do, as far as is known without a look into the inbox.
    idle: bool,
    closing: bool,
}

impl Selector {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Inbox::new(),
            slots: Slab::new(1),
            selected: VecDeque::new(),
            touched: Vec::new(),
            notes: VecDeque::new(),
            taken: false,
            untaken: VecDeque::new(),
            offered: 0,
            ran: false,
            idle: true,
            closing: false,
        }
    }

    pub(crate) fn inbox(&self) -> &SharedInbox {
        &self.inbox
    }

    /// Returns `true` if `produce` has nothing to do and the loop may wait.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.idle && !self.inbox.any()
    }

    /// Returns `true` if `produce` has something to do before the next poll.
    #[inline]
    pub(crate) fn comes_before_poll(&self) -> bool {
        !self.idle || (!self.taken && self.inbox.any())
    }

    /// Returns `true` if there are neither sources, tasks nor notes, so that the loop may give its
    /// thread back.
    pub(crate) fn is_empty(&self) -> bool {
        // A task that no thread took is offered again, also if its source was closed meanwhile.
        self.slots.len() == 0 && self.is_quiet() && self.untaken.is_empty()
    }

    /// Returns the number of tasks that may be ready.
    #[inline]
    pub(crate) fn backlog(&self) -> usize {
        self.selected.len()
    }

    /// Returns `true` if a task that no thread took has to be offered again soon.
    pub(crate) fn has_untaken(&self) -> bool {
        !self.untaken.is_empty()
    }

    /// Returns `true` if [`polled`](Selector::polled) has to be called even without events.
    #[inline]
    pub(crate) fn expects_poll(&self) -> bool {
        self.taken || self.has_untaken()
    }

    /// Returns the next task: of a source that is ready, or an empty one after other code of the
    /// user has run, so that the loop looks for the work which that code may have left.
    #[cold]
    pub(crate) fn produce(&mut self, control: &mut dyn Control) -> Option<Task> {
        let task = self.next(control);
        self.idle = self.selected.is_empty()
            && self.touched.is_empty()
            && self.notes.is_empty()
            && self.offered == 0
            && !self.ran;
        task
    }

    fn next(&mut self, control: &mut dyn Control) -> Option<Task> {
        if self.offered > 0
            && let Some((state, task)) = self.untaken.pop_front()
        {
            self.offered -= 1;
            return Some(of_source(task, &state, &self.inbox));
        }
        while let Some(ready) = self.selected.pop_front() {
            if let Some(task) = self.select(ready, control) {
                return Some(task);
            }
        }
        while let Some(note) = self.next_note() {
            self.carry_out(note, control);
            if std::mem::take(&mut self.ran) {
                return Some(PlainTask::non_blocking(|| ()));
            }
        }
        self.apply_interests(control);
        std::mem::take(&mut self.ran).then(|| PlainTask::non_blocking(|| ()))
    }

    /// Records the result of a poll.
    #[cold]
    pub(crate) fn polled(&mut self, events: Vec<Ready>) {
        self.taken = false;
        for ready in events {
            // An event of a source that was closed meanwhile is dropped. So is one of a source
            // whose earlier event is not over: it may be out of date when its turn comes, and the
            // poller reports it again when the interests of the source are applied.
            if self.touch(ready.token) {
                self.selected.push_back(ready);
            }
        }
        self.offered = self.untaken.len();
        self.idle &= self.selected.is_empty() && self.offered == 0;
    }

    /// Selects the source of an event. Returns its task.
    fn select(&mut self, ready: Ready, control: &mut dyn Control) -> Option<Task> {
        let slot = self.slots.get_mut(ready.token.in_table())?;
        if slot.state.is_busy() {
            // The poller reports it again when the task has ended.
            return None;
        }
        slot.selected = true;
        self.ran = true;
        let handle = SourceHandle {
            state: Arc::clone(&slot.state),
            inbox: Arc::clone(&self.inbox),
        };
        match slot.call(|source| source.selected(ready.readiness, &handle)) {
            Ok(task) => {
                let task = of_source(task?, &slot.state, &self.inbox);
                // The task itself makes the loop look for more work.
                self.ran = false;
                Some(task)
            }
            Err(panic) => {
                self.close_panicked(&handle.state, &panic, control);
                None
            }
        }
    }

    fn next_note(&mut self) -> Option<Note> {
        if self.notes.is_empty() && !self.taken && self.inbox.any() {
            self.taken = true;
            self.inbox.take(&mut self.notes);
        }
        self.notes.pop_front()
    }

    fn carry_out(&mut self, note: Note, control: &mut dyn Control) {
        match note {
            Note::Update(update) => {
                let label = PlainTask::labelled::<SelectorUpdate, _>(|| ());
                let mut view = ReactorView {
                    selector: self,
                    control,
                };
                if let Err(panic) = call(&label, || update(Ok(&mut view))) {
                    self.inbox.report("an update of the selector", &panic);
                }
            }
            Note::Register(new, promise) if promise.set_uncancellable() => {
                let registered = self.register(new, control);
                let _ = promise.complete(registered.map_err(Failure::from));
            }
            Note::Register(new, _) => new.discard(),
            Note::Apply(state) => {
                state.hook();
                self.touch(state.token);
                return;
            }
            Note::Close(state, promise) => {
                self.close_source(&state, None, control);
                let _ = promise.succeed(());
            }
            Note::Untaken(state, task) => return self.untaken.push_back((state, task)),
        }
        self.ran = true;
    }

    /// Adds a source to those whose interests are applied next. Returns `false` if it is one of
    /// them, or is gone.
    fn touch(&mut self, token: Token) -> bool {
        let token = token.in_table();
        let slot = self.slots.get_mut(token);
        let new = slot.is_some_and(|slot| !std::mem::replace(&mut slot.touched, true));
        if new {
            self.touched.push(token);
        }
        new
    }

    /// Asks the sources that were selected for their interests, and applies all changed interests.
    fn apply_interests(&mut self, control: &mut dyn Control) {
        let mut touched = std::mem::take(&mut self.touched);
        for token in touched.drain(..) {
            let Some(slot) = self.slots.get_mut(token) else {
                continue;
            };
            slot.touched = false;
            if std::mem::take(&mut slot.selected) {
                self.ran = true;
                let (interests, version) = slot.state.versioned_interests();
                match slot.call(|source| source.update_interests(interests)) {
                    Ok(interests) => slot.state.update_interests(version, interests),
                    Err(panic) => {
                        let state = Arc::clone(&slot.state);
                        self.close_panicked(&state, &panic, control);
                        continue;
                    }
                }
            }
            let before = std::mem::replace(&mut slot.watched, slot.state.apply());
            let change = match slot.watched {
                Interest::NONE if before.is_none() => continue,
                Interest::NONE => Change::Remove,
                after if before.is_none() => Change::Add(after),
                after if before == after => Change::Rearm(after),
                after => Change::Modify(after),
            };
            if let Err(why) = slot.control(control, change) {
                slot.watched = Interest::NONE;
                let state = Arc::clone(&slot.state);
                self.close_source(&state, Some(&refused(&state.name, why)), control);
            }
        }
        self.touched = touched;
    }

    /// Registers a source.
    ///
    /// # Errors
    ///
    /// [`NetError::SourceRefused`] or [`NetError::LoopEnded`]; the source is dropped.
    fn register(
        &mut self,
        new: NewSource,
        control: &mut dyn Control,
    ) -> Result<SourceHandle, NetError> {
        if self.closing {
            new.discard();
            return Err(self.inbox.ended_error());
        }
        let slot = self.slots.reserve();
        let token = slot.of_user();
        if let Err(why) = watch_new(&new, token, control) {
            self.slots.remove(slot);
            let why = refused(&new.name, why);
            new.discard();
            return Err(why);
        }
        let NewSource {
            name,
            descriptor,
            interests,
            source,
        } = new;
        let state = SourceState::new(name, token, interests);
        self.inbox.add_source(&state);
        let added = Slot {
            state: Arc::clone(&state),
            source,
            descriptor,
            watched: interests,
            touched: false,
            selected: false,
        };
        let _ = self.slots.put(slot, added);
        let inbox = Arc::clone(&self.inbox);
        Ok(SourceHandle { state, inbox })
    }

    /// Closes a source. Returns `false` if it is not a source of this selector.
    fn close_source(
        &mut self,
        state: &Arc<SourceState>,
        why: Option<&NetError>,
        control: &mut dyn Control,
    ) -> bool {
        let token = state.token.in_table();
        let slot = self.slots.get_mut(token);
        if !slot.is_some_and(|slot| Arc::ptr_eq(&slot.state, state)) {
            return false;
        }
        let Some(slot) = self.slots.remove(token) else {
            return false;
        };
        if !slot.watched.is_none() {
            // Nothing is left to do if it fails: the descriptor is closed next.
            let _ = slot.control(control, Change::Remove);
        }
        drop(slot.descriptor);
        state.close();
        self.inbox.remove_source(state);
        self.ran = true;
        let mut source = slot.source;
        if let Err(panic) = call(&source.label(), || source.closed(why)) {
            self.inbox.report(&called(state), &panic);
        }
        source.discard();
        true
    }

    /// Closes a source that panicked, and reports the panic.
    fn close_panicked(
        &mut self,
        state: &Arc<SourceState>,
        panic: &CaughtPanic,
        control: &mut dyn Control,
    ) {
        self.inbox.report(&called(state), panic);
        let why = NetError::SourcePanicked {
            source_name: state.name.to_string(),
            message: panic.message().to_owned(),
        };
        self.close_source(state, Some(&why), control);
    }

    /// Closes all sources: the loop is about to end. Returns `true` if no task of a source is left
    /// on another thread; the end of the last one wakes the loop.
    pub(crate) fn begin_close(&mut self, control: &mut dyn Control) -> bool {
        self.closing = true;
        let why = self.inbox.ended_error();
        for state in self.inbox.sources() {
            self.close_source(&state, Some(&why), control);
        }
        !self.inbox.await_tasks()
    }

    /// Returns the names of the sources whose tasks other threads still have.
    pub(crate) fn outstanding(&self) -> Vec<String> {
        self.inbox.tasks()
    }

    /// Ends the selector: closes all sources, refuses all notes, and runs the tasks that no thread
    /// took on this thread, where they must not block.
    pub(crate) fn close(&mut self, control: &mut dyn Control) {
        self.begin_close(control);
        self.selected.clear();
        let notes = std::mem::take(&mut self.notes);
        for note in notes.into_iter().chain(self.inbox.close()) {
            match note {
                Note::Untaken(state, task) => self.untaken.push_back((state, task)),
                note => note.refuse(self.inbox.ended_error()),
            }
        }
        for (state, task) in self.untaken.drain(..) {
            if let Err(panic) = contain(|| Blocking::forbid(|| task.run())) {
                self.inbox.report(&called(&state), &panic);
            }
        }
        self.touched.clear();
        (self.offered, self.idle) = (0, true);
    }
}

/// The selector of a loop, as an update sees it: what it does takes effect at once. See
/// [`ReactorHandle::update`](super::ReactorHandle::update).
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_net::source::{Interest, SourceContext};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let (reader, _writer) = std::io::pipe()?;
/// let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
/// let names = group.next_reactor().update(move |view| {
///     let source = view.register("pipe", reader, Interest::READ, nothing)?;
///     let names: Vec<_> = view.sources().iter().map(|one| one.name.to_string()).collect();
///     view.close(&source);
///     assert!(view.sources().is_empty());
///     Ok::<_, tidegate_net::NetError>(names)
/// });
/// assert_eq!(names.wait()??, ["pipe"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReactorView<'a> {
    pub(super) selector: &'a mut Selector,
    control: &'a mut dyn Control,
}

impl ReactorView<'_> {
    /// Registers a source. See [`ReactorHandle::register`](super::ReactorHandle::register).
    ///
    /// # Errors
    ///
    /// [`NetError::SourceRefused`] with the error of the poller, or [`NetError::LoopEnded`]. The
    /// source and its descriptor are dropped.
    pub fn register<D, S>(
        &mut self,
        name: &str,
        descriptor: D,
        interests: Interest,
        source: S,
    ) -> Result<SourceHandle, NetError>
    where
        D: AsFd + Send + Sync + 'static,
        S: EventSource<D>,
    {
        let new = NewSource::new(name.into(), descriptor, interests, source)?;
        self.selector.register(new, self.control)
    }

    /// Closes a source: its descriptor is not watched any more, and the source is told and dropped.
    /// Returns `false` if it was closed before, or belongs to another loop.
    pub fn close(&mut self, source: &SourceHandle) -> bool {
        self.selector
            .close_source(&source.state, None, self.control)
    }

    /// Returns the sources of the loop, in the order of their slots.
    pub fn sources(&self) -> Vec<SourceInfo> {
        self.selector.inbox.list()
    }
}

impl fmt::Debug for ReactorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReactorView").finish_non_exhaustive()
    }
}

impl Drop for Selector {
    /// Ends the selector of a loop that never ran.
    fn drop(&mut self) {
        self.close(&mut NoPoller);
    }
}

/// Calls user code, which the record of the loop shows as `label` meanwhile.
fn call<R>(label: &Task, run: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    let running = Running::of_thread();
    if let Some(running) = &running {
        running.begin(label);
    }
    let called = contain(run);
    if let Some(running) = &running {
        running.idle();
    }
    called
}

/// Makes the poller watch a new source. One without interests is checked all the same: its
/// descriptor has to be one that can be watched.
fn watch_new(new: &NewSource, token: Token, control: &mut dyn Control) -> io::Result<()> {
    let (number, interests) = (borrow(&new.descriptor), new.interests);
    if interests.is_none() {
        control.control(number, token, Change::Add(Interest::READ))?;
        return control.control(number, token, Change::Remove);
    }
    control.control(number, token, Change::Add(interests))
}

/// Returns the name of a source for reports.
fn called(state: &SourceState) -> String {
    format!("source {}", state.name)
}
