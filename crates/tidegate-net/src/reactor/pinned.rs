//! The reactor of a pinned loop, on the loop's thread.
//!
//! Code on the loop reaches it through a thread-local. It is borrowed only for a moment, never
//! while user code runs: a source is taken out of its slot, handles its event with nothing of the
//! reactor borrowed, and is put back.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::Dump;
use tidegate_core::internal::{Running, contain};
use tidegate_loop::Pinned;

use super::core::Reactor;
use super::io_context::IoContext;
use super::polling::Polling;
use super::source::{IoHandle, IoSource, Next, close_and_drop};
use crate::message::Msg;
use crate::source::Control;
use crate::sys::{BorrowedFd, Change, Readiness, Ready, Token};

thread_local! {
    static CURRENT: RefCell<Option<Box<LocalReactor>>> = const { RefCell::new(None) };
    /// Reactors that are not current: of loops that this thread drives by hand, or whose tasks
    /// drive another loop.
    #[expect(clippy::vec_box, reason = "they move between here and `CURRENT`")]
    static PARKED: RefCell<Vec<Box<LocalReactor>>> = const { RefCell::new(Vec::new()) };
}

/// A source that is out of its slot to handle an event, and the I/O context that it uses.
type ActiveSource = (Box<dyn IoSource>, Box<IoContext>);

/// The reactor of a loop, with what its thread needs to run sources.
pub(crate) struct LocalReactor {
    id: u64,
    reactor: Reactor<Pinned>,
    /// `None` while a source handles an event.
    io_context: Option<Box<IoContext>>,
    /// Records what the loop runs.
    running: Option<Arc<Running>>,
    /// Sources that took a write of another one and need a turn at the end of the task.
    owed: Vec<Token>,
}

impl LocalReactor {
    pub(super) fn new(id: u64, polling: Polling, generation: u32) -> Box<Self> {
        let io_context = IoContext::new(Arc::clone(&polling.counters));
        Box::new(Self {
            id,
            reactor: Reactor::new(polling, generation),
            io_context: Some(Box::new(io_context)),
            running: None,
            owed: Vec::new(),
        })
    }

    pub(super) fn into_polling(self) -> (Polling, u32) {
        self.reactor.into_polling()
    }

    pub(super) fn reactor(&mut self) -> &mut Reactor<Pinned> {
        &mut self.reactor
    }

    pub(super) fn set_running(&mut self, running: Option<Arc<Running>>) {
        self.running = running;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reactor.is_empty()
    }

    /// Takes out the source of the next event. `one_more` is `true` if the current task has already
    /// delivered one.
    #[inline]
    fn take_next(&mut self, one_more: bool) -> Option<(Ready, ActiveSource)> {
        if one_more && let Some(running) = &self.running {
            running.next_step();
        }
        let ready = self.reactor.next(self.io_context.as_deref_mut())?;
        Some((ready, self.take(ready)?))
    }

    #[inline]
    fn take(&mut self, ready: Ready) -> Option<ActiveSource> {
        let Some(io_context) = self.io_context.take() else {
            // Another source is handling an event: this event waits its turn.
            self.reactor.push_again(ready);
            return None;
        };
        if let Some(source) = self.reactor.take(ready) {
            return Some((source, io_context));
        }
        self.io_context = Some(io_context);
        None
    }

    /// Puts a source back. Returns it if it leaves, to be dropped by the caller.
    #[inline(always)]
    fn put(
        &mut self,
        token: Token,
        source: Box<dyn IoSource>,
        io_context: Box<IoContext>,
        next: Next,
    ) -> Option<Box<dyn IoSource>> {
        self.io_context = Some(io_context);
        self.reactor.put(token, source, next)
    }

    /// Notes that a source gets a turn at the end of the task. If no source handles an event, the
    /// loop runs another task for it, before it waits.
    fn owe(&mut self, token: Token) {
        let in_turn = self.io_context.is_none();
        if !in_turn && self.owed.is_empty() {
            let readiness = Readiness::REQUESTS;
            self.reactor.push_again(Ready { token, readiness });
        }
        self.owed.push(token);
    }

    /// Takes out a source that needs a turn at the end of the task.
    fn take_owed(&mut self, token: Token) -> Option<ActiveSource> {
        let source = self.reactor.borrow_source(token)?;
        match self.io_context.take() {
            Some(io_context) => Some((source, io_context)),
            None => unreachable!("no source handles an event at the end of a task"),
        }
    }
}

/// Uses the reactor of the loop that this thread drives. Returns `None` if the thread drives no
/// loop with I/O.
#[inline]
pub(crate) fn with<R>(use_it: impl FnOnce(&mut LocalReactor) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|reactor| reactor.as_deref_mut().map(use_it))
}

/// Makes reactor `id` current on this thread; `make` creates it if it is new here. Returns the id
/// of the previous one.
pub(super) fn enter(id: u64, make: impl FnOnce() -> Box<LocalReactor>) -> Option<u64> {
    let mine = unpark(id).unwrap_or_else(make);
    let outer = CURRENT.replace(Some(mine))?;
    let outer_id = outer.id;
    PARKED.with_borrow_mut(|parked| parked.push(outer));
    Some(outer_id)
}

/// Makes reactor `outer` current on this thread again. Returns the previous one if it has no
/// sources.
pub(super) fn leave(outer: Option<u64>) -> Option<Box<LocalReactor>> {
    let outer = outer.and_then(unpark);
    let mine = CURRENT.replace(outer)?;
    if mine.is_empty() {
        return Some(mine);
    }
    PARKED.with_borrow_mut(|parked| parked.push(mine));
    None
}

fn unpark(id: u64) -> Option<Box<LocalReactor>> {
    PARKED.with_borrow_mut(|parked| {
        let at = parked.iter().position(|one| one.id == id)?;
        Some(parked.swap_remove(at))
    })
}

/// Registers the source that `make` creates from its token. Only on a loop with I/O.
///
/// # Errors
///
/// The error of the poller. [`io::ErrorKind::Unsupported`] on any other thread.
pub(crate) fn register<S: IoSource + 'static>(
    make: impl FnOnce(Token) -> Box<S>,
) -> io::Result<Token> {
    let Some(token) = with(|local| local.reactor.reserve()) else {
        let message = "this thread drives no loop with I/O; make the group with `net::pinned`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    };
    let source = make(token);
    match with(|local| local.reactor.register(token, source)) {
        Some(Ok(())) => Ok(token),
        Some(Err(unwatched)) => Err(unwatched.into_error()),
        None => unreachable!("the reactor was here a moment ago"),
    }
}

/// Starts a source that was just registered: at once, or after the source that is handling an event
/// now.
pub(crate) fn begin(token: Token) {
    let readiness = Readiness::REQUESTS;
    dispatch(Ready { token, readiness });
}

/// Delivers `ready` to its source. Returns `true` if there is one.
pub(crate) fn dispatch(ready: Ready) -> bool {
    let Some((source, io_context)) = with(|local| local.take(ready)).flatten() else {
        return with(|local| local.reactor.contains(ready.token)).unwrap_or(false);
    };
    CURRENT.with(|current| {
        let handled = contain(|| deliver(current, ready, source, io_context));
        run_owed(current);
        if let Err(panic) = handled {
            panic.resume();
        }
    });
    true
}

/// Delivers the next `few` events.
pub(super) fn dispatch_few(few: usize) {
    CURRENT.with(|current| {
        let handled = contain(|| {
            for at in 0..few {
                let taken = match current.borrow_mut().as_deref_mut() {
                    Some(local) => local.take_next(at > 0),
                    None => None,
                };
                if let Some((ready, (source, io_context))) = taken {
                    deliver(current, ready, source, io_context);
                }
            }
        });
        let local = current.borrow();
        let owes = local.as_deref().is_some_and(|local| !local.owed.is_empty());
        drop(local);
        if owes {
            run_owed(current);
        }
        // After a panic, the rest of the few events is delivered in another task, before the next
        // poll.
        if let Err(panic) = handled {
            panic.resume();
        }
    });
}

/// Gives source `token` a write of another source or of a task of this thread's loop, outside of
/// its own turn. It gets a turn at the end of the task, or right after it. Returns whether it is
/// writable after that.
///
/// # Errors
///
/// The bytes, if `token` is not of this thread's loop, handles an event now, or does not take them:
/// see [`Batched::take_write`](super::Batched::take_write).
pub(crate) fn write_to_neighbour(
    token: Token,
    key: usize,
    bytes: Option<Bytes>,
    flush: bool,
) -> Result<bool, Option<Bytes>> {
    // Nothing stays borrowed meanwhile: a flush may drop bytes of a cancelled write, which is user
    // code.
    let Some(mut source) = with(|local| local.reactor.borrow_source(token)).flatten() else {
        return Err(bytes);
    };
    let taken = source.take_write(key, bytes, flush);
    let owes_turn = taken.as_ref().is_ok_and(|taken| taken.owes_turn);
    let gone = with(|local| {
        if owes_turn {
            local.owe(token);
        }
        local.reactor.put(token, source, Next::Stay)
    });
    drop(gone);
    taken.map(|taken| taken.writable)
}

/// Gives source `token` a turn at the end of the task of this thread's loop, or right after it,
/// because requests are queued for it. Returns `false` if `token` is not of this thread's loop or
/// handles an event now: it has to be signalled then.
pub(crate) fn give_turn(token: Token, key: usize) -> bool {
    // Any thread may ask, also one that is ending.
    let given = CURRENT.try_with(|current| {
        let mut current = current.try_borrow_mut().ok()?;
        let local = current.as_deref_mut()?;
        let owes_turn = local.reactor.source_mut(token)?.take_requests(key)?;
        if owes_turn {
            local.owe(token);
        }
        Some(())
    });
    matches!(given, Ok(Some(())))
}

/// Gives source `token` a message of another source or of a task of this thread's loop, outside of
/// its own turn. Its handlers get it at the end of the task, or right after it.
///
/// # Errors
///
/// The message, if `token` is not of this thread's loop, handles an event now, or does not take it: see
/// [`Batched::take_message`](super::Batched::take_message).
pub(crate) fn pass_to_neighbour(token: Token, key: usize, message: Msg) -> Result<(), Msg> {
    let mut message = Some(message);
    // Any thread may ask, also one that is ending.
    let _ = CURRENT.try_with(|current| {
        let mut current = current.try_borrow_mut().ok()?;
        let local = current.as_deref_mut()?;
        let source = local.reactor.source_mut(token)?;
        if source.take_message(key, &mut message) {
            local.owe(token);
        }
        Some(())
    });
    message.map_or(Ok(()), Err)
}

/// Gives the sources that took writes of others their turn. What they write to others in these
/// turns follows after the next poll.
#[cold]
fn run_owed(current: &RefCell<Option<Box<LocalReactor>>>) {
    let mut owed = match current.borrow_mut().as_deref_mut() {
        Some(local) => std::mem::take(&mut local.owed),
        None => return,
    };
    let mut panicked = None;
    for token in owed.drain(..) {
        let taken = match current.borrow_mut().as_deref_mut() {
            Some(local) => local.take_owed(token),
            None => None,
        };
        if let Some((source, io_context)) = taken {
            let turn = |source: &mut dyn IoSource, io_context: &mut IoContext| {
                source.owed_turn(io_context)
            };
            let handled = contain(|| deliver_by(current, token, source, io_context, turn));
            panicked = panicked.or(handled.err());
        }
    }
    if let Some(local) = current.borrow_mut().as_deref_mut() {
        match local.owed.first() {
            // Its event leads to another task, at whose end all of them get their turn.
            Some(&token) => {
                let readiness = Readiness::REQUESTS;
                local.reactor.push_again(Ready { token, readiness });
            }
            None => local.owed = owed,
        }
    }
    if let Some(panic) = panicked {
        panic.resume();
    }
}

#[inline(always)]
fn deliver(
    current: &RefCell<Option<Box<LocalReactor>>>,
    ready: Ready,
    source: Box<dyn IoSource>,
    io_context: Box<IoContext>,
) {
    deliver_by(
        current,
        ready.token,
        source,
        io_context,
        |source, io_context| source.ready(ready.readiness, io_context),
    );
}

/// Gives a source that is out of its slot a turn, and puts it back.
#[inline(always)]
fn deliver_by(
    current: &RefCell<Option<Box<LocalReactor>>>,
    token: Token,
    mut source: Box<dyn IoSource>,
    mut io_context: Box<IoContext>,
    turn: impl FnOnce(&mut dyn IoSource, &mut IoContext) -> Next,
) {
    // Handlers contain their panics; this is the last resort, so that an I/O context is never lost.
    let handled = contain(|| turn(&mut *source, &mut io_context));
    let next = *handled.as_ref().unwrap_or(&Next::Leave);
    let gone = match current.borrow_mut().as_deref_mut() {
        Some(local) => local.put(token, source, io_context, next),
        None => Some(source),
    };
    drop(gone);
    if let Err(panic) = handled {
        panic.resume();
    }
}

/// Returns the handles of this loop's sources that are in their slots and have one.
pub(crate) fn handles() -> Vec<Arc<dyn IoHandle>> {
    with(|local| local.reactor.handles()).unwrap_or_default()
}

/// Returns the names of the parts of a source in its slot: see [`IoSource::names`].
pub(crate) fn names(token: Token) -> Vec<String> {
    with(|local| local.reactor.names(token)).unwrap_or_default()
}

/// Adds the sources of reactor `id` to `dump`, if it is the current one of this thread.
#[cold]
pub(super) fn dump(id: u64, dump: Dump) -> Result<Dump, Dump> {
    let here = CURRENT.try_with(|current| {
        let current = current.try_borrow().ok()?;
        let local = current.as_deref().filter(|local| local.id == id)?;
        let away = |_, name: &str| Dump::new("source", name).fact("state", "in its handlers");
        Some(local.reactor.dump(dump.clone(), away))
    });
    here.ok().flatten().ok_or(dump)
}

/// The poller of the loop that this thread drives, as a selector uses it.
pub(super) struct LocalControl;

impl Control for LocalControl {
    fn control(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        change: Change,
    ) -> io::Result<()> {
        let changed = with(|local| local.reactor.control(descriptor, token, change));
        changed.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }
}

/// Returns the events of user-defined sources that the last polls have found.
pub(super) fn take_selected() -> Vec<Ready> {
    with(|local| local.reactor.take_selected()).unwrap_or_default()
}

/// Closes all sources.
pub(super) fn close() {
    // A source that is closed may register another one, so this takes a few rounds.
    for _ in 0..4 {
        let tokens = with(|local| local.reactor.tokens()).unwrap_or_default();
        if tokens.is_empty() {
            return;
        }
        for token in tokens {
            close_one(token);
        }
    }
}

fn close_one(token: Token) {
    let readiness = Readiness::NONE;
    let taken = with(|local| local.take(Ready { token, readiness })).flatten();
    let Some((source, mut io_context)) = taken else {
        return;
    };
    close_and_drop(source, &mut io_context);
    with(|local| {
        local.io_context = Some(io_context);
        local.reactor.remove(token);
    });
    CURRENT.with(run_owed);
}
