//! Fewer flushes, and no more bytes a second than allowed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_promise::Promise;

use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::errors::NetError;
use crate::message::{Nothing, Passing};
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// Holds flushes back while a read is going on, and lets one out at its end, or after a number.
///
/// A flush of ours is a system call only at the end of an event; this one is for handlers that
/// flush after each of many reads.
///
/// ```
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::FlushLess;
///
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("flush", FlushLess::every(256)))?;
/// channel.channel().write_and_flush("not held back: nothing is being read");
/// channel.run();
/// assert!(!channel.sent().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlushLess {
    most: u32,
    held: u32,
    reading: bool,
}

impl FlushLess {
    /// Lets one of `most` flushes out while a read is going on.
    pub fn every(most: u32) -> Self {
        Self {
            most: most.max(1),
            held: 0,
            reading: false,
        }
    }

    fn let_out(&mut self) -> bool {
        std::mem::take(&mut self.held) > 0
    }
}

impl Inbound for FlushLess {
    type In = Passing;
    type Out = Passing;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if self.let_out() {
            ctx.flush();
        }
    }

    fn read(&mut self, message: Passing, ctx: &mut InboundContext<'_, Self>) {
        self.reading = true;
        ctx.fire_read(message);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read_complete();
        self.reading = false;
        if self.let_out() {
            ctx.flush();
        }
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if !writable && self.let_out() {
            ctx.flush();
        }
        ctx.fire_writability(writable);
    }
}

impl Outbound for FlushLess {
    type Take = Passing;
    type Write = Passing;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: Passing, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.held += 1;
        if !self.reading || self.held >= self.most {
            self.held = 0;
            ctx.flush();
        }
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.let_out() {
            ctx.flush();
        }
        ctx.close();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.let_out() {
            ctx.flush();
        }
        ctx.close_when_flushed();
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.let_out() {
            ctx.flush();
        }
        ctx.shutdown_output();
    }
}

/// A number of bytes a second, for one channel or, cloned, for many together.
///
/// ```
/// use tidegate_net::handlers::Rate;
///
/// let shared = Rate::bytes_per_second(1_000_000);
/// let same = shared.clone(); // counts together
/// same.set(2_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Rate {
    account: Arc<Mutex<Account>>,
}

#[derive(Debug)]
struct Account {
    per_second: u64,
    /// When the bytes allowed so far have passed, by the loop's clock.
    free_at: u64,
}

impl Rate {
    /// So many bytes a second; at least one.
    pub fn bytes_per_second(bytes: u64) -> Self {
        let account = Account {
            per_second: bytes.max(1),
            free_at: 0,
        };
        Self {
            account: Arc::new(Mutex::new(account)),
        }
    }

    /// So many from now on, for all who share it. Who waits already waits as long as before.
    pub fn set(&self, bytes_per_second: u64) {
        self.lock().per_second = bytes_per_second.max(1);
    }

    /// Nanoseconds until more may pass.
    fn wait(&self, now: u64) -> u64 {
        self.lock().free_at.saturating_sub(now)
    }

    /// Counts `bytes` and answers how many nanoseconds to wait until they may pass.
    fn take(&self, bytes: usize, now: u64) -> u64 {
        let mut account = self.lock();
        let wait = account.free_at.saturating_sub(now);
        let cost = u128::from(bytes as u64) * 1_000_000_000 / u128::from(account.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        account.free_at = now.saturating_add(wait).saturating_add(cost);
        wait
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slows a channel down: reads pause and writes wait when there were more than allowed.
///
/// Nothing is cut: a long message passes at once, and what follows it waits for as long as it takes.
/// When it is taken out, what waits goes, and reading goes on.
///
/// ```
/// use std::time::Duration;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{Rate, Traffic};
///
/// let slow = Traffic::new(None, Some(Rate::bytes_per_second(10)));
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("slow", slow))?;
/// for _ in 0..2 {
///     channel.channel().write_and_flush("0123456789");
/// }
/// channel.run();
/// assert_eq!(channel.sent().len(), 10);
/// channel.advance(Duration::from_secs(1));
/// assert_eq!(channel.sent().len(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traffic {
    read: Option<Rate>,
    write: Option<Rate>,
    waiting: VecDeque<(Bytes, Option<Promise<()>>)>,
    paused: Option<Pause>,
    /// What was asked for while something waited.
    end: Option<End>,
}

/// What goes on after a pause.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// The channel read on its own.
    auto_read: bool,
    /// Somebody asked for a read.
    asked: bool,
}

/// What comes after everything that waits.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    ShutOutput,
}

const READ_AGAIN: u64 = 0;
const WRITE_AGAIN: u64 = 1;

impl Traffic {
    /// Allows so much in and out; `None` allows anything.
    pub fn new(read: Option<Rate>, write: Option<Rate>) -> Self {
        Self {
            read,
            write,
            waiting: VecDeque::new(),
            paused: None,
            end: None,
        }
    }

    fn go_on(&mut self, ctx: &mut InboundContext<'_, Self>) {
        match self.paused.take() {
            Some(pause) if pause.auto_read => {
                ctx.set_auto_read(true);
                // For handlers that kept something back while the channel did not read.
                ctx.fire_read_complete();
            }
            Some(pause) if pause.asked => ctx.read(),
            _ => {}
        }
    }

    /// Lets the first of those out who wait.
    fn let_one_out(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if let Some((bytes, promise)) = self.waiting.pop_front() {
            ctx.release(bytes.len() + ENTRY_OVERHEAD);
            ctx.write_for(bytes, promise);
        }
    }

    fn end(&mut self, ctx: &mut InboundContext<'_, Self>) {
        match self.end.take() {
            Some(End::Close) => ctx.close_when_flushed(),
            Some(End::ShutOutput) => ctx.shutdown_output(),
            None => {}
        }
    }
}

impl Inbound for Traffic {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !self.waiting.is_empty() {
            while !self.waiting.is_empty() {
                self.let_one_out(ctx);
            }
            ctx.flush();
        }
        self.end(ctx);
        self.go_on(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if let Some(rate) = &self.read {
            let now = ctx.now();
            rate.take(bytes.len(), now);
            let wait = Duration::from_nanos(rate.wait(now));
            let pauses = !wait.is_zero() && self.paused.is_none();
            if pauses && ctx.schedule(wait, READ_AGAIN).is_some() {
                let auto_read = ctx.is_auto_read();
                self.paused = Some(Pause {
                    auto_read,
                    asked: false,
                });
                ctx.set_auto_read(false);
            }
        }
        ctx.fire_read(bytes);
    }

    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        if key == READ_AGAIN {
            return self.go_on(ctx);
        }
        self.let_one_out(ctx);
        ctx.flush();
        if self.waiting.is_empty() {
            self.end(ctx);
        }
    }
}

impl Outbound for Traffic {
    type Take = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        if let Some(end) = self.end {
            // Before it goes what was there when it was asked for, and nothing else.
            let why = match end {
                End::Close => NetError::Closed(None),
                End::ShutOutput => NetError::OutputShut,
            };
            match ctx.take_promise() {
                Some(promise) => drop(promise.fail(why)),
                None => ctx.lose(),
            }
            return;
        }
        let Some(rate) = &self.write else {
            return ctx.write(bytes);
        };
        let now = ctx.now();
        if self.waiting.is_empty() && rate.wait(now) == 0 {
            rate.take(bytes.len(), now);
            return ctx.write(bytes);
        }
        let promise = ctx.take_promise();
        if let Err(why) = ctx.hold(bytes.len() + ENTRY_OVERHEAD) {
            match promise {
                Some(promise) => drop(promise.fail(why)),
                None => ctx.tell_refusal(why.into()),
            }
            return;
        }
        let wait = Duration::from_nanos(rate.take(bytes.len(), now));
        self.waiting.push_back((bytes, promise));
        if ctx.schedule(wait, WRITE_AGAIN).is_none() {
            // The loop is on its way out: nobody will come for those who wait.
            for (bytes, promise) in self.waiting.drain(..) {
                ctx.release(bytes.len() + ENTRY_OVERHEAD);
                ctx.write_for(bytes, promise);
            }
        }
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        let auto_read = ctx.is_auto_read();
        match &mut self.paused {
            None => ctx.read(),
            Some(pause) => {
                pause.auto_read |= auto_read;
                pause.asked = true;
                ctx.set_auto_read(false);
            }
        }
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.waiting.is_empty() {
            return ctx.close_when_flushed();
        }
        self.end = Some(End::Close);
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.waiting.is_empty() {
            return ctx.shutdown_output();
        }
        self.end.get_or_insert(End::ShutOutput);
    }
}
