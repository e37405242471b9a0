//! Message types: a chain with handlers that do not fit is refused, and the error names them.

use bytes::Bytes;
use tidegate_net::handlers::Strings;
use tidegate_net::{
    EmbeddedChannel, Inbound, InboundContext, Nothing, PipelineBuilder, PipelineError,
};
use tidegate_testkit::has;

use super::{Names, embedded, note, twice};
use crate::Echo;

#[test]
fn handlers_that_do_not_fit_are_refused_naming_both() {
    let misfit = |assemble: fn(PipelineBuilder) -> PipelineBuilder| {
        EmbeddedChannel::new(assemble).unwrap_err()
    };
    let why = misfit(|p| p.add_duplex("text", Strings::utf8()).add("echo", Echo));
    let parts = [
        "`text` passes on alloc::string::String",
        "`echo` takes bytes::bytes::Bytes",
    ];
    has(why.to_string(), parts);
    let why = misfit(|p| {
        p.add_duplex("text", Strings::utf8())
            .add("out", WritesBytes)
    });
    let part = "`out` writes bytes::bytes::Bytes, but `text` takes";
    has(why.to_string(), [part]);
    let why = misfit(|p| p.add("echo", Echo).add("late", twice()));
    assert!(why.to_string().contains("Nothing"), "{why}");
    let why = misfit(|p| p.add("echo", Echo).add("echo", Echo));
    assert_eq!(
        why,
        PipelineError::DuplicateName {
            name: "echo".to_owned()
        }
    );
}

/// Takes text and writes bytes.
struct WritesBytes;

impl Inbound for WritesBytes {
    type In = String;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, text: String, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(text);
    }
}

#[test]
fn a_handler_without_a_name_is_called_by_its_type_and_a_number() {
    let log = Names::new();
    let mut channel = embedded(|p| {
        p.add_duplex("", note("a", &log))
            .add_duplex("", note("b", &log))
            .add("", Echo)
    });
    assert_eq!(channel.names(), ["Note#0", "Note#1", "Echo#0"]);
}

#[test]
fn a_message_that_no_outbound_handler_accepts_fails_with_the_name_of_the_sender() {
    let mut channel = embedded(|p| p.add_duplex("text", Strings::utf8()));
    let sent = channel.channel().write_with(bytes::Bytes::from("bytes"));
    channel.channel().flush();
    channel.run();
    let why = sent.wait().unwrap_err().to_string();
    has(&why, ["`text` takes alloc::string::String, and got bytes"]);
}
