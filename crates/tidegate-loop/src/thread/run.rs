//! The main function of an event loop's own thread.

use std::sync::Arc;

use tidegate_core::internal::{ClockMember, contain, run_exit_hooks};
use tidegate_pool::ShutdownError;

use crate::state::shared::Shared;

/// Takes the core and drives it. Afterwards puts the core back, or ends the event loop.
pub(crate) fn run_thread(shared: &Arc<Shared>, mut member: ClockMember) {
    member.enter();
    loop {
        let Some(core) = shared.core.take() else {
            // Another thread has the core: the previous thread has not left yet. It will find the
            // event loop started again and continue.
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
                // The orderly shutdown panicked too: the state of the core is lost.
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
