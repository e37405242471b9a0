//! Adapts the user's handlers to the pipeline: downcasts messages and calls the method for each
//! event.

use std::any::type_name;

use tidegate_core::Blocking;
use tidegate_promise::Promise;

use super::context::HandlerContext;
use super::erased::Erased;
use super::handler::{Inbound, InboundContext, Outbound, OutboundContext};
use super::shape::Shape;
use crate::channel::{FileRange, HandlerEvent, InEvent, OutOp};
use crate::message::{Kind, Msg};

/// A handler with an inbound side only.
pub(crate) struct In<H>(pub(crate) H);
/// A handler with an outbound side only.
pub(crate) struct Out<H>(pub(crate) H);
/// A handler with both sides.
pub(crate) struct Both<H>(pub(crate) H);

const fn in_kinds<H: Inbound>() -> [Kind; 3] {
    [
        Kind::of::<H::In>(),
        Kind::of::<H::Out>(),
        Kind::of::<H::Write>(),
    ]
}

const fn out_kinds<H: Outbound>() -> [Kind; 2] {
    [Kind::of::<H::Take>(), Kind::of::<H::Write>()]
}

const fn wider(a: Blocking, b: Blocking) -> Blocking {
    if a as u8 > b as u8 { a } else { b }
}

/// Returns the shape of a handler of inbound events.
const fn inbound_shape<H: Inbound>() -> Shape {
    assert!(
        !H::DUPLEX,
        "this handler handles what goes out as well: add it with `add_duplex` or `Handler::duplex`"
    );
    Shape {
        inbound: Some(in_kinds::<H>()),
        outbound: None,
        blocking: H::BLOCKING,
        type_name: type_name::<H>,
    }
}

impl<H: Inbound> Erased for In<H> {
    fn shape(&self) -> &'static Shape {
        const { &inbound_shape::<H>() }
    }

    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>) {
        read(&mut self.0, message, last, ctx);
    }

    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>) {
        inbound(&mut self.0, event, ctx);
    }

    fn own(&mut self, what: HandlerEvent, ctx: HandlerContext<'_>) {
        own(&mut self.0, what, ctx);
    }

    fn write(&mut self, _: Msg, _: Option<Promise<()>>, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn outbound(&mut self, _: OutOp, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }
}

impl<H: Outbound> Erased for Out<H> {
    fn shape(&self) -> &'static Shape {
        const {
            &Shape {
                inbound: None,
                outbound: Some(out_kinds::<H>()),
                blocking: H::BLOCKING,
                type_name: type_name::<H>,
            }
        }
    }

    fn read(&mut self, _: Msg, _: bool, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn inbound(&mut self, _: InEvent, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn own(&mut self, _: HandlerEvent, _: HandlerContext<'_>) {}

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>) {
        write(&mut self.0, message, promise, ctx);
    }

    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>) {
        outbound(&mut self.0, op, ctx);
    }
}

impl<H: Inbound + Outbound> Erased for Both<H> {
    fn shape(&self) -> &'static Shape {
        const {
            &Shape {
                inbound: Some(in_kinds::<H>()),
                outbound: Some(out_kinds::<H>()),
                blocking: wider(<H as Inbound>::BLOCKING, <H as Outbound>::BLOCKING),
                type_name: type_name::<H>,
            }
        }
    }

    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>) {
        read(&mut self.0, message, last, ctx);
    }

    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>) {
        inbound(&mut self.0, event, ctx);
    }

    fn own(&mut self, what: HandlerEvent, ctx: HandlerContext<'_>) {
        own(&mut self.0, what, ctx);
    }

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>) {
        write(&mut self.0, message, promise, ctx);
    }

    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>) {
        outbound(&mut self.0, op, ctx);
    }
}

#[inline]
fn read<H: Inbound>(handler: &mut H, message: Msg, last: bool, mut ctx: HandlerContext<'_>) {
    match message.cast::<H::In>() {
        Ok(message) => {
            let ctx = &mut InboundContext::new(ctx);
            handler.read(message, ctx);
            if last && ctx.completes() {
                handler.read_complete(ctx);
            }
        }
        Err(other) => ctx.misfit(&other, Kind::of::<H::In>()),
    }
}

fn inbound<H: Inbound>(handler: &mut H, event: InEvent, ctx: HandlerContext<'_>) {
    let ctx = &mut InboundContext::new(ctx);
    match event {
        InEvent::Active => handler.active(ctx),
        InEvent::Inactive => handler.inactive(ctx),
        InEvent::ReadComplete => handler.read_complete(ctx),
        InEvent::Writability(writable) => handler.writability(writable, ctx),
        InEvent::User(event) => handler.event(event, ctx),
        InEvent::Error(why) => handler.error(why, ctx),
    }
}

fn own<H: Inbound>(handler: &mut H, what: HandlerEvent, ctx: HandlerContext<'_>) {
    let ctx = &mut InboundContext::new(ctx);
    match what {
        HandlerEvent::Added => handler.added(ctx),
        HandlerEvent::Removed => handler.removed(ctx),
        HandlerEvent::Timer(key) => handler.timer(key, ctx),
        HandlerEvent::Deadline(key) => handler.deadline(key, ctx),
    }
}

fn write<H: Outbound>(
    handler: &mut H,
    message: Msg,
    promise: Option<Promise<()>>,
    mut ctx: HandlerContext<'_>,
) {
    match message.cast_written::<H::Take>() {
        Ok(message) => {
            ctx.set_promise(promise);
            handler.write(message, &mut OutboundContext::new(ctx));
        }
        Err(other) => match other.cast::<FileRange>() {
            Ok(range) => {
                ctx.set_promise(promise);
                handler.write_file(range, &mut OutboundContext::new(ctx));
            }
            Err(other) => {
                let why = ctx.misfit_cause(other.describe(), Kind::of::<H::Take>());
                ctx.refuse_write(other, promise, why);
            }
        },
    }
}

fn outbound<H: Outbound>(handler: &mut H, op: OutOp, ctx: HandlerContext<'_>) {
    let ctx = &mut OutboundContext::new(ctx);
    match op {
        OutOp::Flush => handler.flush(ctx),
        OutOp::Close => handler.close(ctx),
        OutOp::CloseWhenFlushed => handler.close_when_flushed(ctx),
        OutOp::ShutdownOutput => handler.shutdown_output(ctx),
        OutOp::Read => handler.read(ctx),
    }
}
