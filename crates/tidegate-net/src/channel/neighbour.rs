//! Writes of another channel or of a task of the same loop, which go straight into the write queue.
//!
//! The other channel's handler is running, so no handler of this channel may run, and nothing is
//! sent yet: the channel gets a turn at the end of the task, or right after it. Every case that needs more than the
//! queue goes through the mailbox like the write of any handle, and is refused there if it has to
//! be.
//!
//! A message for the handlers waits in the channel until that turn, without the mailbox and its lock, if
//! nothing else waits. It counts as pending meanwhile. There is one at most, and it comes before the
//! queued requests: what was requested before it would be in the mailbox, so that the channel would not
//! have taken it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidegate_core::internal::SignalBlock;
use tidegate_promise::Failure;

use super::channel_request::{ChannelRequest, refuse_write};
use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::shared::{Shared, flag};
use super::state::Flags;
use super::write_queue::ENTRY_OVERHEAD;
use crate::errors::NetError;
use crate::message::Msg;
use crate::reactor::{self, IoContext, IoSource, Next, TakenWrite};
use crate::sys::Readiness;

/// Flags of a channel whose writes need more than its queue.
const UNUSUAL: Flags = Flags::DATAGRAMS
    .union(Flags::REFUSAL_REPORTED)
    .union(Flags::CUT);

/// Flags of a channel that waits for a write event.
const WAITS: Flags = Flags::WRITE_BLOCKED.union(Flags::TURN_OWED);

impl Shared {
    /// Puts bytes of another channel or of a task of this thread's loop into the write queue. Called
    /// while a handler of that channel, or that task, runs. Returns whether this channel is writable
    /// after that.
    ///
    /// # Errors
    ///
    /// The bytes, if they have to go through the mailbox.
    pub(crate) fn write_directly(
        &self,
        bytes: Option<Bytes>,
        flush: bool,
    ) -> Result<bool, Option<Bytes>> {
        match self.roams() {
            true => Err(bytes),
            false => reactor::write_to_neighbour(self.token(), self.key(), bytes, flush),
        }
    }

    /// Passes a message to a channel of a loop of this thread, without the mailbox. The channel's
    /// handlers get it at the end of the task, or right after it.
    ///
    /// # Errors
    ///
    /// The message, if it has to go through the mailbox.
    pub(crate) fn pass_directly(&self, message: Msg) -> Result<(), Msg> {
        match self.roams() {
            true => Err(message),
            false => reactor::pass_to_neighbour(self.token(), self.key(), message),
        }
    }

    /// Queues a request. On the thread of its pinned loop, the channel handles it at the end of the task,
    /// or right after it; otherwise its loop is signalled.
    ///
    /// # Errors
    ///
    /// The request, as [`Shared::post`].
    pub(crate) fn post_in_turn(
        block: &Arc<SignalBlock<Self>>,
        request: ChannelRequest,
    ) -> Result<(), ChannelRequest> {
        Self::enqueue(block, request)?;
        if block.roams() || !reactor::give_turn(block.token(), block.key()) {
            Self::ring(block);
        }
        Ok(())
    }

    /// Returns `true` if writes wait for the loop or for their turn on it.
    #[inline]
    pub(super) fn has_writes_coming(&self) -> bool {
        self.pending.coming() > 0
    }

    /// Returns `true` if no request is queued. Requests of this thread are always seen; those of others
    /// have no order.
    #[inline]
    pub(crate) fn has_no_requests(&self) -> bool {
        !self.has_requests.load(Ordering::Relaxed)
    }

    /// Returns `true` if no request is queued and no end was requested. Called on the loop.
    #[inline]
    pub(crate) fn has_nothing_queued(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & flag::ENDS == 0 && self.has_no_requests()
    }

    /// Returns `true` if a message may be taken without the lock: nothing is queued, and nothing has to
    /// be counted or reported. Called on the loop.
    pub(super) fn takes_messages(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (flag::ENDS | flag::OVERFULL_REPORTED) == 0
            && self.has_no_requests()
            && !self.is_charged()
    }

    /// Returns the key of the channel among all channels: its address in memory.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Queues `bytes`, and flushes the queue if that is requested.
    ///
    /// # Errors
    ///
    /// The bytes, if they have to go through the mailbox.
    pub(super) fn take_neighbours_write(
        &mut self,
        key: usize,
        bytes: Option<Bytes>,
        flush: bool,
    ) -> Result<TakenWrite, Option<Bytes>> {
        let counts = bytes
            .as_ref()
            .map_or(0, |bytes| bytes.len() + ENTRY_OVERHEAD);
        if key != self.shared().key() || !self.takes_neighbours_write() {
            return Err(bytes);
        }
        let io = self.pipeline.io_mut();
        if io.pending() + counts > io.options.marks.cap() {
            // The mailbox refuses it, once it knows how much is pending here.
            io.publish();
            return Err(bytes);
        }
        let touched = bytes.is_some() || flush;
        if let Some(bytes) = bytes {
            if let Err(refused) = io.queue.push(bytes, None, &io.options.marks) {
                return Err(Some(refused.bytes));
            }
            io.look_at_marks();
        }
        if flush {
            io.request_flush();
        }
        let writable = io.is_writable();
        let owes_turn = touched && !self.has(Flags::NEIGHBOUR_WROTE);
        if owes_turn {
            self.set(Flags::NEIGHBOUR_WROTE);
        }
        Ok(TakenWrite {
            owes_turn,
            writable,
        })
    }

    /// Takes a message if the write of a handle would be accepted, nothing of a handle is waiting, and the
    /// channel stays writable with it: then nobody waits for room because of it. Returns `true` if the
    /// channel needs a turn for it.
    pub(super) fn take_neighbours_message(
        &mut self,
        key: usize,
        message: &mut Option<Msg>,
    ) -> bool {
        let shared = self.shared();
        if key != shared.key()
            || !self.state().is_open()
            || self.has_message()
            || !shared.takes_messages()
        {
            return false;
        }
        let (io, marks) = (self.pipeline.io(), shared.marks());
        let size = message.as_ref().map_or(0, Msg::size);
        let counts = size.saturating_add(ENTRY_OVERHEAD);
        let pending = io.unsent().saturating_add(shared.pending.coming());
        if pending.saturating_add(counts) > marks.high().min(marks.cap()) {
            return false;
        }
        shared.pending.add(counts);
        self.set_message(message.take());
        let owes_turn = !self.has(Flags::NEIGHBOUR_WROTE);
        self.set(Flags::NEIGHBOUR_WROTE.union(Flags::NEIGHBOUR_REQUESTED));
        owes_turn
    }

    /// Refuses the message that the channel has taken, because it is closed.
    pub(super) fn refuse_message(&mut self, cause: Option<Failure>) {
        if let Some(message) = self.take_message() {
            refuse_write(message, None, NetError::Closed(cause));
        }
    }

    /// Notes that requests of this thread's loop are queued. Returns whether the channel needs a turn
    /// for them; `None` if it is another one, or not open.
    pub(super) fn take_neighbours_requests(&mut self, key: usize) -> Option<bool> {
        if key != self.shared().key() || !self.state().is_open() {
            return None;
        }
        let owes_turn = !self.has(Flags::NEIGHBOUR_WROTE);
        self.set(Flags::NEIGHBOUR_WROTE.union(Flags::NEIGHBOUR_REQUESTED));
        Some(owes_turn)
    }

    /// Returns `true` if the write of a handle would go straight to the queue, and nothing of a
    /// handle is waiting: the order of all writes stays the order of the calls.
    fn takes_neighbours_write(&self) -> bool {
        self.state().is_open()
            && self.state().takes_writes()
            && !self.has(UNUSUAL)
            && self.pipeline.passes_writes()
            && !self.has_message()
            && self.shared().has_nothing_queued()
    }

    /// Sends what other channels wrote, and brings handlers and other threads up to date.
    pub(super) fn send_neighbours_writes(&mut self, io_context: &mut IoContext) -> Next {
        let requested = self.has(Flags::NEIGHBOUR_REQUESTED);
        self.clear(Flags::NEIGHBOUR_WROTE.union(Flags::NEIGHBOUR_REQUESTED));
        if requested {
            return self.deliver_message(io_context);
        }
        if self.has(Flags::TURN_OWED) {
            return self.ready(Readiness::WRITE, io_context);
        }
        if self.state().is_open() && self.is_to_send() && !self.has(WAITS) {
            match self.send_one(io_context) {
                Ok(spent) => drop(spent),
                Err(first) => {
                    self.with_desk(io_context, |core, io_context| core.drain(first, io_context))
                }
            }
            if self.is_calm() {
                return Next::Stay;
            }
        }
        self.end_turn_with_work(io_context)
    }

    /// Gives the handlers the message that the channel has taken, and sends what they make of it.
    /// Everything else that the turn has to do goes the way of queued requests.
    fn deliver_message(&mut self, io_context: &mut IoContext) -> Next {
        let plain = self.state().is_open()
            && !self.state().has_end_to_do()
            && !self.has(WAITS.union(UNUSUAL))
            && self.shared().has_no_requests();
        let passed = match plain {
            true => self.take_message(),
            false => None,
        };
        let Some(passed) = passed else {
            // Also sends what is in the queue.
            return self.turn(Readiness::REQUESTS, io_context);
        };
        self.lend(io_context);
        self.pipeline.write(passed, None);
        self.take_back(io_context);
        if self.is_to_send() && self.pipeline.is_idle() {
            match self.send_one(io_context) {
                Ok(spent) => drop(spent),
                Err(first) => self.drain(first, io_context),
            }
        }
        if self.state().is_to_read() && self.state().is_open() {
            // The handlers read again, after a pause.
            return self.turn(Readiness::REQUESTS, io_context);
        }
        if !self.is_calm() {
            return self.end_turn_with_work(io_context);
        }
        self.shared().pending.forget_taken();
        self.pipeline.end_turn();
        Next::Stay
    }
}

#[cfg(test)]
mod tests {
    //! Which writes go straight into the queue.

    use std::io::Read;
    use std::net::TcpListener;

    use crate::{Channel, Client, Neighbour, pinned};

    fn write(channel: &Channel, text: &'static str) -> bool {
        let written = channel.shared().write_directly(Some(text.into()), true);
        written.is_ok()
    }

    #[test]
    fn a_task_of_the_loop_writes_directly_and_another_thread_does_not() {
        let group = pinned("io", 2).unwrap();
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let [home, other] = [0, 1].map(|at| group.loops().iter().nth(at).unwrap().clone());
        let client = Client::builder(&group).build();
        let connected = client.connect_on(&home, peer.local_addr().unwrap());
        let channel = connected.wait().unwrap();
        let mut peer = peer.accept().unwrap().0;
        assert!(!write(&channel, "-"), "this thread drives no loop");
        let own = channel.clone();
        let wrote = other.submit(move || write(&own, "-")).unwrap();
        assert!(!wrote.wait().unwrap(), "it drives another loop");
        for _ in 0..3 {
            let own = channel.clone();
            let wrote = home.submit(move || (write(&own, "some "), write(&own, "more ")));
            assert_eq!(wrote.unwrap().wait().unwrap(), (true, true));
            // The loop sends it although nothing else happens.
            let mut got = [0; 10];
            peer.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"some more ");
        }
        // What waits in the mailbox comes first.
        let own = channel.clone();
        let wrote = home.submit(move || {
            own.write_and_flush("first ");
            write(&own, "-")
        });
        assert!(!wrote.unwrap().wait().unwrap());
        let mut got = [0; 6];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"first ");
    }

    #[test]
    fn a_message_is_passed_from_any_thread_and_keeps_its_place_among_other_requests() {
        let group = pinned("io", 2).unwrap();
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let [home, other] = [0, 1].map(|at| group.loops().iter().nth(at).unwrap().clone());
        let client = Client::builder(&group).build();
        let connected = client.connect_on(&home, peer.local_addr().unwrap());
        let channel = connected.wait().unwrap();
        let mut peer = peer.accept().unwrap().0;
        let mut read = |expected: &str| {
            let mut got = vec![0; expected.len()];
            peer.read_exact(&mut got).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), expected);
        };
        // Nothing else happens on the loop.
        Neighbour::of(&channel).pass("thread ");
        channel.flush();
        read("thread ");
        for home in [&home, &other] {
            let own = channel.clone();
            let task = home.submit(move || {
                let near = Neighbour::of(&own);
                near.pass("1 ");
                own.write("2 ");
                near.pass("3 ");
                near.write_and_flush("4 ");
                near.pass("5 ");
                own.flush();
            });
            task.unwrap().wait().unwrap();
            read("1 2 3 4 5 ");
        }
        let own = channel.clone();
        let task = home.submit(move || {
            Neighbour::of(&own).pass("last");
            own.close_when_flushed();
            // Refused: it comes after the end.
            Neighbour::of(&own).pass("late");
        });
        task.unwrap().wait().unwrap();
        read("last");
        let mut rest = String::new();
        peer.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }

    #[test]
    fn a_write_of_a_task_to_a_channel_that_ends_is_sent_or_refused() {
        let group = pinned("io", 1).unwrap();
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::builder(&group).build();
        let connected = client.connect(peer.local_addr().unwrap());
        let channel = connected.wait().unwrap();
        let mut peer = peer.accept().unwrap().0;
        let own = channel.clone();
        let wrote = group.loops().next().submit(move || {
            let before = write(&own, "before");
            own.close_when_flushed();
            (before, write(&own, "after"))
        });
        assert_eq!(wrote.unwrap().wait().unwrap(), (true, false));
        let mut got = String::new();
        peer.read_to_string(&mut got).unwrap();
        assert_eq!(got, "before");
    }
}
