//! User-defined sources that a loop watches.

use std::fmt;

use tidegate_promise::{Completion, promise};

use super::net_group::NetGroup;
use super::placement::ChannelPlacement;
use crate::awaited::Awaited;
use crate::reactor::{Batched, EventSource, IoContext, Next};
use crate::sys::{Readiness, Source};

/// What happens to a watched source after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchAction {
    /// The loop continues to watch it.
    Watching,
    /// The same event is delivered once more, after the other sources: there is more to do.
    Again,
    /// The loop drops it.
    Done,
}

impl<P: ChannelPlacement> NetGroup<P> {
    /// Watches a source of the caller on the next loop: a socket with options that channels do not
    /// have, a pipe, a timer of the operating system. The completion succeeds when the source is
    /// watched, and fails with the error of the poller. It cannot be cancelled.
    ///
    /// `hear` is called with the source and its readiness. Each change is reported once, so `hear`
    /// continues until the source would block, or returns [`WatchAction::Again`]. When `hear` returns
    /// [`WatchAction::Done`] or panics, and at the end of the loop, the source is dropped, which has to
    /// close it.
    ///
    /// # Threads
    ///
    /// `hear` runs on the loop, must not block, and need not be `Sync`.
    ///
    /// ```
    /// use tidegate_net::WatchAction;
    /// use tidegate_net::sys::Readiness;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let (mut far, near) = std::os::unix::net::UnixStream::pair()?;
    /// near.set_nonblocking(true)?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let near = mio::net::UnixStream::from_std(near);
    /// group.watch(near, move |near, readiness| {
    ///     let mut byte = [0];
    ///     if readiness.has(Readiness::READ) && std::io::Read::read(near, &mut byte).is_ok() {
    ///         tell.send(byte[0]).expect("somebody waits");
    ///         return WatchAction::Done;
    ///     }
    ///     WatchAction::Watching
    /// }).wait()?;
    /// std::io::Write::write_all(&mut far, &[7])?;
    /// assert_eq!(told.recv()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch<S, F>(&self, source: S, hear: F) -> Completion<()>
    where
        S: Source + Send + 'static,
        F: FnMut(&mut S, Readiness) -> WatchAction + Send + 'static,
    {
        let (promise, done) = promise();
        // Only `hear` can end the watch, not the caller.
        promise.set_uncancellable();
        let home = self.pick();
        let what = "cannot watch a source".to_owned();
        let promise = Awaited::new(promise, what, home.home.executor());
        home.register(|_| Box::new(Watched { source, hear }), promise);
        done
    }
}

/// A user-defined source and its callback.
struct Watched<S, F> {
    source: S,
    hear: F,
}

impl<S, F> Batched for Watched<S, F> {}

impl<S, F> EventSource for Watched<S, F>
where
    S: Source,
    F: FnMut(&mut S, Readiness) -> WatchAction,
{
    fn ready(&mut self, readiness: Readiness, _desk: &mut IoContext) -> Next {
        if readiness == Readiness::MAIL {
            // It has no queued requests; a roaming loop starts every source this way.
            return Next::Stay;
        }
        match (self.hear)(&mut self.source, readiness) {
            WatchAction::Watching => Next::Stay,
            WatchAction::Again => Next::Again(readiness),
            WatchAction::Done => Next::Leave,
        }
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        Some(&mut self.source)
    }

    fn close(&mut self, _desk: &mut IoContext) {}
}

impl<S, F> fmt::Debug for Watched<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}
