//! Pipelines: order, types, panics, changes.

mod changes;
mod order;
mod panics;
mod types;

use tidegate_net::{
    AnyMessage, EmbeddedChannel, Inbound, InboundContext, Nothing, Outbound, OutboundContext,
    PipelineBuilder, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

use crate::acts::Acts;

type Names = Log<String>;

/// Logs everything that passes in both directions.
struct Note {
    name: &'static str,
    log: Names,
}

fn note(name: &'static str, log: &Names) -> Note {
    Note {
        name,
        log: log.clone(),
    }
}

impl Note {
    fn log(&self, what: &str) {
        self.log.push(format!("{} {what}", self.name));
    }
}

impl Inbound for Note {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;

    fn added(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.log("added");
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.log("removed");
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("active");
        ctx.fire_active();
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("inactive");
        ctx.fire_inactive();
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        self.log("read");
        ctx.fire_read(message);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        self.log("event");
        ctx.fire_event(event);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.log(&format!("error: {why}"));
        ctx.fire_error(why);
    }
}

impl Outbound for Note {
    type Take = AnyMessage;
    type Write = AnyMessage;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        self.log("write");
        ctx.write(message);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.log("flush");
        ctx.flush();
    }
}

fn embedded(assemble: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> EmbeddedChannel {
    EmbeddedChannel::new(assemble).unwrap()
}

/// Writes each message to the peer and passes it on to the next handler.
fn twice() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.fire_read(bytes.clone());
        ctx.write(format!("[{}]", String::from_utf8_lossy(&bytes)));
        ctx.fire_read(bytes);
    })
}
