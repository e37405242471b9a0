//! Records the threads that hold permits while they wait for another permit, to detect deadlocks.
//!
//! A call that waits for a permit inside work that already holds one may wait for itself: if every
//! permit of the gate is held by threads that wait for this gate, or for a gate that is stuck in
//! the same way, no permit is ever returned. Such a wait is rejected.
//!
//! Only gates whose callers may wait take part. A permit held by a suspended future, or by a thread
//! that waits for something else, counts as a permit that may be returned.

use std::cell::RefCell;

use tidegate_core::WaitRefusedError;
use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{Capacity, WaitEdge, record_wait};
use tidegate_core::permits::Permits;

/// Identifies a gate.
pub(super) type GateId = ExecutorId;

/// A gate: its id and its permits.
type Held = (GateId, Permits);

thread_local! {
    /// The gates of which this thread holds a permit, one entry per permit.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Records that the calling thread works with a permit of a gate, until the returned guard is
/// dropped.
pub(super) fn hold(gate: GateId, permits: &Permits) -> Holding {
    let _ = HELD.try_with(|held| held.borrow_mut().push((gate, permits.clone())));
    Holding(gate)
}

/// A guard for a thread's work with a permit.
#[must_use = "the work is over when it is dropped"]
pub(crate) struct Holding(GateId);

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|(gate, _)| *gate == self.0) {
                held.remove(at);
            }
        });
    }
}

/// Records that the calling thread waits for a permit of a gate, until the returned edges are
/// dropped.
///
/// # Errors
///
/// Returns an error if no permit would ever become free.
pub(super) fn wait_for(gate: GateId) -> Result<Vec<WaitEdge>, WaitRefusedError> {
    let holds = HELD.try_with(|held| held.borrow().clone());
    let held = |(gate, permits)| (gate, Capacity::Permits(permits));
    record_wait(holds.unwrap_or_default().into_iter().map(held), gate)
}
