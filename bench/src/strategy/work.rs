//! The work of a task, the same under every strategy: a buffer that the producer writes and the
//! consumer reads and changes, and arithmetic that takes a given time.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use tidegate_core::{Blocking, Task};
use tidegate_pool::strategy::Producer;

use crate::gate::Gate;

/// Returns the number of arithmetic steps per microsecond, measured once.
pub(crate) fn units_per_micro() -> u64 {
    static UNITS: OnceLock<u64> = OnceLock::new();
    *UNITS.get_or_init(|| {
        const TRY: u64 = 2_000_000;
        let best = (0..5).map(|_| {
            let began = Instant::now();
            burn(TRY);
            began.elapsed()
        });
        let best = best.min().unwrap_or(Duration::from_millis(1));
        (TRY as f64 / best.as_secs_f64() / 1e6).round().max(1.0) as u64
    })
}

/// Runs arithmetic that the compiler cannot remove.
#[inline(never)]
pub(crate) fn burn(units: u64) -> u64 {
    let mut x = units | 1;
    for _ in 0..units {
        x = x.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 0x9E37;
    }
    std::hint::black_box(x)
}

/// The parameters of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// Bytes that the producer writes and the consumer changes.
    pub(crate) footprint: usize,
    /// Number of arithmetic steps.
    pub(crate) units: u64,
    /// The declared blocking behaviour of the task.
    pub(crate) kind: Blocking,
    /// Maximum number of tasks in flight.
    pub(crate) depth: usize,
}

/// The buffers in circulation, one per task in flight.
pub(crate) struct Ring {
    free: ArrayQueue<Vec<u64>>,
    gate: &'static Gate,
    recipe: Recipe,
}

impl Ring {
    pub(crate) fn new(recipe: Recipe, gate: &'static Gate) -> Arc<Self> {
        let free = ArrayQueue::new(recipe.depth);
        for _ in 0..recipe.depth {
            let pushed = free.push(vec![0; recipe.footprint / 8]);
            assert!(pushed.is_ok(), "there is room for as many as it is deep");
        }
        Arc::new(Self { free, gate, recipe })
    }

    /// Reads and modifies the buffer that the producer wrote, and does the work.
    fn consume(&self, mut words: Vec<u64>) {
        let mut sum = 0_u64;
        for word in &mut words {
            sum = sum.wrapping_add(*word);
            *word = sum;
        }
        burn(self.recipe.units ^ (std::hint::black_box(sum) & 1));
        assert!(self.free.push(words).is_ok(), "it came from there");
        self.gate.pass();
    }
}

/// A producer of a number of tasks. Waits, as a poller would, while all buffers are in use.
pub(crate) struct Mill {
    ring: Arc<Ring>,
    left: u64,
}

impl Mill {
    pub(crate) fn new(ring: &Arc<Ring>, tasks: u64) -> Self {
        Self {
            ring: Arc::clone(ring),
            left: tasks,
        }
    }
}

impl Producer for Mill {
    fn produce(&mut self) -> Option<Task> {
        self.left = self.left.checked_sub(1)?;
        let mut spins = 0;
        let mut words = loop {
            if let Some(words) = self.ring.free.pop() {
                break words;
            }
            // No event has arrived. A poller on a CPU of its own would not sleep for so short a
            // time; on a shared CPU the consumer needs the time.
            spins += 1;
            if spins % 64 == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        };
        words.fill(self.left);
        let ring = Arc::clone(&self.ring);
        let kind = ring.recipe.kind;
        Some(Task::of(kind, move || ring.consume(words)))
    }
}
