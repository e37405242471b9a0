//! Sources of the user's own on an event loop with I/O, and updates of its selector.
//!
//! An event loop with I/O selects descriptors that are ready. Channels are one kind of such
//! descriptors. This module is for the others: a timer of the operating system, a pipe to another
//! process, the descriptor of a library.
//!
//! A [`ReactorHandle`] registers a descriptor with its [`Interest`]s and an [`EventSource`]. The
//! loop calls the source when the descriptor is ready, and the source returns a task or nothing.
//! The steps of a loop are always in the same order:
//!
//! 1. It calls [`EventSource::selected`] for each source that is ready, and runs the task that the
//!    source returns before it selects the next one.
//! 2. It runs the updates that were submitted with [`ReactorHandle::update`], in their order.
//! 3. It calls [`EventSource::update_interests`] for the sources of step 1, and applies all changed
//!    interests.
//! 4. It waits.
//!
//! ```
//! use std::io::{Read, Write};
//! use tidegate_core::Task;
//! use tidegate_net::source::{Interest, SourceContext};
//!
//! let group = tidegate_net::pinned("io", 1)?;
//! let (reader, mut writer) = std::io::pipe()?;
//! let (sender, received) = std::sync::mpsc::channel();
//! let source = group.next_reactor().register("pipe", reader, Interest::READ, {
//!     move |at: &SourceContext<'_, std::io::PipeReader>| {
//!         let (pipe, sender) = (at.descriptor().clone(), sender.clone());
//!         Some(Task::non_blocking(move || {
//!             let mut byte = [0];
//!             if (&*pipe).read(&mut byte).is_ok() {
//!                 let _ = sender.send(byte[0]);
//!             }
//!         }))
//!     }
//! }).wait()?;
//! writer.write_all(&[7])?;
//! assert_eq!(received.recv()?, 7);
//! source.close().wait()?; // the descriptor is closed too
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

//   home, state            the loop as the home of completions; the state of one source that its
//                          handles and the loop share
//   event_source, handle   the trait; the handles of a source and of a reactor
//   inbox                  the notes of other threads to the loop; the task of a source
//   selector               what the loop's thread owns, and the steps above
//
// Depends on `events` and `sys`. The drivers of the `reactor` own a selector each, and give it a
// poller through `Control`.

mod event_source;
mod handle;
mod home;
mod inbox;
mod selector;
mod state;
#[cfg(test)]
mod tests;

pub use self::event_source::{EventSource, SourceContext};
pub use self::handle::{ReactorHandle, SourceHandle, SourceInfo};
pub(crate) use self::inbox::SharedInbox;
pub use self::selector::ReactorView;
pub(crate) use self::selector::{Control, Selector};
pub use crate::sys::Interest;
