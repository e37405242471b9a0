//! Records the threads that hold permits while they wait for another permit, to detect deadlocks.
//!
//! A call that waits for a permit inside work that already holds one may wait for itself: if every
//! permit of the gate is held by threads that wait for this gate, or for a gate that is stuck in
//! the same way, no permit is ever returned. Such a wait is rejected.
//!
//! Only gates whose callers may wait take part. A permit held by a suspended future, or by a thread
//! that waits for something else, counts as a permit that may be returned. The record is protected
//! by one short lock, taken only by a thread that holds a permit and is about to sleep.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tidegate_core::permits::Permits;

/// Identifies a gate.
pub(super) type GateId = u64;

pub(super) fn next_id() -> GateId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

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

/// A thread that holds permits and waits for another one.
struct Wait {
    number: u64,
    holds: Vec<Held>,
    gate: GateId,
}

#[derive(Default)]
struct Record {
    next: u64,
    waits: Vec<Wait>,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that the calling thread waits for a permit of a gate, until the returned guard is
/// dropped.
///
/// # Errors
///
/// Returns [`DeadlockFound`] if no permit would ever become free.
pub(super) fn wait_for(gate: GateId) -> Result<Waiting, DeadlockFound> {
    let holds = HELD.try_with(|held| held.borrow().clone());
    let holds = holds.unwrap_or_default();
    if holds.is_empty() {
        return Ok(Waiting(None));
    }
    let mut record = lock();
    let number = record.next;
    record.next += 1;
    record.waits.push(Wait {
        number,
        holds,
        gate,
    });
    let waiting = Waiting(Some(number));
    let is_stuck = record.is_stuck(gate);
    drop(record);
    match is_stuck {
        true => Err(DeadlockFound),
        false => Ok(waiting),
    }
}

/// The error of a wait that would never end.
#[derive(Debug)]
pub(super) struct DeadlockFound;

/// A recorded wait. Dropping it removes the record.
#[must_use = "the wait is forgotten when it is dropped"]
pub(super) struct Waiting(Option<u64>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            let mut record = lock();
            record.waits.retain(|wait| wait.number != number);
        }
    }
}

impl Record {
    /// Returns `true` if all permits of a gate are held by threads that wait for gates that are
    /// stuck in the same way.
    fn is_stuck(&self, gate: GateId) -> bool {
        let mut stuck = self.full_of_waiting();
        loop {
            let before = stuck.len();
            for wait in &self.waits {
                if !stuck.contains(&wait.gate) {
                    stuck.retain(|of| wait.holds.iter().all(|(held, _)| held != of));
                }
            }
            if stuck.len() == before {
                return stuck.contains(&gate);
            }
        }
    }

    /// Returns the gates whose permits are all held by threads that wait.
    fn full_of_waiting(&self) -> Vec<GateId> {
        // The gate, how many of its permits waiting threads hold, and how many all threads hold.
        let mut gates: Vec<(GateId, usize, usize)> = Vec::new();
        for wait in &self.waits {
            for (of, permits) in &wait.holds {
                match gates.iter_mut().find(|gate| gate.0 == *of) {
                    Some(gate) => gate.1 += 1,
                    None => gates.push((*of, 1, permits.held())),
                }
            }
        }
        let mut full = Vec::new();
        for (gate, waiting, held) in gates {
            if waiting >= held {
                full.push(gate);
            }
        }
        full
    }
}
