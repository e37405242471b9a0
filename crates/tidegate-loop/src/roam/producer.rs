//! A roaming loop as a producer of tasks for a strategy.
//!
//! The producer lies in the strategy's cell, and whichever thread of the pool takes it out is the loop's
//! until it lends it or has to end. See `core/hand_out.rs` for what runs where.

use std::sync::{Arc, Weak};

use tidegate_core::Task;
use tidegate_pool::Producer;

use crate::state::shared::{Drive, Produced, Shared};

/// A loop as a producer. Between two threads, and before the first, it has only the way to it.
pub(super) struct LoopProducer {
    shared: Weak<Shared>,
    driving: Option<(Arc<Shared>, Box<dyn Drive>)>,
    by_hand: bool,
}

impl LoopProducer {
    pub(super) fn new(shared: &Arc<Shared>, by_hand: bool) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            driving: None,
            by_hand,
        }
    }

    fn begin(&mut self) -> Option<()> {
        let shared = self.shared.upgrade()?;
        shared.arrive(None);
        let mut core = *shared.core.take()?;
        core.begin_producing(&shared, self.by_hand);
        self.driving = Some((shared, core));
        Some(())
    }
}

impl Producer for LoopProducer {
    fn produce(&mut self) -> Option<Task> {
        loop {
            let Some((shared, core)) = &mut self.driving else {
                self.begin()?;
                continue;
            };
            match core.produce(shared) {
                Produced::Task(task) => return Some(task),
                Produced::Nothing => return None,
                Produced::Leave => {
                    let (shared, core) = self.driving.take()?;
                    drop(shared.core.put(Box::new(core)));
                    if !shared.suspend_or_drive_on() {
                        return None;
                    }
                }
                Produced::Over => {
                    let (shared, core) = self.driving.take()?;
                    drop(core);
                    shared.announce_end();
                    return None;
                }
            }
        }
    }

    fn backlog(&self) -> usize {
        self.driving.as_ref().map_or(0, |(_, core)| core.backlog())
    }
}
