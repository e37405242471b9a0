//! What the user can switch, by keys and in the page.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use super::keys::Wish;
use super::settings::Settings;
use super::upstreams::{Mode, NAMES, Upstreams};
use crate::serve::Operation;

/// Who changed the configuration, for the log.
const ORIGIN: &str = "demo";

/// What the user can switch.
#[derive(Debug)]
pub(crate) struct Switches {
    pub(crate) upstreams: Upstreams,
    pub(crate) settings: Arc<Settings>,
    /// The gateway, which is started after this.
    pub(crate) operation: OnceLock<Weak<Operation>>,
}

impl Switches {
    /// Does what the user wants. It may block for a moment.
    ///
    /// # Errors
    ///
    /// Why it could not be done.
    pub(crate) fn grant(&self, wish: Wish) -> Result<(), String> {
        match wish {
            Wish::Mode(at, mode) => self.set(at, mode),
            Wish::Bulkheads => self.set_bulkheads(!self.has_bulkheads()),
            Wish::Reset => {
                for at in 0..NAMES.len() {
                    self.set(at, Mode::Normal)?;
                }
                self.set_bulkheads(true)
            }
            Wish::Quit => Ok(()),
        }
    }

    pub(crate) fn has_bulkheads(&self) -> bool {
        self.settings.has_bulkheads.load(Ordering::Relaxed)
    }

    fn set(&self, at: usize, mode: Mode) -> Result<(), String> {
        let done = self.upstreams.set(at, mode);
        done.map_err(|why| format!("upstream {}: {why}", NAMES[at]))
    }

    fn set_bulkheads(&self, on: bool) -> Result<(), String> {
        let before = self.settings.has_bulkheads.swap(on, Ordering::Relaxed);
        let operation = self.operation.get().and_then(Weak::upgrade);
        match operation {
            Some(operation) if before != on => operation.reload(ORIGIN).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns what is switched, in one line.
    pub(crate) fn state(&self) -> String {
        let modes = NAMES.iter().enumerate();
        let modes: Vec<String> = modes
            .map(|(at, name)| format!("{name} {}", self.upstreams.mode(at).name()))
            .collect();
        let bulkheads = if self.has_bulkheads() { "on" } else { "off" };
        format!("now        {}; bulkheads {bulkheads}", modes.join(", "))
    }
}
