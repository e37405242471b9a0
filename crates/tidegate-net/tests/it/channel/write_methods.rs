//! The same methods for writing on a handle and on both contexts, with the same guards.

use bytes::Bytes;
use tidegate_net::{
    Channel, ChannelOptions, EmbeddedChannel, Inbound, InboundContext, NetError, Outbound,
    OutboundContext,
};
use tidegate_promise::{Completion, Failure};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::marks;

/// A method for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Write,
    WriteWith,
    WriteAndFlush,
    WriteAndFlushWith,
}

use Method::{Write, WriteAndFlush, WriteAndFlushWith, WriteWith};

const METHODS: [Method; 4] = [Write, WriteWith, WriteAndFlush, WriteAndFlushWith];

impl Method {
    fn flushes(self) -> bool {
        matches!(self, WriteAndFlush | WriteAndFlushWith)
    }

    fn completes(self) -> bool {
        matches!(self, WriteWith | WriteAndFlushWith)
    }
}

/// Calls `method` on anything that has the methods.
macro_rules! call {
    ($method:expr, $on:expr, $bytes:expr) => {
        match $method {
            Write => {
                $on.write($bytes);
                None
            }
            WriteWith => Some($on.write_with($bytes)),
            WriteAndFlush => {
                $on.write_and_flush($bytes);
                None
            }
            WriteAndFlushWith => Some($on.write_and_flush_with($bytes)),
        }
    };
}

/// Whose methods are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Handle,
    Inbound,
    Outbound,
}

const PLACES: [Place; 3] = [Place::Handle, Place::Inbound, Place::Outbound];

/// What a test calls, with which size, and what became of it.
#[derive(Clone)]
struct Plan {
    place: Place,
    method: Method,
    size: usize,
    completions: Log<Completion<()>>,
    errors: Log<Failure>,
}

impl Plan {
    fn new(place: Place, method: Method, size: usize) -> Self {
        Self {
            place,
            method,
            size,
            completions: Log::new(),
            errors: Log::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        vec![b'x'; self.size]
    }

    fn keep(&self, completion: Option<Completion<()>>) {
        assert_eq!(completion.is_some(), self.method.completes());
        completion
            .into_iter()
            .for_each(|one| self.completions.push(one));
    }

    fn channel(&self, options: ChannelOptions) -> EmbeddedChannel {
        let (relays, writes) = (Relays(self.clone()), Writes(self.clone()));
        EmbeddedChannel::with_options(options, |p| {
            p.add_outbound("relays", relays).add("writes", writes)
        })
        .unwrap()
    }

    /// Writes at the place of this plan.
    fn write(&self, channel: &mut EmbeddedChannel) {
        match self.place {
            Place::Handle => self.keep(call!(self.method, channel.channel(), self.bytes())),
            Place::Inbound => channel.receive("now"),
            Place::Outbound => {
                channel.channel().write("now");
                // A write alone does not wake the loop.
                channel.channel().fire_event(());
            }
        }
        channel.run();
    }
}

/// Writes when something is received, and when the channel is closed.
struct Writes(Plan);

impl Writes {
    fn write(&self, ctx: &mut InboundContext<'_, Self>) {
        if self.0.place == Place::Inbound {
            self.0.keep(call!(self.0.method, ctx, self.0.bytes()));
        }
    }
}

impl Inbound for Writes {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        self.0.errors.push(why);
    }
}

/// Writes instead of every message that it is given, and behind a close.
struct Relays(Plan);

impl Relays {
    fn write(&self, ctx: &mut OutboundContext<'_, Self>) {
        self.0.keep(call!(self.0.method, ctx, self.0.bytes()));
    }
}

impl Outbound for Relays {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, message: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        match self.0.place {
            Place::Outbound => Self::write(self, ctx),
            _ => ctx.write(message),
        }
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.close();
        if self.0.place == Place::Outbound {
            Self::write(self, ctx);
        }
    }
}

fn is_net_error(why: &Failure, is: impl FnOnce(&NetError) -> bool) -> bool {
    why.downcast_ref::<NetError>().is_some_and(is)
}

#[test]
fn every_method_sends_and_completes_alike_on_handle_and_contexts() {
    for (place, method) in PLACES.iter().flat_map(|&p| METHODS.map(|m| (p, m))) {
        let plan = Plan::new(place, method, 3);
        let mut channel = plan.channel(ChannelOptions::default());
        plan.write(&mut channel);
        if !method.flushes() {
            assert!(channel.sent().is_empty(), "{place:?} {method:?}");
            channel.channel().flush();
            channel.run();
        }
        assert_eq!(channel.sent(), "xxx", "{place:?} {method:?}");
        plan.completions
            .take()
            .into_iter()
            .for_each(|one| one.wait().unwrap());
        assert!(plan.errors.is_empty());
    }
}

#[test]
fn every_write_above_the_cap_is_refused_on_handle_and_contexts() {
    for (place, method) in PLACES.iter().flat_map(|&p| METHODS.map(|m| (p, m))) {
        let plan = Plan::new(place, method, 2_000);
        let mut channel = plan.channel(marks(100, 200, 1_000));
        plan.write(&mut channel);
        channel.channel().flush();
        channel.run();
        let mut refused = plan.errors.take();
        let completions = plan.completions.take();
        refused.extend(
            completions
                .into_iter()
                .map(|one| one.wait().unwrap_err().failure().unwrap()),
        );
        assert_eq!(refused.len(), 1, "{place:?} {method:?}");
        let full = |why: &NetError| matches!(why, NetError::WriteQueueFull { cap: 1_000, .. });
        assert!(
            is_net_error(&refused[0], full),
            "{place:?} {method:?}: {}",
            refused[0]
        );
        assert!(channel.sent().is_empty() && channel.is_open());
    }
}

#[test]
fn every_write_after_the_end_fails_on_handle_and_contexts() {
    for (place, method) in PLACES
        .iter()
        .flat_map(|&p| [WriteWith, WriteAndFlushWith].map(|m| (p, m)))
    {
        let plan = Plan::new(place, method, 3);
        let mut channel = plan.channel(ChannelOptions::default());
        channel.close();
        if place == Place::Handle {
            plan.write(&mut channel);
        }
        let late = plan.completions.take();
        assert_eq!(late.len(), 1, "{place:?} {method:?}");
        for one in late {
            let why = one.wait().unwrap_err().failure().unwrap();
            let closed = |why: &NetError| matches!(why, NetError::Closed(_));
            assert!(is_net_error(&why, closed), "{place:?} {method:?}: {why}");
        }
        assert!(channel.sent().is_empty());
    }
}

/// Writes and flushes with a completion, when something is received.
fn flushes(log: &Log<Completion<()>>, cancels: bool) -> Acts {
    let (log, ended) = (log.clone(), log.clone());
    Acts::on_read(move |bytes, ctx| {
        ctx.write(bytes);
        let flushed = ctx.flush_with();
        if cancels {
            assert!(flushed.cancel(), "it waits for the handler to return");
        }
        log.push(flushed);
    })
    .on_inactive(move |ctx| ended.push(ctx.flush_with()))
}

/// Sees every flush, and passes it on with a completion of its own.
struct Sees(Log<Completion<()>>);

impl Outbound for Sees {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, message: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.0.push(ctx.flush_with());
    }
}

#[test]
fn a_flush_of_a_context_completes_when_everything_before_it_is_sent() {
    for seen in [false, true] {
        let (log, passed) = (Log::new(), Log::new());
        let flushes = flushes(&log, false);
        let mut channel = EmbeddedChannel::new(|p| {
            let p = match seen {
                true => p.add_outbound("sees", Sees(passed.clone())),
                false => p,
            };
            p.add("flushes", flushes)
        })
        .unwrap();
        channel.set_room(Some(4));
        channel.receive("0123456789");
        let flushed = log.take().remove(0);
        assert!(flushed.peek().is_none(), "six bytes are left");
        channel.set_room(None);
        flushed.wait().unwrap();
        for one in passed.take() {
            one.wait().unwrap();
        }
        channel.receive("");
        channel.close();
        let late = log.take().remove(0).wait().unwrap_err();
        assert!(late.to_string().contains("closed"), "{late}");
    }
}

#[test]
fn a_flush_of_a_context_that_is_cancelled_in_time_does_nothing() {
    let (log, passed) = (Log::new(), Log::new());
    let flushes = flushes(&log, true);
    let mut channel = EmbeddedChannel::new(|p| {
        p.add_outbound("sees", Sees(passed.clone()))
            .add("flushes", flushes)
    })
    .unwrap();
    channel.receive("later");
    assert!(channel.sent().is_empty() && passed.is_empty());
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.sent(), "later");
}

#[test]
fn a_handle_is_what_the_contexts_give_out_too() {
    fn log_channel(log: Log<Channel>) -> Acts {
        Acts::on_read(|_, _| ()).on_active(move |ctx| log.push(ctx.channel()))
    }
    let (log, own) = Log::pair();
    let mut channel = EmbeddedChannel::new(|p| p.add("gives", log_channel(own))).unwrap();
    let sent = log.take().remove(0).write_and_flush_with("by the handle");
    channel.run();
    sent.wait().unwrap();
    assert_eq!(channel.sent(), "by the handle");
}

/// Writes and flushes with completions, in every event.
struct Chatty(Log<Completion<()>>);

impl Chatty {
    fn write(&self, ctx: &mut InboundContext<'_, Self>) {
        let handle = ctx.channel();
        for one in [
            ctx.write_with("one"),
            ctx.flush_with(),
            ctx.write_and_flush_with("two"),
            handle.write_with("three"),
            handle.flush_with(),
            handle.write_and_flush_with("four"),
        ] {
            self.0.push(one);
        }
    }
}

impl Inbound for Chatty {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn read(&mut self, _: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.write(ctx);
    }
}

#[test]
fn every_completion_ends_in_whatever_event_it_was_requested() {
    let log = Log::new();
    let chatty = Chatty(log.clone());
    let mut channel = EmbeddedChannel::new(|p| p.add("chatty", chatty)).unwrap();
    channel.receive("now");
    channel.run();
    let open = log.take();
    assert_eq!(open.len(), 3 * 6);
    open.into_iter().for_each(|one| one.wait().unwrap());
    channel.close();
    channel.run();
    let late = log.take();
    assert_eq!(late.len(), 2 * 6);
    for one in late {
        assert!(one.peek().is_some(), "it would hang");
        let why = one.wait().unwrap_err();
        assert!(why.to_string().contains("closed"), "{why}");
    }
}
