//! Consolidates flushes, and limits the bytes per second.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_core::internal::lock;
use tidegate_promise::Promise;

use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::errors::NetError;
use crate::message::{AnyMessage, Nothing};
use crate::pipeline::{HandlerContext, Inbound, InboundContext, Outbound, OutboundContext};

/// Holds flushes back during a read. Passes one flush on at the end of the read, or after a number
/// of flushes.
///
/// Even without this handler, a flush is a system call only at the end of an event. This handler
/// helps if other handlers flush after each of many reads.
///
/// ```
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::FlushConsolidation;
///
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("flush", FlushConsolidation::every(256)))?;
/// channel.channel().write_and_flush("not held back: nothing is being read");
/// channel.run();
/// assert!(!channel.sent().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlushConsolidation {
    most: u32,
    held: u32,
    reading: bool,
}

impl FlushConsolidation {
    /// Creates a handler that passes one of `most` flushes on during a read.
    pub fn every(most: u32) -> Self {
        Self {
            most: most.max(1),
            held: 0,
            reading: false,
        }
    }

    fn release(&mut self) -> bool {
        std::mem::take(&mut self.held) > 0
    }
}

impl Inbound for FlushConsolidation {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if self.release() {
            ctx.flush();
        }
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        self.reading = true;
        ctx.fire_read(message);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read_complete();
        self.reading = false;
        if self.release() {
            ctx.flush();
        }
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if !writable && self.release() {
            ctx.flush();
        }
        ctx.fire_writability(writable);
    }
}

impl Outbound for FlushConsolidation {
    type Take = AnyMessage;
    type Write = AnyMessage;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
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
        if self.release() {
            ctx.flush();
        }
        ctx.close();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.release() {
            ctx.flush();
        }
        ctx.close_when_flushed();
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.release() {
            ctx.flush();
        }
        ctx.shutdown_output();
    }
}

/// A limit of bytes or messages per second, for one channel or, if cloned, for several together.
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
    account: Arc<Mutex<RateState>>,
}

#[derive(Debug)]
struct RateState {
    per_second: u64,
    /// The time on the event loop's clock at which what was counted so far has passed.
    free_at: u64,
    /// `true` if what was not used in the last second may follow at once.
    bursts: bool,
}

impl RateState {
    /// Returns the time until more may pass, in nanoseconds.
    fn wait(&self, now: u64) -> u64 {
        let ahead = match self.bursts {
            true => SECOND - SECOND / self.per_second,
            false => 0,
        };
        self.free_at.saturating_sub(now.saturating_add(ahead))
    }

    fn take(&mut self, units: usize, now: u64) -> u64 {
        let wait = self.wait(now);
        let cost = u128::from(units as u64) * u128::from(SECOND) / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.free_at = self.free_at.max(now).saturating_add(cost);
        wait
    }
}

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl Rate {
    /// Creates a limit of `bytes` per second, at least one.
    pub fn bytes_per_second(bytes: u64) -> Self {
        Self::new(bytes, false)
    }

    /// Creates a limit of `messages` per second, at least one, for a
    /// [`MessageLimit`](super::MessageLimit). After a pause, the messages of one second may pass at
    /// once.
    pub fn messages_per_second(messages: u64) -> Self {
        Self::new(messages, true)
    }

    fn new(per_second: u64, bursts: bool) -> Self {
        let account = RateState {
            per_second: per_second.max(1),
            free_at: 0,
            bursts,
        };
        Self {
            account: Arc::new(Mutex::new(account)),
        }
    }

    /// Changes the limit for all clones. What already waits keeps its delay.
    pub fn set(&self, per_second: u64) {
        self.lock().per_second = per_second.max(1);
    }

    pub(super) fn per_second(&self) -> u64 {
        self.lock().per_second
    }

    /// Returns the time until more may pass, in nanoseconds.
    fn wait(&self, now: u64) -> u64 {
        self.lock().wait(now)
    }

    /// Counts `units` and returns the time until they may pass, in nanoseconds.
    pub(super) fn take(&self, units: usize, now: u64) -> u64 {
        self.lock().take(units, now)
    }

    /// Counts one unit if it may pass now. Returns `false` if not.
    pub(super) fn try_take_one(&self, now: u64) -> bool {
        let mut account = self.lock();
        account.wait(now) == 0 && account.take(1, now) == 0
    }

    fn lock(&self) -> MutexGuard<'_, RateState> {
        lock(&self.account)
    }
}

/// Limits the rate of a channel: reads pause and writes wait when the limit is exceeded.
///
/// Messages are not split: a long message passes at once, and the messages behind it wait for the
/// time that it takes. When the handler is removed, waiting writes are sent and reading resumes.
///
/// ```
/// use std::time::Duration;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{Rate, TrafficShaping};
///
/// let slow = TrafficShaping::new(None, Some(Rate::bytes_per_second(10)));
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
pub struct TrafficShaping {
    read: Option<Rate>,
    write: Option<Rate>,
    waiting: VecDeque<(Bytes, Option<Promise<()>>)>,
    paused: Option<Pause>,
    /// The operation that was requested while writes were waiting.
    end: Option<End>,
}

/// A pause of reading, and what to resume after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// `true` if the channel reads on its own.
    auto_read: bool,
    /// `true` if a read was requested.
    asked: bool,
}

impl Pause {
    /// Stops reading.
    pub(super) fn begin(ctx: &mut HandlerContext<'_>) -> Self {
        let auto_read = ctx.is_auto_read();
        ctx.set_auto_read(false);
        Self {
            auto_read,
            asked: false,
        }
    }

    /// Records that a read was requested, or that the channel is to read on its own.
    pub(super) fn ask(&mut self, ctx: &mut HandlerContext<'_>) {
        self.auto_read |= ctx.is_auto_read();
        self.asked = true;
        ctx.set_auto_read(false);
    }

    /// Resumes reading.
    pub(super) fn end(self, ctx: &mut HandlerContext<'_>) {
        if self.auto_read {
            ctx.set_auto_read(true);
            // Handlers may have held messages back while the channel did not read.
            ctx.fire_read_complete();
        } else if self.asked {
            ctx.read();
        }
    }
}

/// The operation that follows the last waiting write.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    ShutOutput,
}

const READ_AGAIN: u64 = 0;
const WRITE_AGAIN: u64 = 1;

impl TrafficShaping {
    /// Creates a handler that limits inbound and outbound bytes; `None` means no limit.
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
        if let Some(pause) = self.paused.take() {
            pause.end(ctx);
        }
    }

    /// Writes the first of the waiting messages.
    fn release_one(&mut self, ctx: &mut InboundContext<'_, Self>) {
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

impl Inbound for TrafficShaping {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !self.waiting.is_empty() {
            while !self.waiting.is_empty() {
                self.release_one(ctx);
            }
            ctx.flush();
        }
        self.end(ctx);
        self.go_on(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if let Some(End::Close) = self.end {
            // The channel gets the close behind the writes that wait; until then the peer may go on.
            ctx.linger_on_close();
            return ctx.give_back(bytes);
        }
        if let Some(rate) = &self.read {
            let now = ctx.now();
            rate.take(bytes.len(), now);
            let wait = Duration::from_nanos(rate.wait(now));
            let pauses = !wait.is_zero() && self.paused.is_none();
            if pauses && ctx.schedule(wait, READ_AGAIN).is_some() {
                self.paused = Some(Pause::begin(ctx));
            }
        }
        ctx.fire_read(bytes);
    }

    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        if key == READ_AGAIN {
            return self.go_on(ctx);
        }
        self.release_one(ctx);
        ctx.flush();
        if self.waiting.is_empty() {
            self.end(ctx);
        }
    }
}

impl Outbound for TrafficShaping {
    type Take = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        if let Some(end) = self.end {
            // Only writes from before the request for the end are still sent.
            let why = match end {
                End::Close => NetError::Closed(None),
                End::ShutOutput => NetError::OutputShut,
            };
            match ctx.take_promise() {
                Some(promise) => drop(promise.fail(why)),
                None => ctx.mark_lost_write(),
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
                None => ctx.report_refused_write(why.into()),
            }
            return;
        }
        let wait = Duration::from_nanos(rate.take(bytes.len(), now));
        self.waiting.push_back((bytes, promise));
        if ctx.schedule(wait, WRITE_AGAIN).is_none() {
            // The event loop is shutting down: no timer will send the waiting writes.
            for (bytes, promise) in self.waiting.drain(..) {
                ctx.release(bytes.len() + ENTRY_OVERHEAD);
                ctx.write_for(bytes, promise);
            }
        }
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        match &mut self.paused {
            None => ctx.read(),
            Some(pause) => pause.ask(ctx),
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
