//! The scheduled tasks that wait on one loop, in a heap.

use std::sync::{Arc, Weak};

use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{SignalBlock, Task};
use tidegate_pool::internal::Answer;
use tidegate_timer::{Due, Heap, Key};

use super::period::Every;
use crate::state::shared::Shared;

/// Waiting scheduled tasks of one loop, earliest first.
///
/// They run in passes. A pass runs what was due when it began, each timer once, and may take
/// several turns. A fixed-rate task that cannot keep up is due again as soon as it has run, and
/// earlier than everything else: without passes it would run alone.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Heap<Arc<SignalBlock<Timer>>>,
    /// When the present pass began: it runs the timers that were due by then.
    pass: Option<u64>,
    /// Timers that came back during the pass and are due within it: they run in the next one.
    aside: Vec<(Arc<SignalBlock<Timer>>, Option<u64>)>,
}

/// One scheduled task.
pub(crate) struct Timer {
    pub(super) home: Weak<Shared>,
    pub(super) state: Mutex<TimerState>,
}

pub(super) struct TimerState {
    /// What to run; gone once it ran for the last time or was cancelled.
    pub(super) body: Option<Body>,
    pub(super) deadline: u64,
    /// Its place in the heap, while it waits there.
    pub(super) key: Option<Key>,
}

/// What a scheduled task runs.
pub(super) enum Body {
    Once(Task),
    Repeat(Repeat),
}

/// A periodic task.
pub(super) struct Repeat {
    pub(super) run: Box<dyn FnMut() + Send>,
    pub(super) answer: Answer<()>,
    pub(super) every: Every,
    pub(super) name: &'static str,
}

impl Timers {
    pub(crate) fn len(&self) -> usize {
        self.heap.len() + self.aside.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        // What lies aside was due when the pass began.
        let aside = self.pass.filter(|_| !self.aside.is_empty());
        self.heap.next_deadline().into_iter().chain(aside).min()
    }

    /// Removes and returns the next timer of the pass. Once the pass is over, and if it began
    /// before `now`, the next one begins.
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
        if !self.aside.is_empty() {
            for (timer, sequence) in std::mem::take(&mut self.aside) {
                self.place(&timer, &mut lock(&timer.state), sequence);
            }
        }
    }

    /// Takes everything out, earliest first.
    pub(crate) fn drain(&mut self) -> Vec<Arc<SignalBlock<Timer>>> {
        self.end_pass();
        self.heap.drain().map(|due| due.value).collect()
    }

    pub(super) fn insert(&mut self, timer: &Arc<SignalBlock<Timer>>) {
        self.place(timer, &mut lock(&timer.state), None);
    }

    /// Puts a timer into the heap, or aside if the present pass would find it there. `sequence` is
    /// its place among equals if it ran before.
    pub(super) fn place(
        &mut self,
        timer: &Arc<SignalBlock<Timer>>,
        state: &mut TimerState,
        sequence: Option<u64>,
    ) {
        // One that was cancelled on its way has no body any more and needs no place.
        if state.key.is_some() || state.body.is_none() {
            return;
        }
        let timer = Arc::clone(timer);
        if self.pass.is_some_and(|pass| state.deadline <= pass) {
            self.aside.push((timer, sequence));
            return;
        }
        state.key = Some(match sequence {
            Some(sequence) => self.heap.reinsert(state.deadline, sequence, timer),
            None => self.heap.insert(state.deadline, timer),
        });
    }

    /// Frees the place of a timer that was cancelled.
    pub(super) fn remove(&mut self, key: Key) {
        self.heap.remove(key);
    }
}
