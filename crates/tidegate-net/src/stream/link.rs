//! The state that a local stream and its handler share. Both are on one thread, so it has no lock.
//!
//! Nothing of the user's runs while the state is borrowed: wakers are cloned before, and are woken
//! and dropped after.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Buf, Bytes};
use tidegate_core::internal::{SignalBlock, WakeFlag, contain};
use tidegate_promise::Failure;

use super::{MOST_HELD, error_of};
use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{Channel, Shared, ring_timer};

/// The key of the timer event by which a waker calls the handler.
pub(super) const WAKE: u64 = 1;

/// The waker of the handler's future: calls the handler's `timer` method.
pub(super) struct Alarm {
    channel: Weak<SignalBlock<Shared>>,
    id: u32,
    /// Raised if the handler will poll its future anyway.
    flag: WakeFlag,
}

impl Alarm {
    pub(super) fn new(channel: Weak<SignalBlock<Shared>>, id: u32) -> Arc<Self> {
        let flag = WakeFlag::new();
        Arc::new(Self { channel, id, flag })
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.flag.raise() {
            ring_timer(&self.channel, self.id, WAKE);
        }
    }
}

/// What the stream wants its handler to do.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) out: Vec<Bytes>,
    pub(super) flush: bool,
    pub(super) shut: bool,
    pub(super) close: bool,
    pub(super) resume: bool,
    /// `true` if a write waits for room.
    pub(super) room: bool,
}

#[derive(Default)]
struct State {
    received: VecDeque<Bytes>,
    held: usize,
    /// `true` if the channel does not read because the stream holds too much.
    paused: bool,
    ended: bool,
    /// `true` if the handler was removed, or its channel is closed.
    detached: bool,
    draining: bool,
    failure: Option<Failure>,
    /// How much may be written before the handler carries it out.
    room: usize,
    wishes: Wishes,
    /// `true` if the stream has closed its sending half, or was dropped.
    shut: bool,
    gone: bool,
    /// `true` while the handler polls its future. It carries out the wishes afterwards.
    polling: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    drainer: Option<Waker>,
}

/// What a waker waits for.
#[derive(Clone, Copy)]
enum Side {
    Reader,
    Writer,
    Drainer,
}

impl State {
    fn slot(&mut self, side: Side) -> &mut Option<Waker> {
        match side {
            Side::Reader => &mut self.reader,
            Side::Writer => &mut self.writer,
            Side::Drainer => &mut self.drainer,
        }
    }

    /// Takes the waker of a side, unless it is `own`.
    fn take_other(&mut self, side: Side, own: &Waker) -> Option<Waker> {
        let slot = self.slot(side);
        match slot {
            Some(waker) if !waker.will_wake(own) => slot.take(),
            _ => None,
        }
    }

    fn wants_resume(&self) -> bool {
        self.paused && self.held < MOST_HELD / 2
    }
}

pub(super) struct Link {
    pub(super) channel: Channel,
    alarm: Arc<Alarm>,
    pub(super) waker: Waker,
    state: RefCell<State>,
}

impl Link {
    pub(super) fn new(channel: Channel, alarm: Arc<Alarm>) -> Self {
        Self {
            channel,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
            state: RefCell::default(),
        }
    }

    // The side of the handler.

    /// Stores received bytes. Returns `true` if the channel has to stop reading.
    pub(super) fn receive(&self, bytes: Bytes) -> bool {
        let mut state = self.state.borrow_mut();
        if state.gone {
            drop(state);
            return false;
        }
        state.held += bytes.len();
        state.received.push_back(bytes);
        let pause = state.held >= MOST_HELD && !state.paused;
        state.paused |= pause;
        pause
    }

    pub(super) fn end(&self) {
        self.state.borrow_mut().ended = true;
    }

    /// Ends both directions: the handler can do nothing more for the stream.
    pub(super) fn detach(&self) {
        let mut state = self.state.borrow_mut();
        state.ended = true;
        state.detached = true;
    }

    /// Returns `false` if there is no stream that could return the error.
    pub(super) fn fail(&self, why: &Failure) -> bool {
        let mut state = self.state.borrow_mut();
        if state.gone {
            return false;
        }
        state.failure.get_or_insert_with(|| why.clone());
        true
    }

    pub(super) fn drain(&self) {
        self.state.borrow_mut().draining = true;
    }

    /// Begins a turn of the handler: grants `room` and wakes the tasks that can go on, unless the
    /// handler's own future is the one that waits.
    pub(super) fn begin_poll(&self, room: usize) {
        let mut state = self.state.borrow_mut();
        state.room = room;
        state.polling = true;
        let readable = !state.received.is_empty() || state.ended || state.failure.is_some();
        let writable = room > 0 || state.detached || state.failure.is_some();
        let sides = [
            (Side::Reader, readable),
            (Side::Writer, writable),
            (Side::Drainer, state.draining),
        ];
        let own = &self.waker;
        let woken = sides.map(|(side, now)| now.then(|| state.take_other(side, own)).flatten());
        drop(state);
        if woken.iter().any(Option::is_some) {
            self.alarm.flag.hold();
            for waker in woken.into_iter().flatten() {
                // A waker of the user's. If it panics, its own task is the one that is not woken.
                let _ = contain(|| waker.wake());
            }
        }
        self.alarm.flag.clear();
    }

    /// Ends the poll. Returns what the stream wants, once.
    pub(super) fn end_poll(&self) -> Wishes {
        let mut state = self.state.borrow_mut();
        state.polling = false;
        let resume = state.wants_resume();
        state.paused &= !resume;
        state.wishes.resume = resume;
        std::mem::take(&mut state.wishes)
    }

    /// Gives the memory of the carried out writes back.
    pub(super) fn reuse(&self, out: Vec<Bytes>) {
        let mut state = self.state.borrow_mut();
        if state.wishes.out.is_empty() {
            state.wishes.out = out;
        }
    }

    /// Polls the handler once more, in a turn of its own.
    pub(super) fn ring(&self) {
        self.waker.wake_by_ref();
    }

    // The side of the stream.

    /// Changes the state, and calls the handler unless it is polling: it sees the change then.
    fn wish(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.borrow_mut();
        change(&mut state);
        let polling = state.polling;
        drop(state);
        if !polling {
            self.ring();
        }
    }

    fn wait<T>(&self, side: Side, cx: &Context<'_>) -> Poll<T> {
        let mut state = self.state.borrow_mut();
        let known = state.slot(side).as_ref();
        if known.is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(state);
        let waker = cx.waker().clone();
        let before = self.state.borrow_mut().slot(side).replace(waker);
        drop(before);
        Poll::Pending
    }

    /// Returns the next received bytes; no bytes at the end.
    pub(super) fn poll_read_bytes(&self, cx: &Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut state = self.state.borrow_mut();
        let Some(bytes) = state.received.pop_front() else {
            drop(state);
            return self.poll_nothing(cx).map_ok(|()| Bytes::new());
        };
        state.held -= bytes.len();
        let resume = state.wants_resume() && !state.polling;
        drop(state);
        if resume {
            self.ring();
        }
        Poll::Ready(Ok(bytes))
    }

    /// Copies received bytes into `buffer`.
    pub(super) fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut count = 0;
        while count < buffer.len() {
            let next = self.state.borrow_mut().received.pop_front();
            let Some(mut chunk) = next else { break };
            let part = chunk.len().min(buffer.len() - count);
            chunk.copy_to_slice(&mut buffer[count..count + part]);
            count += part;
            if !chunk.is_empty() {
                self.state.borrow_mut().received.push_front(chunk);
            }
        }
        if count == 0 {
            return self.poll_nothing(cx).map_ok(|()| 0);
        }
        let mut state = self.state.borrow_mut();
        state.held -= count;
        let resume = state.wants_resume() && !state.polling;
        drop(state);
        if resume {
            self.ring();
        }
        Poll::Ready(Ok(count))
    }

    /// Polls a stream that has received nothing: an error, the end, or a wait.
    fn poll_nothing(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let state = self.state.borrow();
        if let Some(why) = state.failure.clone() {
            return Poll::Ready(Err(error_of(why, io::ErrorKind::ConnectionAborted)));
        }
        if state.ended {
            return Poll::Ready(Ok(()));
        }
        drop(state);
        self.wait(Side::Reader, cx)
    }

    /// Returns how many of `offered` bytes may be written now.
    pub(super) fn poll_room(&self, cx: &Context<'_>, offered: usize) -> Poll<io::Result<usize>> {
        let state = self.state.borrow();
        if state.shut || state.detached || state.failure.is_some() {
            drop(state);
            return Poll::Ready(Err(self.closed()));
        }
        let most = offered.min(state.room);
        drop(state);
        if most == 0 && offered > 0 {
            let waits = self.wait(Side::Writer, cx);
            self.wish(|state| state.wishes.room = true);
            return waits;
        }
        Poll::Ready(Ok(most))
    }

    /// Writes bytes for which there is room.
    pub(super) fn write(&self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.wish(|state| {
            state.room = state.room.saturating_sub(bytes.len() + ENTRY_OVERHEAD);
            state.wishes.out.push(bytes);
        });
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        let state = self.state.borrow();
        if state.detached || state.failure.is_some() {
            drop(state);
            return Err(self.closed());
        }
        drop(state);
        self.wish(|state| state.wishes.flush = true);
        Ok(())
    }

    pub(super) fn shut(&self) {
        if !self.state.borrow().shut {
            self.wish(|state| {
                state.shut = true;
                state.wishes.shut = true;
            });
        }
    }

    /// Handles the drop of the stream.
    pub(super) fn leave(&self) {
        let mut state = self.state.borrow_mut();
        state.shut = true;
        state.gone = true;
        let (detached, received) = (state.detached, std::mem::take(&mut state.received));
        let wakers = [
            state.reader.take(),
            state.writer.take(),
            state.drainer.take(),
        ];
        state.held = 0;
        drop(state);
        drop((received, wakers));
        if detached {
            // The handler was removed; a channel that is closed needs nothing more.
            if self.channel.is_active() {
                drop(self.channel.close_when_flushed());
            }
        } else {
            self.wish(|state| state.wishes.close = true);
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.state.borrow().draining
    }

    pub(super) fn poll_draining(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_draining() {
            return Poll::Ready(());
        }
        self.wait(Side::Drainer, cx)
    }

    fn closed(&self) -> io::Error {
        let failure = self.state.borrow().failure.clone();
        match failure.or_else(|| self.channel.close_cause()) {
            Some(why) => error_of(why, io::ErrorKind::BrokenPipe),
            None => io::ErrorKind::BrokenPipe.into(),
        }
    }
}
