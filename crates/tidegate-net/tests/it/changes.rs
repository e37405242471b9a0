//! Changes of a chain while messages are travelling through it.

use bytes::Bytes;
use tidegate_net::{
    EmbeddedChannel, Handler, Inbound, InboundContext, Nothing, Outbound, OutboundContext,
    PipelineBuilder, PipelineChange,
};
use tidegate_testkit::Log;

/// Puts its name in front of each written message.
struct Signs(&'static str);

impl Outbound for Signs {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write([self.0.as_bytes(), &bytes].concat());
    }
}

/// Writes `before`, changes the chain, and writes back what it read.
struct Changes<F>(F);

impl<F: Fn() -> PipelineChange + 'static> Inbound for Changes<F> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write("before ");
        ctx.change((self.0)()).unwrap();
        ctx.write(bytes);
        ctx.flush();
    }
}

fn answered(
    before: impl Fn(PipelineBuilder) -> PipelineBuilder,
    change: impl Fn() -> PipelineChange + 'static,
) -> (Bytes, Vec<String>) {
    let mut channel = EmbeddedChannel::new(|p| before(p).add("changes", Changes(change))).unwrap();
    channel.receive("after");
    (channel.sent(), channel.names())
}

#[test]
fn what_a_handler_writes_after_it_put_another_before_itself_passes_that_one() {
    let new = || Handler::outbound(Signs("new:"));
    let names = ["new", "changes"].map(str::to_owned).to_vec();
    for change in [
        (|| PipelineChange::add_first("new", Handler::outbound(Signs("new:"))))
            as fn() -> PipelineChange,
        || PipelineChange::add_before("changes", "new", Handler::outbound(Signs("new:"))),
    ] {
        let (sent, chain) = answered(|p| p, change);
        assert_eq!((sent, &chain), ("before new:after".into(), &names));
    }
    let (sent, chain) = answered(
        |p| p.add_outbound("old", Signs("old:")),
        move || PipelineChange::add_after("old", "new", new()),
    );
    assert_eq!(sent, "old:before old:new:after");
    assert_eq!(chain, ["old", "new", "changes"]);
}

#[test]
fn what_a_handler_writes_after_it_replaced_another_passes_the_new_one_alone() {
    let (sent, chain) = answered(
        |p| p.add_outbound("old", Signs("old:")),
        || PipelineChange::replace("old", "new", Handler::outbound(Signs("new:"))),
    );
    assert_eq!(sent, "old:before new:after");
    assert_eq!(chain, ["new", "changes"]);
    let (sent, chain) = answered(
        |p| p.add_outbound("old", Signs("old:")),
        || PipelineChange::remove("old"),
    );
    assert_eq!(sent, "old:before after");
    assert_eq!(chain, ["changes"]);
}

#[test]
fn a_handler_that_replaces_another_without_a_name_is_called_by_its_type() {
    let (_, chain) = answered(
        |p| p.add_outbound("old", Signs("old:")),
        || PipelineChange::replace("old", "", Handler::outbound(Signs("new:"))),
    );
    assert_eq!(chain, ["Signs#0", "changes"]);
}

#[test]
fn a_change_whose_closure_panics_fails_and_leaves_the_channel_alone() {
    let mut channel = EmbeddedChannel::new(|p| p.add_outbound("signs", Signs("s:"))).unwrap();
    let handle = channel.channel();
    let change = handle.change(|| panic!("no handler today"));
    let wrote = handle.write_with("still here");
    handle.flush();
    channel.run();
    let why = change.wait().unwrap_err().to_string();
    assert!(why.contains("no handler today"), "{why}");
    wrote.wait().unwrap();
    assert_eq!(channel.sent(), "s:still here");
    assert_eq!(channel.names(), ["signs"]);
}

/// Logs its name at each flush.
struct LogsFlush(&'static str, Log<&'static str>);

impl Outbound for LogsFlush {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.1.push(self.0);
        ctx.flush();
    }
}

/// Changes the chain, and flushes what it read with a completion.
struct ChangesAndFlushes<F>(F, Log<&'static str>);

impl<F: Fn() -> Vec<PipelineChange> + 'static> Inbound for ChangesAndFlushes<F> {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        for change in (self.0)() {
            ctx.change(change).unwrap();
        }
        ctx.write(bytes);
        let log = self.1.clone();
        let flushed = ctx.flush_with();
        flushed.finally(move |outcome| {
            log.push(if outcome.is_success() {
                "sent"
            } else {
                "failed"
            })
        });
    }
}

/// Returns the handlers that the flush passed.
fn flushed(
    before: impl Fn(PipelineBuilder, &Log<&'static str>) -> PipelineBuilder,
    change: impl Fn(&Log<&'static str>) -> Vec<PipelineChange> + 'static,
) -> Vec<&'static str> {
    let (log, own) = Log::pair();
    let changes = move || change(&own);
    let build = |p| {
        let changes = ChangesAndFlushes(changes, log.clone());
        let behind = LogsFlush("behind", log.clone());
        let p = before(p, &log).add("changes", changes);
        p.add_outbound("behind", behind)
    };
    let mut channel = EmbeddedChannel::new(build).unwrap();
    channel.receive("text");
    assert_eq!(channel.sent(), "text");
    log.take()
}

#[test]
fn a_flush_with_a_completion_passes_each_handler_that_is_now_before_it_and_no_other() {
    let old =
        |p: PipelineBuilder, log: &Log<_>| p.add_outbound("old", LogsFlush("old", log.clone()));
    let add = |log: &Log<_>| {
        let new = LogsFlush("new", log.clone());
        vec![PipelineChange::add_first("new", Handler::outbound(new))]
    };
    assert_eq!(flushed(old, add), ["old", "new", "sent"]);
    let two = |p: PipelineBuilder, log: &Log<_>| {
        p.add_outbound("one", LogsFlush("one", log.clone()))
            .add_outbound("two", LogsFlush("two", log.clone()))
    };
    let remove = |_: &Log<_>| Vec::from(["one", "two"].map(PipelineChange::remove));
    assert_eq!(flushed(two, remove), ["sent"]);
}
