//! What the user can switch, by keys and in the page.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use super::keys::Wish;
use super::settings::Settings;
use super::upstreams::{Mode, NAMES, Upstreams};
use crate::admin::Knob;
use crate::serve::{Knobs, Operation};

/// Who changed the configuration, for the log.
const ORIGIN: &str = "demo";

/// The name of the knob for all bulkheads.
const BULKHEADS: &str = "bulkheads";

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

    /// Does what the user chooses in the page.
    fn choose(&self, knob: &str, choice: &str) -> Result<(), String> {
        if knob == BULKHEADS {
            return match choice {
                "on" => self.set_bulkheads(true),
                "off" => self.set_bulkheads(false),
                _ => Err(format!("bulkheads are on or off, and not `{choice}`")),
            };
        }
        let at = NAMES.iter().position(|name| *name == knob);
        let at = at.ok_or_else(|| format!("there is no upstream `{knob}`"))?;
        let mode = Mode::ALL.into_iter().find(|mode| mode.name() == choice);
        let mode = mode.ok_or_else(|| format!("an upstream cannot be `{choice}`"))?;
        self.set(at, mode)
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

/// The page has the same switches as the keys.
impl Knobs for Switches {
    fn list(&self) -> Vec<Knob> {
        let upstreams = NAMES.iter().enumerate().map(|(at, name)| Knob {
            name: (*name).to_owned(),
            title: format!("/{name}"),
            choices: Mode::ALL.map(|mode| mode.name().to_owned()).to_vec(),
            value: self.upstreams.mode(at).name().to_owned(),
        });
        let on = if self.has_bulkheads() { "on" } else { "off" };
        let bulkheads = Knob {
            name: BULKHEADS.to_owned(),
            title: "bulkheads".to_owned(),
            choices: ["on", "off"].map(str::to_owned).to_vec(),
            value: on.to_owned(),
        };
        upstreams.chain([bulkheads]).collect()
    }

    fn turn(&self, knob: &str, choice: &str) -> Result<String, String> {
        self.choose(knob, choice)?;
        Ok(format!("{knob}: {choice}"))
    }
}
