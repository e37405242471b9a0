//! What a loop's own thread does, from its start to its end.

use std::sync::Arc;

use tidegate_core::{ClockMember, contain, run_exit_hooks};
use tidegate_pool::ShutdownError;

use crate::state::shared::Shared;

/// The job of a loop's thread: takes the core, drives it, puts it back or ends the loop.
pub(crate) fn run_thread(shared: &Arc<Shared>, mut member: ClockMember) {
    member.enter();
    loop {
        let Some(core) = shared.core.take() else {
            // Another thread drives it: the one before is still on its way out and will find
            // the loop started again.
            return;
        };
        let driven = contain(|| core.drive(shared));
        match driven {
            Ok(Some(core)) => {
                drop(shared.core.put(Box::new(core)));
            }
            Ok(None) => {
                run_exit_hooks();
                shared.announce_end();
                return;
            }
            Err(panic) => {
                // Not even its end could be had in order: what it held is gone.
                let message = panic.message().to_owned();
                shared.mailbox.lane.close();
                drop(shared.mailbox.signals.close());
                let handed_back = shared.termination.handed_back();
                shared.terminate(Err(ShutdownError::Panicked {
                    message,
                    handed_back,
                }));
                return;
            }
        }
        if !shared.suspend_or_drive_on() {
            return;
        }
    }
}
