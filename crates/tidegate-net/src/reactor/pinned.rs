//! What a loop with I/O keeps on its thread: the poller, what is ready, and who is registered.
//!
//! Reached through a thread-local by code that runs on the loop. Borrowed only for a moment,
//! never while code of the user's runs: whoever is told that it is ready is taken out of its
//! slot, handles that with nothing of the reactor borrowed, and is put back.
//!
//! # Invariants
//!
//! * A source is told of one thing at a time; what comes meanwhile waits in its slot.
//! * Nothing ready is dropped, unless its token is stale: then it is counted.
//! * What a source sends behind the others of its group is sent before anybody outside of the group
//!   is told anything.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{Running, contain};

use super::batch::receive_ahead;
use super::source::{Desk, EventSource, Next, SourceHandle, watch};
use crate::errors::clone_io_error;
use crate::events::{Arrivals, Slab, Taken};
use crate::metrics::Counters;
use crate::sys::{PIECES, Poller, Readiness, Ready, Token};

/// Sources whose memory stays near without being asked for.
const NEAR: usize = 256;

thread_local! {
    static CURRENT: RefCell<Option<Box<Reactor>>> = const { RefCell::new(None) };
    /// Reactors of loops that this thread drives by hand, or that drive one inside a task.
    #[expect(clippy::vec_box, reason = "they move between here and `CURRENT`")]
    static PARKED: RefCell<Vec<Box<Reactor>>> = const { RefCell::new(Vec::new()) };
}

/// A source that is out of its slot to be told something, and the desk that it does it at.
type Busy = (Box<dyn EventSource>, Box<Desk>);

/// The reactor of one loop.
pub(crate) struct Reactor {
    id: u64,
    pub(crate) poller: Box<dyn Poller>,
    arrivals: Arrivals,
    /// There are so many sources that their memory has to be asked for ahead.
    far: bool,
    sources: Slab<Box<dyn EventSource>>,
    desk: Option<Box<Desk>>,
    /// Who of the group that is being told has something to send.
    to_send: Vec<Token>,
    /// Where it is noted what the loop runs.
    pub(crate) running: Option<Arc<Running>>,
    pub(crate) counters: Arc<Counters>,
}

impl Reactor {
    pub(crate) fn new(
        id: u64,
        poller: Box<dyn Poller>,
        generation: u32,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            id,
            poller,
            arrivals: Arrivals::new(),
            far: false,
            sources: Slab::new(generation),
            desk: Some(Box::new(Desk::new(Arc::clone(&counters)))),
            to_send: Vec::with_capacity(PIECES),
            running: None,
            counters,
        }
    }

    /// Where the generations of a reactor that follows this one begin.
    pub(crate) fn next_generation(&self) -> u32 {
        self.sources.next_first()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.len() == 0
    }

    /// Whether there is something to do without asking the poller.
    pub(crate) fn has_ready(&self) -> bool {
        self.arrivals.len() > 0
    }

    /// Asks the poller, unless something that it said before is still to tell. Answers how many
    /// events there are to tell until the next poll.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.far = self.sources.len() > NEAR;
        self.arrivals
            .poll(&mut *self.poller, timeout, &self.counters)
    }

    /// Puts a fresh poller in the place of one that fails or spins. Answers who could not be moved.
    #[cold]
    pub(crate) fn renew(&mut self) -> io::Result<Vec<Token>> {
        let homes = self.sources.homes_mut();
        let watched = homes.filter_map(|(token, source)| Some((token, source.io()?)));
        let lost = self.poller.renew(watched.collect())?;
        self.poller.forget();
        self.counters.fresh_pollers.add(1);
        Ok(lost)
    }

    /// Takes out whom the next event is for; `one_more` of the same task.
    #[inline]
    fn take_next(&mut self, one_more: bool) -> Option<(Ready, Busy)> {
        if one_more && let Some(running) = &self.running {
            running.move_on();
        }
        if !self.arrivals.is_in_group() {
            self.begin_group();
        }
        let ready = self.arrivals.next()?;
        Some((ready, self.take(ready)?))
    }

    /// Ends the group before, and has the next one receive, if there is one.
    #[inline(never)]
    fn begin_group(&mut self) {
        self.send_behind();
        if let Some(group) = self.arrivals.group()
            && let Some(desk) = &mut self.desk
        {
            desk.together = receive_ahead(group, &mut self.sources, desk, self.far);
        }
    }

    /// Ends a task: those send who waited. Answers what is spent.
    #[inline]
    fn end_few(&mut self) -> Vec<Bytes> {
        self.send_behind();
        let desk = self.desk.as_mut();
        desk.map_or_else(Vec::new, |desk| std::mem::take(&mut desk.spent))
    }

    /// Lets those of a group send who wanted to; nobody waits for the others any more.
    fn send_behind(&mut self) {
        let Some(desk) = &mut self.desk else {
            return;
        };
        desk.together = false;
        for at in 0..self.to_send.len() {
            let token = self.to_send[at];
            if let Some(source) = self.sources.get_mut(token)
                && !source.send_behind(desk)
            {
                let readiness = Readiness::WRITE;
                self.arrivals.push_again(Ready { token, readiness });
            }
        }
        self.to_send.clear();
    }

    #[inline]
    fn take(&mut self, ready: Ready) -> Option<Busy> {
        let Some(desk) = self.desk.take() else {
            // Somebody is being told right now: this waits its turn.
            self.arrivals.push_again(ready);
            return None;
        };
        match self.sources.take(ready.token, ready.readiness) {
            Taken::Home(source) => return Some((source, desk)),
            Taken::Away => {}
            Taken::Stale => self.counters.stale.add(1),
        }
        self.desk = Some(desk);
        None
    }

    /// Takes a source back; answers it if it wanted to leave, to be dropped by the caller.
    #[inline(always)]
    fn put(
        &mut self,
        token: Token,
        source: Box<dyn EventSource>,
        desk: Box<Desk>,
        next: Next,
    ) -> Option<Box<dyn EventSource>> {
        self.desk = Some(desk);
        if next == Next::Leave {
            self.sources.remove(token);
            self.counters.registered.set(self.sources.len() as u64);
            return Some(source);
        }
        match self.sources.put(token, source) {
            Ok(missed) => {
                if next == Next::Send {
                    self.to_send.push(token);
                }
                if !matches!(next, Next::Stay | Next::Send) || !missed.is_none() {
                    self.queue_again(token, next, missed);
                }
                None
            }
            Err(source) => Some(source),
        }
    }

    fn queue_again(&mut self, token: Token, next: Next, missed: Readiness) {
        let mut readiness = missed;
        if let Next::Again(more) = next {
            readiness |= more;
            self.counters.again.add(1);
        }
        if let Next::Watch(yes) = next
            && let Some(source) = self.sources.get_mut(token)
        {
            watch(&mut *self.poller, &mut **source, token, yes);
            readiness |= Readiness::MAIL;
        }
        self.arrivals.push_again(Ready { token, readiness });
    }
}

/// Uses the reactor of the loop that this thread drives. `None` if it drives none with I/O.
#[inline]
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Reactor) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|reactor| reactor.as_deref_mut().map(use_it))
}

/// Makes reactor `id` this thread's; `make` makes it if it is new here. Answers which one was
/// before.
pub(crate) fn enter(id: u64, make: impl FnOnce() -> Box<Reactor>) -> Option<u64> {
    let mine = unpark(id).unwrap_or_else(make);
    let outer = CURRENT.replace(Some(mine))?;
    let outer_id = outer.id;
    PARKED.with_borrow_mut(|parked| parked.push(outer));
    Some(outer_id)
}

/// Makes reactor `outer` this thread's again; answers the one that was, if it is empty.
pub(crate) fn leave(outer: Option<u64>) -> Option<Box<Reactor>> {
    let outer = outer.and_then(unpark);
    let mine = CURRENT.replace(outer)?;
    if mine.is_empty() {
        return Some(mine);
    }
    PARKED.with_borrow_mut(|parked| parked.push(mine));
    None
}

fn unpark(id: u64) -> Option<Box<Reactor>> {
    PARKED.with_borrow_mut(|parked| {
        let at = parked.iter().position(|one| one.id == id)?;
        Some(parked.swap_remove(at))
    })
}

/// Registers what `make` makes of the token that it will have. Only on a loop with I/O.
///
/// # Errors
///
/// What the poller says; the source with it. [`io::ErrorKind::Unsupported`] elsewhere.
pub(crate) fn register<S: EventSource + 'static>(
    make: impl FnOnce(Token) -> Box<S>,
) -> io::Result<Token> {
    let Some(token) = with(|reactor| reactor.sources.reserve()) else {
        let message = "this thread drives no loop with I/O; make the group with `net::pinned`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    };
    let mut source = make(token);
    let registered = with(|reactor| {
        let watched = match source.io() {
            Some(io) => reactor.poller.register(io, token),
            None => Ok(()),
        };
        if let Err(why) = watched {
            reactor.sources.remove(token);
            return Err((why, source));
        }
        let _ = reactor.sources.put(token, source);
        reactor
            .counters
            .registered
            .set(reactor.sources.len() as u64);
        Ok(token)
    });
    match registered {
        Some(Ok(token)) => Ok(token),
        Some(Err((why, mut source))) => {
            source.watched(Err(clone_io_error(&why)));
            drop(source);
            Err(why)
        }
        None => unreachable!("the reactor was here a moment ago"),
    }
}

/// Lets a source that was just registered begin: at once, or, while another one is being told
/// of something, right after it.
pub(crate) fn begin(token: Token) {
    let readiness = Readiness::MAIL;
    dispatch(Ready { token, readiness });
}

/// Tells the source of `ready.token`; true if there is one.
pub(crate) fn dispatch(ready: Ready) -> bool {
    let Some((source, desk)) = with(|reactor| reactor.take(ready)).flatten() else {
        return with(|reactor| reactor.sources.slot_exists(ready.token)).unwrap_or(false);
    };
    CURRENT.with(|current| tell(current, ready, source, desk));
    true
}

/// Tells the next `few` in the flat array; then those of them send who waited for the others.
pub(crate) fn dispatch_few(few: usize) {
    CURRENT.with(|current| {
        let told = contain(|| {
            for at in 0..few {
                let taken = match current.borrow_mut().as_deref_mut() {
                    Some(reactor) => reactor.take_next(at > 0),
                    None => None,
                };
                if let Some((ready, (source, desk))) = taken {
                    tell(current, ready, source, desk);
                }
            }
        });
        let spent = match current.borrow_mut().as_deref_mut() {
            Some(reactor) => reactor.end_few(),
            None => Vec::new(),
        };
        if !spent.is_empty() {
            let_go_of_bytes(current, spent);
        }
        // What is left of the few is told in a next task, before the poller is asked again.
        if let Err(panic) = told {
            panic.resume();
        }
    });
}

/// Drops what was sent and is not the loop's, with nothing borrowed: whose it is may have a say in it.
#[cold]
fn let_go_of_bytes(current: &RefCell<Option<Box<Reactor>>>, mut spent: Vec<Bytes>) {
    spent.clear();
    if let Some(reactor) = current.borrow_mut().as_deref_mut()
        && let Some(desk) = &mut reactor.desk
    {
        desk.spent = spent;
    }
}

#[inline(always)]
fn tell(
    current: &RefCell<Option<Box<Reactor>>>,
    ready: Ready,
    mut source: Box<dyn EventSource>,
    mut desk: Box<Desk>,
) {
    // Handlers contain their panics; this is the last resort, so that a desk is never lost.
    let told = contain(|| source.ready(ready.readiness, &mut desk));
    let next = *told.as_ref().unwrap_or(&Next::Leave);
    let gone = match current.borrow_mut().as_deref_mut() {
        Some(reactor) => reactor.put(ready.token, source, desk, next),
        None => Some(source),
    };
    if let Some(gone) = gone {
        let_go(gone);
    }
    if let Err(panic) = told {
        panic.resume();
    }
}

#[cold]
fn let_go(source: Box<dyn EventSource>) {
    drop(source);
}

/// Returns the handles of the sources of this loop that are at home and have one.
pub(crate) fn handles() -> Vec<Arc<dyn SourceHandle>> {
    let all = with(|reactor| {
        let homes = reactor.sources.homes();
        homes.filter_map(|source| source.handle()).collect()
    });
    all.unwrap_or_default()
}

/// Returns the names that a source at home goes by: see [`EventSource::names`].
pub(crate) fn names(token: Token) -> Vec<String> {
    let names = with(|reactor| Some(reactor.sources.get_mut(token)?.names()));
    names.flatten().unwrap_or_default()
}

/// Says goodbye to everybody.
pub(crate) fn close() {
    // Whoever says goodbye may register somebody else: not for long.
    for _ in 0..4 {
        let tokens = with(|reactor| reactor.sources.tokens()).unwrap_or_default();
        if tokens.is_empty() {
            return;
        }
        for token in tokens {
            close_one(token);
        }
    }
}

/// Says goodbye to one source.
pub(crate) fn close_one(token: Token) {
    let readiness = Readiness::NONE;
    let taken = with(|reactor| reactor.take(Ready { token, readiness })).flatten();
    let Some((mut source, mut desk)) = taken else {
        return;
    };
    let _ = contain(|| source.close(&mut desk));
    let gone = with(|reactor| reactor.put(token, source, desk, Next::Leave));
    drop(gone);
}
