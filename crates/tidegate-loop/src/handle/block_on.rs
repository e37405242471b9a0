//! `block_on`: runs a future on the calling thread, which drives an event loop meanwhile.

use std::future::Future;
use std::mem;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_promise::internal::as_outermost;

use super::builder::EventLoopBuilder;
use super::event_loop::EventLoop;
use super::manual::ManualLoop;
use crate::errors::BlockOnError;
use crate::spawn::root::Root;
use crate::state::lifecycle::Lifecycle;
use crate::thread::local;

/// Runs `future` on the calling thread until it is ready, and returns its output.
///
/// The calling thread drives an event loop meanwhile, so [`sleep`](crate::sleep()),
/// [`timeout`](crate::timeout()) and [`EventLoop::current`] work inside the future, and
/// [`EventLoop::spawn_local`] runs other futures beside it. The future need be neither `Send` nor
/// `'static`. Like all code on an event loop it must not block: a blocking wait inside it is an
/// error value. `tidegate::block_on` and [`EventLoopBuilder::block_on`] do the same with I/O and
/// with other settings.
///
/// A thread of a pool may call it, like every thread that may block. The pool lacks that thread
/// meanwhile, so the future must not wait for a task that needs it. The same holds for a worker of
/// another runtime: tasks of that runtime which only this worker can run do not go on meanwhile.
///
/// When the future is ready, the event loop shuts down before this function returns. Tasks that
/// were submitted to it still run, for at most one second. Futures that were spawned on it and are
/// not ready are dropped, their completions are cancelled, and so are its timers. To keep them,
/// await their completions in `future`. A panic of the future resumes in the caller after that
/// shutdown.
///
/// # Errors
///
/// [`BlockOnError`] on the thread of an event loop, inside another `block_on`, and if the event
/// loop was shut down before the future was ready. Nothing blocks in these cases.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{block_on, sleep};
///
/// let text = String::from("hello");
/// let length = block_on(async {
///     sleep(Duration::from_millis(1)).await.expect("on a loop");
///     text.len()
/// })?;
/// assert_eq!(length, 5);
/// # Ok::<(), tidegate_loop::BlockOnError>(())
/// ```
pub fn block_on<F: Future>(future: F) -> Result<F::Output, BlockOnError> {
    EventLoop::builder("block_on").block_on(future)
}

impl EventLoopBuilder {
    /// Builds the event loop and runs `future` on it, on the calling thread; see
    /// [`block_on`](crate::block_on()).
    ///
    /// # Errors
    ///
    /// As for [`block_on`](crate::block_on()), and [`BlockOnError::Build`] if the settings
    /// contradict each other.
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let name = EventLoop::builder("main").block_on(async {
    ///     EventLoop::current().map(|here| here.name().to_owned())
    /// })?;
    /// assert_eq!(name.as_deref(), Some("main"));
    /// # Ok::<(), tidegate_loop::BlockOnError>(())
    /// ```
    pub fn block_on<F: Future>(self, future: F) -> Result<F::Output, BlockOnError> {
        check_block_on()?;
        let (home, hand) = self.build_manual()?;
        let output = hand.block_on(future);
        drop(home);
        output
    }
}

impl ManualLoop {
    /// Runs `future` on the event loop, on the calling thread, until the future is ready; then
    /// shuts the event loop down. Unlike the turns of [`ManualLoop::turn`], the event loop sleeps
    /// when there is no work. See [`block_on`](crate::block_on()).
    ///
    /// # Errors
    ///
    /// As for [`block_on`](crate::block_on()).
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let (home, hand) = EventLoop::builder("home").build_manual()?;
    /// let answer = home.submit(|| 7)?;
    /// assert_eq!(hand.block_on(answer)??, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block_on<F: Future>(mut self, future: F) -> Result<F::Output, BlockOnError> {
        check_block_on()?;
        if self.shared.state.get() == Lifecycle::Terminated {
            return Err(BlockOnError::Shutdown);
        }
        let member = self.shared.clock.join_here();
        self.shared.ensure_thread();
        let shared = self.shared.clone();
        let mut root = Root::new(&shared, future);
        let mut pinned = mem::take(&mut self.pinned);
        // Maybe inside a listener, which cannot return before the future is ready.
        as_outermost(|| self.core.drive_root(&shared, &mut pinned, &mut root));
        shared.announce_end();
        drop(member);
        match root.into_output() {
            Some(Ok(output)) => Ok(output),
            Some(Err(panic)) => panic.resume(),
            None => Err(BlockOnError::Shutdown),
        }
    }
}

/// Returns an error if `block_on` must not run on the calling thread.
///
/// # Errors
///
/// [`BlockOnError::OnLoop`] and [`BlockOnError::Forbidden`].
pub fn check_block_on() -> Result<(), BlockOnError> {
    if let Some(shared) = local::current() {
        let name = shared.name.clone();
        return Err(BlockOnError::OnLoop { name });
    }
    match wait_policy() {
        WaitPolicy::Free => Ok(()),
        WaitPolicy::Loop | WaitPolicy::Tagged => Err(BlockOnError::Forbidden),
    }
}
