//! The scheduled tasks that wait on one event loop, in a heap.

use std::sync::{Arc, Weak};

use tidegate_core::Task;
use tidegate_core::internal::SignalBlock;
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_pool::internal::Repeat;
use tidegate_timer::TimerKey;
use tidegate_timer::heap::{Due, Heap};

use crate::state::shared::Shared;

/// The pending scheduled tasks of one event loop, earliest first.
///
/// Timers run in passes. A pass runs the timers that were due when it began, each once, and may
/// take several turns. A fixed-rate task that cannot keep up is due again as soon as it has run,
/// and earlier than everything else: without passes no other timer would run.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Heap<Arc<SignalBlock<Timer>>>,
    /// The start of the current pass: it runs the timers that were due by then.
    pass: Option<u64>,
    /// Timers that were re-inserted during the pass and are due within it: they run in the next
    /// pass.
    next_pass: Vec<(Arc<SignalBlock<Timer>>, Option<u64>)>,
}

/// One scheduled task.
pub(crate) struct Timer {
    pub(super) home: Weak<Shared>,
    pub(super) state: Mutex<TimerState>,
}

pub(super) struct TimerState {
    /// What to run; `None` once it ran for the last time or was cancelled.
    pub(super) body: Option<Body>,
    pub(super) deadline: u64,
    /// The key in the heap, while the timer waits there.
    pub(super) key: Option<TimerKey>,
}

/// The closure of a scheduled task.
pub(super) enum Body {
    Once(Task),
    Repeat(Repeat),
}

impl Timers {
    pub(crate) fn len(&self) -> usize {
        self.heap.len() + self.next_pass.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        // The timers in `next_pass` were due when the pass began.
        let next_pass = self.pass.filter(|_| !self.next_pass.is_empty());
        self.heap.next_deadline().into_iter().chain(next_pass).min()
    }

    /// Removes and returns the next timer of the pass. When the pass is over and it began before
    /// `now`, begins the next pass.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Due<Arc<SignalBlock<Timer>>>> {
        loop {
            let pass = *self.pass.get_or_insert(now);
            let due = self.heap.pop_due(pass);
            if due.is_some() {
                return due;
            }
            self.end_pass();
            if pass >= now {
                return None;
            }
        }
    }

    fn end_pass(&mut self) {
        self.pass = None;
        if !self.next_pass.is_empty() {
            for (timer, sequence) in std::mem::take(&mut self.next_pass) {
                self.place(&timer, &mut lock(&timer.state), sequence);
            }
        }
    }

    /// Removes and returns all timers, earliest first.
    pub(crate) fn drain(&mut self) -> Vec<Arc<SignalBlock<Timer>>> {
        self.end_pass();
        let mut all = Vec::new();
        for due in self.heap.drain() {
            all.push(due.value);
        }
        all
    }

    pub(super) fn insert(&mut self, timer: &Arc<SignalBlock<Timer>>) {
        self.place(timer, &mut lock(&timer.state), None);
    }

    /// Inserts a timer into the heap, or into `next_pass` if the current pass would otherwise run
    /// it again. `sequence` is its position among equal deadlines if it ran before.
    pub(super) fn place(
        &mut self,
        timer: &Arc<SignalBlock<Timer>>,
        state: &mut TimerState,
        sequence: Option<u64>,
    ) {
        // A timer that was cancelled on its way has no body and needs no entry.
        if state.key.is_some() || state.body.is_none() {
            return;
        }
        let timer = Arc::clone(timer);
        if self.pass.is_some_and(|pass| state.deadline <= pass) {
            self.next_pass.push((timer, sequence));
            return;
        }
        state.key = Some(match sequence {
            Some(sequence) => self.heap.reinsert(state.deadline, sequence, timer),
            None => self.heap.insert(state.deadline, timer),
        });
    }

    /// Removes the entry of a timer that was cancelled.
    pub(super) fn remove(&mut self, key: TimerKey) {
        self.heap.remove(key);
    }
}
