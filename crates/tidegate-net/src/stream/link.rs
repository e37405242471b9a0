//! The state that a stream and its handler share.
//!
//! Nothing of the user's runs while the state is borrowed: wakers are cloned before, and are woken
//! and dropped after.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Buf, Bytes};
use tidegate_core::internal::{SignalBlock, WakeFlag, contain};
use tidegate_promise::Failure;

use super::kind::{StreamCell as _, StreamKind};
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
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) out: Vec<Bytes>,
    pub(super) flush: bool,
    pub(super) shut: bool,
    pub(super) close: bool,
    pub(super) resume: bool,
    /// `true` if a write waits for room.
    pub(super) room: bool,
}

/// The state itself.
#[derive(Debug, Default)]
pub struct StreamState {
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

impl StreamState {
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

pub(super) struct Link<K: StreamKind> {
    pub(super) channel: Channel,
    alarm: Arc<Alarm>,
    pub(super) waker: Waker,
    state: K::Cell,
}

impl<K: StreamKind> Link<K> {
    pub(super) fn new(channel: Channel, alarm: Arc<Alarm>) -> Self {
        Self {
            channel,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
            state: K::Cell::default(),
        }
    }

    // The side of the handler.

    /// Stores received bytes. Returns `true` if the channel has to stop reading.
    pub(super) fn receive(&self, bytes: Bytes) -> bool {
        let mut state = self.state.lock();
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
        self.state.lock().ended = true;
    }

    /// Ends both directions: the handler can do nothing more for the stream.
    pub(super) fn detach(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.detached = true;
    }

    /// Returns `false` if there is no stream that could return the error.
    pub(super) fn fail(&self, why: &Failure) -> bool {
        let mut state = self.state.lock();
        if state.gone {
            return false;
        }
        state.failure.get_or_insert_with(|| why.clone());
        true
    }

    pub(super) fn drain(&self) {
        self.state.lock().draining = true;
    }

    /// Begins a turn of the handler: grants `room` and wakes the tasks that can go on, unless the
    /// handler's own future is the one that waits.
    pub(super) fn begin_poll(&self, room: usize) {
        let mut state = self.state.lock();
        // Writes of another task or thread that the handler has not carried out.
        let written = state.wishes.out.iter();
        let written: usize = written.map(|bytes| bytes.len() + ENTRY_OVERHEAD).sum();
        let room = room.saturating_sub(written);
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
        let mut state = self.state.lock();
        state.polling = false;
        let resume = state.wants_resume();
        state.paused &= !resume;
        state.wishes.resume = resume;
        std::mem::take(&mut state.wishes)
    }

    /// Gives the memory of the carried out writes back.
    pub(super) fn reuse(&self, out: Vec<Bytes>) {
        let mut state = self.state.lock();
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
    fn wish(&self, change: impl FnOnce(&mut StreamState)) {
        let mut state = self.state.lock();
        change(&mut state);
        let polling = state.polling;
        drop(state);
        if !polling {
            self.ring();
        }
    }

    /// Returns what `look` finds. If that is nothing, stores the waker of `cx` for `side`.
    fn poll_side<T>(
        &self,
        side: Side,
        cx: &Context<'_>,
        mut look: impl FnMut(&mut StreamState) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.state.lock();
        if let Some(found) = look(&mut state) {
            return Poll::Ready(found);
        }
        let known = state.slot(side).as_ref();
        if known.is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(state);
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        // The handler may have run on its thread meanwhile.
        let found = look(&mut state);
        let before = match found {
            None => state.slot(side).replace(waker),
            Some(_) => Some(waker),
        };
        drop(state);
        drop(before);
        found.map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the next received bytes, which still count as held; no bytes at the end.
    fn poll_next(&self, cx: &Context<'_>) -> Poll<io::Result<Bytes>> {
        let next = self.poll_side(Side::Reader, cx, |state| match state.received.pop_front() {
            Some(bytes) => Some(Ok(bytes)),
            None => match &state.failure {
                Some(why) => Some(Err(why.clone())),
                None => state.ended.then(|| Ok(Bytes::new())),
            },
        });
        next.map_err(|why| error_of(why, io::ErrorKind::ConnectionAborted))
    }

    /// Subtracts bytes that were handed out. The channel reads on if the stream holds little now.
    fn took(&self, count: usize) {
        let mut state = self.state.lock();
        state.held -= count;
        let resume = state.wants_resume() && !state.polling;
        drop(state);
        if resume {
            self.ring();
        }
    }

    /// Returns the next received bytes; no bytes at the end.
    pub(super) fn poll_read_bytes(&self, cx: &Context<'_>) -> Poll<io::Result<Bytes>> {
        let bytes = ready!(self.poll_next(cx))?;
        self.took(bytes.len());
        Poll::Ready(Ok(bytes))
    }

    /// Copies received bytes into `buffer`.
    pub(super) fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut next = Some(ready!(self.poll_next(cx))?);
        let mut count = 0;
        while let Some(mut chunk) = next {
            let part = chunk.len().min(buffer.len() - count);
            chunk.copy_to_slice(&mut buffer[count..count + part]);
            count += part;
            next = None;
            if !chunk.is_empty() {
                self.state.lock().received.push_front(chunk);
            } else if count < buffer.len() {
                next = self.state.lock().received.pop_front();
            }
        }
        self.took(count);
        Poll::Ready(Ok(count))
    }

    /// Returns how many of `offered` bytes may be written now.
    pub(super) fn poll_room(&self, cx: &Context<'_>, offered: usize) -> Poll<io::Result<usize>> {
        let room = self.poll_side(Side::Writer, cx, |state| {
            if state.shut || state.detached || state.failure.is_some() {
                return Some(None);
            }
            let most = offered.min(state.room);
            (most > 0 || offered == 0).then_some(Some(most))
        });
        match room {
            Poll::Ready(Some(most)) => Poll::Ready(Ok(most)),
            Poll::Ready(None) => Poll::Ready(Err(self.closed())),
            Poll::Pending => {
                self.wish(|state| state.wishes.room = true);
                Poll::Pending
            }
        }
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
        let state = self.state.lock();
        if state.detached || state.failure.is_some() {
            drop(state);
            return Err(self.closed());
        }
        drop(state);
        self.wish(|state| state.wishes.flush = true);
        Ok(())
    }

    /// Ends the writes. Closes the sending half after them if `now` is set. Returns `false` if they
    /// have ended before.
    pub(super) fn shut(&self, now: bool) -> bool {
        let before = std::mem::replace(&mut self.state.lock().shut, true);
        if now && !before {
            self.wish(|state| state.wishes.shut = true);
        }
        !before
    }

    /// Handles the drop of the stream.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
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
        self.state.lock().draining
    }

    pub(super) fn poll_draining(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_side(Side::Drainer, cx, |state| state.draining.then_some(()))
    }

    pub(super) fn closed(&self) -> io::Error {
        let failure = self.state.lock().failure.clone();
        match failure.or_else(|| self.channel.close_cause()) {
            Some(why) => error_of(why, io::ErrorKind::BrokenPipe),
            None => io::ErrorKind::BrokenPipe.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A stream that was moved: it is used between the turns of its handler, and during them.

    use super::super::kind::{AnyThread, StreamCell};
    use super::*;
    use crate::EmbeddedChannel;

    fn link() -> Link<AnyThread> {
        let channel = EmbeddedChannel::new(|p| p).unwrap().channel();
        Link::new(channel, Alarm::new(Weak::new(), 0))
    }

    #[test]
    fn writes_between_two_turns_use_room_of_the_second() {
        let (link, cx) = (link(), Context::from_waker(Waker::noop()));
        link.begin_poll(1_000);
        drop(link.end_poll());
        link.write(vec![0; 400].into());
        link.begin_poll(1_000);
        let Poll::Ready(room) = link.poll_room(&cx, 1_000) else {
            panic!("there is room");
        };
        assert_eq!(room.unwrap(), 600 - ENTRY_OVERHEAD);
    }

    #[test]
    fn what_comes_while_the_waker_is_cloned_is_found() {
        let (link, cx) = (link(), Context::from_waker(Waker::noop()));
        let mut looks = 0;
        let found = link.poll_side(Side::Reader, &cx, |_| {
            looks += 1;
            (looks == 2).then_some("found")
        });
        assert_eq!(found, Poll::Ready("found"));
        assert!(StreamCell::lock(&link.state).reader.is_none());
    }
}
