//! Builds roaming event loops and groups of them.

use std::io;

use super::config::RoamingConfig;
use crate::core::driver::{Driver, ParkDriver};
use crate::errors::BuildError;
use crate::group::builder::EventLoopGroupBuilder;
use crate::group::event_loop_group::EventLoopGroup;
use crate::handle::builder::EventLoopBuilder;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Roaming;

impl EventLoopBuilder {
    /// Builds a roaming event loop that a strategy drives on the threads of `config`. While a task
    /// that may block runs, another thread continues with the event loop. Timers, listeners,
    /// futures and tasks made with [`Task::non_blocking`](tidegate_core::Task::non_blocking) run on
    /// the event loop itself, one at a time, and a blocking wait inside them is refused.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build`], and [`BuildError::NoThreads`] if the pool has no thread
    /// that the event loop can keep.
    pub fn build_roaming(self, config: &RoamingConfig) -> Result<EventLoop<Roaming>, BuildError> {
        self.build_roaming_with_driver(ParkDriver::new(), config)
    }

    /// [`EventLoopBuilder::build_roaming`] with a `driver`.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build_roaming`].
    #[doc(hidden)]
    pub fn build_roaming_with_driver<D: Driver>(
        self,
        driver: D,
        config: &RoamingConfig,
    ) -> Result<EventLoop<Roaming>, BuildError> {
        let (shared, core) = self.parts::<Roaming, D>(driver, true)?;
        drop(shared.core.put(Box::new(core)));
        config.drive(&shared)?;
        Ok(EventLoop::from_shared(shared))
    }
}

impl EventLoopGroupBuilder {
    /// Builds a group of roaming event loops, which strategies drive on the threads of `config`;
    /// see [`EventLoopBuilder::build_roaming`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build`], and [`BuildError::NoThreads`].
    pub fn build_roaming(
        self,
        config: &RoamingConfig,
    ) -> Result<EventLoopGroup<Roaming>, BuildError> {
        self.build_roaming_with_driver(|_| Ok(ParkDriver::new()), config)
    }

    /// [`EventLoopGroupBuilder::build_roaming`] with a driver for each event loop.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build_roaming`], and [`BuildError::Driver`].
    #[doc(hidden)]
    pub fn build_roaming_with_driver<D: Driver>(
        self,
        mut driver: impl FnMut(usize) -> io::Result<D>,
        config: &RoamingConfig,
    ) -> Result<EventLoopGroup<Roaming>, BuildError> {
        self.build_each(&mut |one, at| {
            let driver = driver(at).map_err(BuildError::Driver)?;
            one.build_roaming_with_driver(driver, config)
        })
    }
}
