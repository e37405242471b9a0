//! All installed plug-ins, and how they are called.

use std::sync::Arc;

use tidegate_core::{OnUnhandled, Unhandled};

use super::call_stage::CallStage;
use crate::breaker::OnTransition;
use crate::bulkhead::OnLimitMove;
use crate::error::contain;
use crate::event::Event;
use crate::key::Key;

pub(crate) type OnEvent = Arc<dyn Fn(&Key, Event) + Send + Sync>;
pub(crate) type OnKey = Arc<dyn Fn(&Key) + Send + Sync>;
pub(crate) type Hook = Arc<dyn Fn(CallStage, &Key) -> Result<(), String> + Send + Sync>;

/// Captures the context of the calling thread.
pub(crate) type Capture = Arc<dyn Fn() -> Install + Send + Sync>;
/// Installs a captured context on a worker thread.
pub(crate) type Install = Box<dyn FnOnce() -> Restore + Send>;
/// Restores the previous context of a worker thread.
pub(crate) type Restore = Box<dyn FnOnce()>;

/// All installed plug-ins.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    pub(crate) hooks: Vec<Hook>,
    pub(crate) on_event: Vec<OnEvent>,
    pub(crate) on_transition: Vec<OnTransition>,
    pub(crate) on_limit_move: Vec<OnLimitMove>,
    pub(crate) on_command_added: Vec<OnKey>,
    pub(crate) on_pool_added: Vec<OnKey>,
    pub(crate) propagators: Vec<Capture>,
    /// Receives problems that no caller handles.
    pub(crate) unhandled: OnUnhandled,
}

impl Plugins {
    /// Returns `true` if there are no hooks or event listeners, so calls can skip the plug-ins.
    pub(crate) fn is_quiet(&self) -> bool {
        self.hooks.is_empty() && self.on_event.is_empty()
    }

    /// Calls all hooks, also after an error. At a stage that may reject a call, returns the first
    /// error or panic. At any other stage, ignores errors and reports panics.
    pub(crate) fn hook(&self, stage: CallStage, command: &Key) -> Result<(), String> {
        let mut answer = Ok(());
        for hook in &self.hooks {
            let result = contain(|| hook(stage, command));
            if let (Err(message), false) = (&result, stage.may_refuse()) {
                self.panicked(command, message);
            }
            let result = result.and_then(|result| result);
            if stage.may_refuse() && answer.is_ok() {
                answer = result;
            }
        }
        answer
    }

    /// Captures the calling thread's context, to be installed on a thread that works for it.
    pub(crate) fn capture(&self) -> Vec<Install> {
        let mut all = Vec::with_capacity(self.propagators.len());
        for propagator in &self.propagators {
            let captured = contain(|| propagator());
            self.report_propagator_panic(&captured);
            all.extend(captured.ok());
        }
        all
    }

    /// Reports the panic of a propagator, if `done` is one.
    pub(crate) fn report_propagator_panic<T>(&self, done: &Result<T, String>) {
        if let Err(message) = done {
            self.panicked("a propagator", message);
        }
    }

    /// Reports a panic of user code that no caller sees.
    #[cold]
    pub(crate) fn panicked(&self, about: &str, message: &str) {
        self.unhandled
            .report(about, &Unhandled::HookPanic { message });
    }

    pub(crate) fn event(&self, command: &Key, event: Event) {
        for listener in &self.on_event {
            if let Err(message) = contain(|| listener(command, event)) {
                self.panicked(command, &message);
            }
        }
    }

    /// Reports a problem with a setting that no caller sees. Never called with a lock held.
    pub(crate) fn report(&self, message: &str) {
        self.unhandled
            .report("isolation", &Unhandled::Setting { message });
    }

    pub(crate) fn added(&self, command: &Key) {
        self.call(&self.on_command_added, command);
    }

    pub(crate) fn pool_added(&self, pool: &Key) {
        self.call(&self.on_pool_added, pool);
    }

    fn call(&self, listeners: &[OnKey], key: &Key) {
        for listener in listeners {
            if let Err(message) = contain(|| listener(key)) {
                self.panicked(key, &message);
            }
        }
    }
}

debug_fields!(Plugins);
