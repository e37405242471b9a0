//! One channel: reading, writing, water marks, ends, and its handle.

mod conversions;
mod ends;
mod handle;
mod reading;
mod refused;
mod water_marks;
mod write_methods;
mod writing;

use bytes::Bytes;
use tidegate_net::{
    ChannelOptions, EmbeddedChannel, Inbound, InboundContext, InputShutdown, Nothing, UserEvent,
};
use tidegate_promise::Failure;
use tidegate_testkit::Log;

/// Logs its events.
struct LogEvents(Log<String>);

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("read {}", bytes.len()));
    }

    fn read_complete(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("complete".to_owned());
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push("inactive".to_owned());
    }

    fn writability(&mut self, writable: bool, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("writable {writable}"));
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_some() {
            self.0.push("input shut".to_owned());
        }
    }

    fn error(&mut self, why: Failure, _ctx: &mut InboundContext<'_, Self>) {
        self.0.push(format!("error {why}"));
    }
}

fn notes(options: ChannelOptions) -> (EmbeddedChannel, Log<String>) {
    let (log, own) = Log::pair();
    let channel =
        EmbeddedChannel::with_options(options, |p| p.add("notes", LogEvents(own))).unwrap();
    (channel, log)
}
