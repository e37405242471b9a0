//! The state of a channel for a dump.

use tidegate_core::Dump;

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::state::{Input, Life, Output, RequestedEnd, State};

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

fn life(state: &State) -> &'static str {
    match (&state.life, state.end) {
        (Life::New(_), _) => "new",
        (Life::Connecting(_), _) => "connecting",
        (Life::Open, RequestedEnd::None) => "open",
        (Life::Open, RequestedEnd::WhenFlushed | RequestedEnd::Now) => "closing",
        (Life::Off(_), _) => "off its loop",
        (Life::Closed, _) => "closed",
    }
}
