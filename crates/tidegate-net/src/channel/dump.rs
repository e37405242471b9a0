//! The state of a channel for a dump.

use tidegate_core::Dump;
use tidegate_core::internal::SignalBlock;

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::shared::Shared;
use super::state::{Input, Life, Output, RequestedEnd, State};
use crate::reactor::IoHandle;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Returns the state of the channel. Called by the thread that owns the channel.
    #[cold]
    pub(super) fn describe(&self, name: &str) -> Dump {
        let state = self.state();
        let input = match state.input {
            Input::Open => None,
            Input::HungUp => Some("hung up"),
            Input::Shut => Some("shut"),
        };
        let output = match state.output {
            Output::Open => None,
            Output::Ending => Some("ending"),
            Output::Shut => Some("shut"),
        };
        self.shared()
            .describe(name, life(state))
            .fact_if("input", input)
            .fact_if("output", output)
            .fact("handlers", self.pipeline.names().join(", "))
    }
}

impl Shared {
    /// Returns what any thread can read of the channel, for a dump.
    #[cold]
    fn describe(&self, name: &str, state: &'static str) -> Dump {
        Dump::new("connection", name)
            .fact("peer", self.peer().to_string())
            .fact("state", state)
            .fact("pending_bytes", self.pending())
            .fact("writable", self.is_writable())
    }
}

impl IoHandle for SignalBlock<Shared> {
    fn peer_name(&self) -> String {
        Shared::peer(self).to_string()
    }

    fn dump(&self, name: &str) -> Dump {
        self.describe(name, "in its handlers")
    }
}

fn life(state: &State) -> &'static str {
    match (&state.life, state.end) {
        (Life::New(_), _) => "new",
        (Life::Connecting(_), _) => "connecting",
        (Life::Open, RequestedEnd::None) => "open",
        (Life::Open, _) => "closing",
        (Life::Off(_), _) => "off its loop",
        (Life::Closed, _) => "closed",
    }
}
