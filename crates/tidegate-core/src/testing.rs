//! What the tests of this crate share.

use std::sync::Arc;

use crate::{Clock, Executor, ExecutorId, Refusal, Rejected, Signal, Task};

/// How often to repeat something: `many` times, or few where every step is slow
/// (`TIDEGATE_SMALL` is set under valgrind).
pub(crate) fn rounds(many: usize) -> usize {
    if std::env::var_os("TIDEGATE_SMALL").is_some() {
        return (many / 50).max(4);
    }
    many
}

/// Random numbers from a seed (SplitMix64), the same everywhere.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// An executor that runs nothing and only has a name, an identity and a width.
pub(crate) struct Nameplate {
    name: &'static str,
    id: ExecutorId,
    width: usize,
    clock: Clock,
}

impl Nameplate {
    pub(crate) fn new(name: &'static str, width: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            id: ExecutorId::next(),
            width,
            clock: Clock::system(),
        })
    }
}

impl Executor for Nameplate {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, Refusal::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, Refusal::Unsupported))
    }

    fn is_current(&self) -> bool {
        crate::is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width
    }
}

/// Its drop panics with another one, until the last panics with a message; quiet while its
/// thread unwinds already.
pub(crate) struct Bomb(pub(crate) u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.0.checked_sub(1) {
            Some(inside) => std::panic::panic_any(Self(inside)),
            None => panic!("on purpose, in the drop of a payload"),
        }
    }
}

/// Panics with a payload whose drop panics.
pub(crate) fn explode() -> ! {
    std::panic::panic_any(Bomb(2))
}
