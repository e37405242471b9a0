//! A roaming loop as a producer of tasks for a strategy.
//!
//! The strategy's cell owns the producer. The thread of the pool that takes it out is the event
//! loop's thread until it lends the producer or has to end. See `core/hand_out.rs` for what runs
//! where.

use std::sync::{Arc, Weak};

use tidegate_core::Task;
use tidegate_pool::strategy::Producer;

use crate::state::shared::{Drive, Produced, Shared};

/// An event loop as a producer. While no thread drives the event loop, it holds only a weak
/// reference.
pub(super) struct LoopProducer {
    shared: Weak<Shared>,
    driving: Option<(Arc<Shared>, Box<dyn Drive>)>,
    manual: bool,
}

impl LoopProducer {
    pub(super) fn new(shared: &Arc<Shared>, manual: bool) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            driving: None,
            manual,
        }
    }

    fn begin(&mut self) -> Option<()> {
        let shared = self.shared.upgrade()?;
        shared.arrive(None);
        let mut core = *shared.core.take()?;
        core.begin_producing(&shared, self.manual);
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
