//! Shutdown hooks: user closures that run on an event loop after its last task.

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{contain, discard_all};
use tidegate_core::{Clock, Unhandled};

use crate::errors::ShutdownHookError;

/// The shutdown hooks of one event loop, in the order in which they run.
#[derive(Default)]
pub(crate) struct ShutdownHooks {
    hooks: Mutex<Vec<Hook>>,
    /// The name of the hook that runs now.
    running: Mutex<Option<String>>,
}

struct Hook {
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

impl ShutdownHooks {
    /// Adds a hook, unless another hook has the same name or `is_closed` returns `true`.
    pub(crate) fn add(
        &self,
        name: String,
        run: Box<dyn FnOnce() + Send>,
        is_closed: impl FnOnce() -> bool,
    ) -> Result<(), ShutdownHookError> {
        let mut hooks = lock(&self.hooks);
        if hooks.iter().any(|hook| hook.name == name) {
            return Err(ShutdownHookError::Duplicate { name });
        }
        // Checked under the lock: the event loop closes first and then takes this lock to run its
        // last hooks.
        if is_closed() {
            return Err(ShutdownHookError::Closed);
        }
        hooks.push(Hook { name, run });
        Ok(())
    }

    /// Removes the hook called `name`. Returns `false` if there is none.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut hooks = lock(&self.hooks);
        let at = hooks.iter().position(|hook| hook.name == name);
        let hook = at.map(|at| hooks.remove(at));
        drop(hooks);
        hook.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.hooks).is_empty()
    }

    /// Runs the hooks, oldest first, until none is left. Hooks may add hooks; these run too, unless
    /// the deadline has passed. Returns how many ran. `report` is called with their panics.
    pub(crate) fn run(&self, clock: &Clock, deadline: u64, report: impl Fn(&Unhandled<'_>)) -> u64 {
        let mut ran = 0;
        let mut due = lock(&self.hooks).len();
        while due > 0 || clock.nanos() < deadline {
            let hook = {
                let mut hooks = lock(&self.hooks);
                if hooks.is_empty() {
                    break;
                }
                hooks.remove(0)
            };
            due = due.saturating_sub(1);
            ran += 1;
            *lock(&self.running) = Some(hook.name);
            if let Err(panic) = contain(hook.run) {
                let message = panic.message();
                report(&Unhandled::HookPanic { message });
            }
            *lock(&self.running) = None;
        }
        ran
    }

    /// Drops hooks for which there was no time, with their captures, which may include handles to
    /// the loop.
    pub(crate) fn discard(&self) {
        let late = std::mem::take(&mut *lock(&self.hooks));
        discard_all(late);
    }

    /// Returns the name of the hook that runs now.
    pub(crate) fn running(&self) -> Option<String> {
        lock(&self.running).clone()
    }
}
