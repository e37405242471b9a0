//! The last step before a poll: the interests of sources are applied to the poller.
//!
//! On some systems the poller reports a change of readiness once. A source that was selected is
//! therefore armed again, which makes the poller report it once more if it is still ready. A source
//! without interests leaves the poller: otherwise a hang-up would be reported again and again.

use std::io;
use std::sync::Arc;

use super::event_source::refused;
use super::selector::{Control, Selector, call};
use crate::sys::{Change, Interest, Token};

impl Selector {
    /// Asks the sources that were selected for their interests, and applies all changed interests.
    pub(super) fn apply_interests(&mut self, control: &mut dyn Control) {
        let mut touched = std::mem::take(&mut self.touched);
        for token in touched.drain(..) {
            let Some(slot) = self.slots.get_mut(token) else {
                continue;
            };
            slot.touched = false;
            let selected = std::mem::take(&mut slot.selected);
            if selected {
                let (interests, version) = slot.state.versioned_interests();
                let label = slot.source.label();
                slot.state.set_in_callback(true);
                let called = call(&label, || slot.source.update_interests(interests));
                slot.state.set_in_callback(false);
                match called {
                    Ok(interests) => slot.state.update_interests(version, interests),
                    Err(panic) => {
                        let state = Arc::clone(&slot.state);
                        self.close_panicked(&state, &panic, control);
                        continue;
                    }
                }
                self.ran = true;
            }
            self.apply(token, control);
        }
        self.touched = touched;
    }

    fn apply(&mut self, token: Token, control: &mut dyn Control) {
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        let before = std::mem::replace(&mut slot.watched, slot.state.apply());
        let change = match slot.watched {
            Interest::NONE if before.is_none() => return,
            Interest::NONE => Change::Remove,
            after if before.is_none() => Change::Add(after),
            after if before == after => Change::Rearm(after),
            after => Change::Modify(after),
        };
        if let Err(why) = slot.control(control, change) {
            self.lose(token, why, control);
        }
    }

    /// Closes a source that the poller does not watch any more.
    fn lose(&mut self, token: Token, why: io::Error, control: &mut dyn Control) {
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        slot.watched = Interest::NONE;
        let state = Arc::clone(&slot.state);
        let why = refused(&state.name, why);
        self.close_source(&state, Some(&why), control);
    }
}
