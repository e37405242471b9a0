//! Asks for reloads on a thread of their own, and makes one of those that wait. That two changes never run at once
//! is the matter of [`turn`](super::turn).
//!
//! A reload reads files, and a disk may not respond. The thread that handles signals only asks for it:
//!
//! ```text
//!   SIGHUP, file change ──▶ one place ──▶ the thread of reloads ──▶ what it has to say
//!                           (full: the reload that waits will see the change)
//! ```

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use tidegate::ThreadBuilder;

/// Asks for reloads.
pub(super) struct Reloads(SyncSender<&'static str>);

impl Reloads {
    /// Starts the thread. It calls `reload` with the origin of each reload. It is not joined: one that
    /// waits for a disk ends with the process.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub(super) fn start(mut reload: impl FnMut(&str) + Send + 'static) -> io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let thread = ThreadBuilder::new("reload").detached();
        // A reload leaves its place before it begins: whatever changes from then on is for the next.
        thread.spawn(move || asked.into_iter().for_each(&mut reload))?;
        Ok(Self(ask))
    }

    /// Asks for a reload, and does not wait. If one has not begun yet, it is for both. Returns `false`
    /// if the thread has ended.
    pub(super) fn ask(&self, origin: &'static str) -> bool {
        !matches!(self.0.try_send(origin), Err(TrySendError::Disconnected(_)))
    }
}

#[cfg(test)]
mod tests {
    //! Reloads that the test holds.

    use std::sync::mpsc::channel;

    use super::Reloads;

    #[test]
    fn what_is_asked_for_during_a_reload_is_one_more() {
        let (begun, begins) = channel();
        let (go_on, told) = channel();
        let reloads = Reloads::start(move |origin| {
            begun.send(origin.to_owned()).unwrap();
            told.recv().unwrap();
        });
        let reloads = reloads.unwrap();
        assert!(reloads.ask("first"));
        assert_eq!(begins.recv().unwrap(), "first");
        for _ in 0..100 {
            assert!(reloads.ask("second"));
        }
        go_on.send(()).unwrap();
        assert_eq!(begins.recv().unwrap(), "second");
        assert!(reloads.ask("third"));
        go_on.send(()).unwrap();
        assert_eq!(begins.recv().unwrap(), "third");
        drop(reloads);
        go_on.send(()).unwrap();
        assert!(begins.recv().is_err(), "the thread has ended");
    }

    #[test]
    fn a_thread_that_has_ended_takes_nothing() {
        let (begun, begins) = channel::<()>();
        let reloads = Reloads::start(move |_| {
            let _in_use = &begun;
            panic!("a mistake in a reload");
        });
        let reloads = reloads.unwrap();
        assert!(reloads.ask("first"));
        assert!(begins.recv().is_err());
        tidegate_testkit::until("it is told", || !reloads.ask("second"));
    }
}
