//! The dumps of event loops and groups, as users ask for them.

use std::time::Duration;

use tidegate_core::Dump;
use tidegate_core::executor::is_current;
use tidegate_promise::{Completion, WaitError};

use crate::group::event_loop_group::EventLoopGroup;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;
use crate::state::shared::Shared;

impl<P: Placement> EventLoop<P> {
    /// Returns the state of the event loop as a tree: its thread, the task that it runs, its queue,
    /// its strategy if it roams, and its reactor if it has I/O.
    ///
    /// The event loop is not asked, so this also works while it is stuck in a task. Lists that only
    /// its thread can read, such as the connections, are missing unless this is called on that
    /// thread; [`EventLoop::dump_within`] and [`EventLoop::dump_async`] have them.
    ///
    /// `runs` is the task or other work that runs now. `for_at_most` is the time since the event
    /// loop last read its clock, which it does in every turn and every 64 tasks.
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let home = EventLoop::builder("home").build()?;
    /// home.submit(|| ())?.wait()?;
    /// let dump = home.dump();
    /// assert_eq!(dump.get("state").and_then(|state| state.as_text()), Some("started"));
    /// println!("{dump}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Threads
    ///
    /// Can be called from any thread, also from a task of this event loop. Never waits.
    pub fn dump(&self) -> Dump {
        self.shared.describe(None)
    }

    /// Asks the event loop for a dump that includes what only its thread can read. The event loop
    /// shortens its turn and answers between two turns, however many tasks wait, also while it shuts
    /// down. If it has no thread or has terminated, the completion succeeds at once. It never fails,
    /// but an event loop that is stuck in a task does not answer before that task ends.
    pub fn dump_async(&self) -> Completion<Dump> {
        self.shared.ask_for_dump()
    }

    /// Returns the answer of [`EventLoop::dump_async`], or [`EventLoop::dump`] with the fact
    /// `not_listed` if the event loop does not answer within `timeout` on its clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_loop::EventLoop;
    ///
    /// let home = EventLoop::builder("home").build()?;
    /// home.submit(|| ())?.wait()?;
    /// let dump = home.dump_within(Duration::from_secs(1));
    /// assert!(dump.get("not_listed").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Threads
    ///
    /// Blocks the calling thread. On a thread that must not block, such as that of an event loop,
    /// it does not wait.
    pub fn dump_within(&self, timeout: Duration) -> Dump {
        await_dump(&self.shared, self.dump_async(), timeout, timeout)
    }
}

impl<P: Placement> EventLoopGroup<P> {
    /// Returns the state of the group as a tree, with [`EventLoop::dump`] of each event loop.
    pub fn dump(&self) -> Dump {
        self.describe(self.iter().map(EventLoop::dump))
    }

    /// Returns the state of the group as a tree, with [`EventLoop::dump_within`] of each event
    /// loop. All of them are asked at once, and `timeout` is the limit for all of them together:
    /// those that are stuck are marked with the fact `not_listed`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_loop::EventLoopGroup;
    ///
    /// let group = EventLoopGroup::builder("io").loops(2).build()?;
    /// group.submit(|| ())?.wait()?;
    /// let dump = group.dump_within(Duration::from_secs(1));
    /// assert_eq!(dump.find("loops").unwrap().total(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Threads
    ///
    /// As for [`EventLoop::dump_within`].
    pub fn dump_within(&self, timeout: Duration) -> Dump {
        let listed = || self.iter().take(Dump::MAX_CHILDREN);
        let asked: Vec<_> = listed().map(EventLoop::dump_async).collect();
        let clock = self.iter().next().map(EventLoop::clock).cloned();
        let clock = clock.unwrap_or_default();
        let deadline = clock.deadline(timeout);
        let dumps = listed().zip(asked).map(|(one, dump)| {
            let left = Duration::from_nanos(deadline.saturating_sub(clock.nanos()));
            await_dump(&one.shared, dump, left.min(timeout), timeout)
        });
        self.describe(dumps)
    }

    fn describe(&self, loops: impl Iterator<Item = Dump>) -> Dump {
        let first = self.iter().next().map_or("", EventLoop::name);
        Dump::new("group", first.strip_suffix("-0").unwrap_or(first))
            .fact("active", self.active_count())
            .list("loops", self.len(), loops)
    }
}

/// Waits for an answer for the time that is `left` of `timeout`.
fn await_dump(
    shared: &Shared,
    mut dump: Completion<Dump>,
    left: Duration,
    timeout: Duration,
) -> Dump {
    let why = match dump.wait_timeout(left) {
        Ok(dump) => return dump,
        Err(WaitError::Refused(_)) if is_current(shared.id) => {
            "this thread is the loop's; what its driver owns is listed between two tasks".to_owned()
        }
        Err(WaitError::Refused(why)) => why.to_string(),
        Err(_) => shared.why_silent(timeout),
    };
    shared.describe(None).fact("not_listed", why)
}
