//! User-defined sources that a loop watches.

use std::fmt;
use std::io;

use tidegate_core::Dump;
use tidegate_core::internal::contain;
use tidegate_promise::{Completion, promise};

use super::net_group::NetGroup;
use super::placement::ChannelPlacement;
use crate::awaited::Awaited;
use crate::reactor::{Batched, IoContext, IoSource, Next};
use crate::sys::{AsFd, Pollable, Readiness, Source, pollable};

/// What happens to a watched source after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchAction {
    /// The loop continues to watch it.
    Continue,
    /// The same event is delivered once more, after the other sources: there is more to do.
    Again,
    /// The loop drops it.
    Stop,
}

impl<P: ChannelPlacement> NetGroup<P> {
    /// Watches a source of the caller on the next loop: a socket with options that channels do not
    /// have, a pipe, a timer of the operating system. The completion succeeds when the source is
    /// watched, and fails with the error of the poller. It cannot be cancelled.
    ///
    /// A `ReactorHandle` (feature `sources`) does more: it registers a source with
    /// interests, with tasks that may block, and with a handle.
    ///
    /// The source must be non-blocking. `on_ready` is called with the source and its readiness.
    /// Each change is reported once, so `on_ready` continues until the source would block, or
    /// returns [`WatchAction::Again`]. When `on_ready` returns [`WatchAction::Stop`] or panics, and
    /// at the end of the loop, the source is dropped, which has to close it.
    ///
    /// # Threads
    ///
    /// `on_ready` runs on the loop, must not block, and need not be `Sync`.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use tidegate_net::WatchAction;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let (mut far, near) = UnixStream::pair()?;
    /// near.set_nonblocking(true)?;
    /// let (sender, received) = std::sync::mpsc::channel();
    /// group.watch(near, move |near, readiness| {
    ///     let mut byte = [0];
    ///     if readiness.is_readable() && near.read(&mut byte).is_ok() {
    ///         let _ = sender.send(byte[0]);
    ///         return WatchAction::Stop;
    ///     }
    ///     WatchAction::Continue
    /// }).wait()?;
    /// far.write_all(&[7])?;
    /// assert_eq!(received.recv()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch<S, F>(&self, source: S, on_ready: F) -> Completion<()>
    where
        S: AsFd + Send + 'static,
        F: FnMut(&mut S, Readiness) -> WatchAction + Send + 'static,
    {
        let (promise, done) = promise();
        // Only `on_ready` can end the watch, not the caller.
        promise.set_uncancellable();
        let home = self.pick();
        let what = "cannot watch a source".to_owned();
        let promise = Awaited::new(promise, what, home.home.executor());
        let source = Descriptor(source);
        home.register(|_| Box::new(Watched { source, on_ready }), promise);
        done
    }
}

/// A user-defined source and its callback.
struct Watched<S, F> {
    source: Descriptor<S>,
    on_ready: F,
}

/// A user-defined source, as a poller takes it.
struct Descriptor<S>(S);

impl<S: AsFd> Source for Descriptor<S> {
    /// Returns the descriptor of the source. Its `as_fd` is the user's code and may panic.
    fn pollable(&mut self) -> io::Result<Pollable<'_>> {
        contain(|| pollable(&self.0))
            .map_err(|panic| io::Error::other(format!("its `as_fd` panicked: {}", panic.message())))
    }
}

impl<S, F> Batched for Watched<S, F> {}

impl<S, F> IoSource for Watched<S, F>
where
    S: AsFd,
    F: FnMut(&mut S, Readiness) -> WatchAction,
{
    fn ready(&mut self, readiness: Readiness, _io_context: &mut IoContext) -> Next {
        if readiness == Readiness::REQUESTS {
            // It has no queued requests; a roaming loop starts every source this way.
            return Next::Stay;
        }
        match (self.on_ready)(&mut self.source.0, readiness) {
            WatchAction::Continue => Next::Stay,
            WatchAction::Again => Next::Again(readiness),
            WatchAction::Stop => Next::Leave,
        }
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        Some(&mut self.source)
    }

    fn close(&mut self, _io_context: &mut IoContext) {}

    fn dump(&self, name: &str) -> Dump {
        Dump::new("source", name).fact("watches", std::any::type_name::<S>())
    }
}

impl<S, F> fmt::Debug for Watched<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}
