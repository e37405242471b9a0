//! Placement of channels: on a pinned loop for good, or with a roaming one.

use std::io;
use std::sync::Arc;

use tidegate_core::internal::{PlainTask, SignalBlock};
use tidegate_core::{Rejected, Task};
use tidegate_loop::{EventLoop, Pinned, Placement};

use crate::awaited::Awaited;
use crate::channel::{ChannelCore, Home, Shared, Start, Transport};
use crate::pipeline::{Checked, Erased, Pipeline, PipelineState};
use crate::reactor::{self, IoSource, OnRegistered, RoamingShared, Update};
use crate::sys::Token;

/// A channel that is about to be placed on its loop.
pub struct ChannelPlacer {
    pub(crate) transport: Transport,
    pub(crate) parts: PipelineState,
    pub(crate) checked: Checked,
    pub(crate) start: Start,
}

impl std::fmt::Debug for ChannelPlacer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelPlacer").finish_non_exhaustive()
    }
}

/// A placement whose loops have channels: [`Pinned`] and, with the feature `roaming`,
/// [`Roaming`](tidegate_loop::Roaming).
pub trait ChannelPlacement: Placement {
    /// Creates a channel from `placer`. Runs as a task of the loop.
    #[doc(hidden)]
    fn place(placer: ChannelPlacer);
}

impl ChannelPlacement for Pinned {
    fn place(placer: ChannelPlacer) {
        let ChannelPlacer {
            transport,
            parts,
            checked,
            start,
        } = placer;
        let unwatched = Unwatched::of(&parts, &start);
        let pipeline = Pipeline::<dyn Erased>::new(parts, checked);
        let registered = reactor::register(|token| {
            Box::new(ChannelCore::new(transport, pipeline, start, token))
        });
        match registered {
            Ok(token) => reactor::begin(token),
            Err(why) => unwatched.report(&why),
        }
    }
}

/// A connection that its loop may be unable to watch. A connect then fails; for an accepted
/// connection only the hook for unhandled errors is notified.
pub(super) struct Unwatched(Option<Arc<SignalBlock<Shared>>>);

impl Unwatched {
    pub(super) fn of(parts: &PipelineState, start: &Start) -> Self {
        let accepted = matches!(start, Start::Open);
        Self(accepted.then(|| Arc::clone(&parts.io.shared)))
    }

    pub(super) fn report(&self, why: &io::Error) {
        if let Some(shared) = &self.0 {
            shared.report(&format_args!(
                "the connection was closed, its loop cannot watch it: {why}"
            ));
        }
    }
}

/// One loop of a group, as the target of new channels and sources.
pub(crate) struct LoopTarget<P: Placement> {
    pub(crate) home: EventLoop<P>,
    pub(crate) roam: Option<Arc<RoamingShared>>,
}

impl<P: Placement> LoopTarget<P> {
    pub(crate) fn of_channel(&self) -> Home {
        Home {
            executor: self.home.executor(),
            roam: self.roam.clone(),
        }
    }

    /// Runs `run` as a task of the loop that does not block. Returns the task if the loop refuses
    /// it.
    pub(crate) fn run(&self, run: impl FnOnce() + Send + 'static) -> Result<(), Rejected<Task>> {
        self.home.execute_task(PlainTask::non_blocking(run))
    }

    /// Registers a source that can move between threads, which any loop accepts.
    pub(crate) fn register<S: IoSource + Send + 'static>(
        &self,
        make: impl FnOnce(Token) -> Box<S> + Send + 'static,
        done: Awaited<()>,
    ) {
        let refusal = done.refusal();
        let registered = match self.roam.clone() {
            None => self.run(move || done.complete(reactor::register(make).map(drop))),
            Some(roam) => self.run(move || {
                let make = |token| -> Box<dyn IoSource + Send> { make(token) };
                let done: OnRegistered = Box::new(|registered| done.complete(registered));
                // A loop that has ended drops both.
                let _ = roam.push(Update::Register(Box::new(make), done));
            }),
        };
        if let Err(refused) = registered {
            refusal.by(refused);
        }
    }
}

impl<P: Placement> Clone for LoopTarget<P> {
    fn clone(&self) -> Self {
        Self {
            home: self.home.clone(),
            roam: self.roam.clone(),
        }
    }
}
