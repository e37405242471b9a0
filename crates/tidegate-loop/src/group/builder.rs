//! The builder of a group.

use std::io;
use std::sync::Arc;

use tidegate_core::internal::usable_cpus;
use tidegate_core::{Clock, OnUnhandled, ThreadBuilder, Unhandled};

use super::active::ActiveLoops;
use super::chooser::{Choose, Chooser};
use super::event_loop_group::EventLoopGroup;
use super::scaler::Scaler;
use super::scaling::Scaling;
use crate::core::budget::TurnBudget;
use crate::core::driver::{Driver, ParkDriver};
use crate::errors::BuildError;
use crate::handle::builder::EventLoopBuilder;
use crate::handle::event_loop::EventLoop;
use crate::handle::manual::ManualLoop;
use crate::handle::placement::Placement;
use crate::submit::reject::RejectPolicy;

/// A builder for an [`EventLoopGroup`].
///
/// ```
/// use tidegate_loop::{Choose, EventLoopGroup};
///
/// let group = EventLoopGroup::builder("io").loops(3).choose(Choose::LessBusy).build()?;
/// assert_eq!(group.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventLoopGroupBuilder {
    proto: EventLoopBuilder,
    loops: usize,
    choose: Choose,
    scaling: Option<Scaling>,
}

impl EventLoopGroup {
    /// The maximum number of event loops in a group.
    pub const MAX_LOOPS: usize = 4096;

    /// Creates a builder for a group whose event loops are called `name-0`, `name-1` and so on.
    pub fn builder(name: impl Into<String>) -> EventLoopGroupBuilder {
        EventLoopGroupBuilder {
            proto: EventLoop::builder(name),
            loops: 0,
            choose: Choose::default(),
            scaling: None,
        }
    }
}

impl EventLoopGroupBuilder {
    /// Sets the number of event loops; 0 means twice the number of processors.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = loops;
        self
    }

    /// Sets how the next event loop is chosen.
    pub fn choose(mut self, how: Choose) -> Self {
        self.choose = how;
        self
    }

    /// Makes the number of active event loops follow the load.
    pub fn scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = Some(scaling);
        self
    }

    /// See [`EventLoopBuilder::clock`].
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.proto = self.proto.clock(clock);
        self
    }

    /// See [`EventLoopBuilder::bound`]; the bound applies to each event loop.
    pub fn bound(mut self, tasks: usize) -> Self {
        self.proto = self.proto.bound(tasks);
        self
    }

    /// See [`EventLoopBuilder::reject`].
    pub fn reject(mut self, policy: RejectPolicy) -> Self {
        self.proto = self.proto.reject(policy);
        self
    }

    /// See [`EventLoopBuilder::threads`]; the threads are numbered in the order of their start.
    /// Without this, each thread has the name of its event loop with two numbers behind it.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.proto = self.proto.threads(threads);
        self
    }

    /// See [`EventLoopBuilder::on_unhandled`]; one hook for the whole group.
    pub fn on_unhandled(
        mut self,
        hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.proto = self.proto.on_unhandled(hook);
        self
    }

    /// See [`EventLoopBuilder::report_to`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.proto = self.proto.report_to(hook);
        self
    }

    /// See [`EventLoopBuilder::time_tasks`].
    pub fn time_tasks(mut self, yes: bool) -> Self {
        self.proto = self.proto.time_tasks(yes);
        self
    }

    /// See [`EventLoopBuilder::turn_budget`].
    pub fn turn_budget(mut self, budget: TurnBudget) -> Self {
        self.proto = self.proto.turn_budget(budget);
        self
    }

    /// Builds the group.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings contradict each other.
    pub fn build(self) -> Result<EventLoopGroup, BuildError> {
        self.build_with_driver(|_| Ok(ParkDriver::new()))
    }

    /// Builds the group, with a driver for each event loop: `driver` gets the event loop's number.
    /// If a driver cannot be created, the event loops built before are shut down and no group is
    /// returned.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build`], and [`BuildError::Driver`].
    #[doc(hidden)]
    pub fn build_with_driver<D: Driver>(
        self,
        mut driver: impl FnMut(usize) -> io::Result<D>,
    ) -> Result<EventLoopGroup, BuildError> {
        self.build_each(&mut |one, at| {
            one.build_with_driver(driver(at).map_err(BuildError::Driver)?)
        })
    }

    /// Builds a group of one event loop that its owner drives; see
    /// [`EventLoopBuilder::build_manual`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build_with_driver`].
    #[doc(hidden)]
    pub fn build_manual_with_driver<D: Driver>(
        self,
        mut driver: impl FnMut(usize) -> io::Result<D>,
    ) -> Result<(EventLoopGroup, ManualLoop), BuildError> {
        let mut hand = None;
        let group = self.loops(1).build_each(&mut |one, at| {
            let driver = driver(at).map_err(BuildError::Driver)?;
            let (home, manual_loop) = one.build_manual_with_driver(driver)?;
            hand = Some(manual_loop);
            Ok(home)
        })?;
        let hand = hand.expect("one event loop was built");
        Ok((group, hand))
    }

    /// Builds each event loop with `build`, which gets its settings and its number.
    pub(crate) fn build_each<P: Placement>(
        self,
        build: &mut dyn FnMut(EventLoopBuilder, usize) -> Result<EventLoop<P>, BuildError>,
    ) -> Result<EventLoopGroup<P>, BuildError> {
        let Self {
            proto,
            loops,
            choose,
            mut scaling,
        } = self;
        let count = if loops == 0 { default_loops() } else { loops };
        if count > EventLoopGroup::MAX_LOOPS {
            return Err(BuildError::TooManyLoops {
                asked: count,
                most: EventLoopGroup::MAX_LOOPS,
            });
        }
        if let Some(scaling) = &mut scaling {
            scaling.check(count)?;
        }
        // On an early return, dropping the event loops built so far shuts them down.
        let mut made = Vec::with_capacity(count);
        for at in 0..count {
            made.push(build(proto.numbered(at), at)?);
        }
        let loops: Arc<[EventLoop<P>]> = made.into();
        let active = ActiveLoops::all(count);
        let watched = loops
            .iter()
            .map(|one| Arc::downgrade(&one.shared))
            .collect();
        let scaler = scaling.map(|scaling| Scaler::start(scaling, watched, active.clone()));
        let scaler = scaler.transpose().map_err(BuildError::Driver)?;
        let chooser = Chooser::new(choose);
        Ok(EventLoopGroup::new(
            proto.name, loops, active, chooser, scaler,
        ))
    }
}

/// Returns twice the number of processors.
fn default_loops() -> usize {
    (2 * usable_cpus()).clamp(1, EventLoopGroup::MAX_LOOPS)
}
