//! The contestants of the suite `timer`: ours, and the peers in their best set-ups.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};
use tidegate_timer::TimerKey;
use tidegate_timer::wheel::Wheel;
use tokio::runtime::Runtime;
use tokio::time::{Instant, Sleep};

use super::contest::{Payload, Timers};

/// The tick of every contestant that has one.
pub(crate) const TICK: Duration = Duration::from_millis(1);
const TICK_NANOS: u64 = 1_000_000;

/// The slots of the wheel of an event loop.
const SLOTS: usize = 1024;

/// Ours: the wheel that an event loop owns. Deadlines within `SLOTS` ticks are stored by exact
/// tick; later ones move once.
pub(crate) struct Ours<T>(Wheel<T>);

impl<T: Payload> Timers<T> for Ours<T> {
    type Handle = TimerKey;

    fn new() -> Self {
        let wheel = Wheel::new(TICK, SLOTS).expect("a sound geometry");
        Self(match T::WARM {
            Some(warm) => wheel.prefetch_with(warm),
            None => wheel,
        })
    }

    #[inline]
    fn add(&mut self, deadline: u64, payload: T) -> TimerKey {
        self.0.insert(deadline, payload)
    }

    #[inline]
    fn cancel(&mut self, handle: TimerKey) {
        self.0.remove(handle);
    }

    fn expire(&mut self, now: u64) {
        while let Some(expired) = self.0.pop_due(now) {
            expired.value.fire();
        }
    }
}

/// A heap of deadlines over a slab. A cancelled timer leaves its heap entry behind; all stale
/// entries are removed at once when they outnumber the live ones.
pub(crate) struct LazyHeap<T> {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    slab: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    live: usize,
}

impl<T: Payload> LazyHeap<T> {
    fn sweep(&mut self) {
        if self.heap.len() > 2 * self.live + 64 {
            let slab = &self.slab;
            self.heap
                .retain(|Reverse((_, slot, generation))| slab[*slot as usize].0 == *generation);
        }
    }

    fn take(&mut self, slot: u32) -> Option<T> {
        let (generation, value) = &mut self.slab[slot as usize];
        *generation += 1;
        self.free.push(slot);
        self.live -= 1;
        value.take()
    }
}

impl<T: Payload> Timers<T> for LazyHeap<T> {
    type Handle = (u32, u32);

    fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            slab: Vec::new(),
            free: Vec::new(),
            live: 0,
        }
    }

    #[inline]
    fn add(&mut self, deadline: u64, payload: T) -> (u32, u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slab.push((0, None));
            self.slab.len() as u32 - 1
        });
        let (generation, value) = &mut self.slab[slot as usize];
        *value = Some(payload);
        self.heap.push(Reverse((deadline, slot, *generation)));
        self.live += 1;
        (slot, *generation)
    }

    #[inline]
    fn cancel(&mut self, (slot, generation): (u32, u32)) {
        if self.slab[slot as usize].0 == generation {
            drop(self.take(slot));
            self.sweep();
        }
    }

    fn expire(&mut self, now: u64) {
        while let Some(Reverse((deadline, slot, generation))) = self.heap.peek().copied()
            && deadline <= now
        {
            self.heap.pop();
            if self.slab[slot as usize].0 == generation
                && let Some(payload) = self.take(slot)
            {
                payload.fire();
            }
        }
    }
}

/// A map sorted by deadline and sequence. All due entries are split off at once.
pub(crate) struct Tree<T> {
    map: BTreeMap<(u64, u64), T>,
    sequence: u64,
}

impl<T: Payload> Timers<T> for Tree<T> {
    type Handle = (u64, u64);

    fn new() -> Self {
        Self {
            map: BTreeMap::new(),
            sequence: 0,
        }
    }

    #[inline]
    fn add(&mut self, deadline: u64, payload: T) -> (u64, u64) {
        self.sequence += 1;
        self.map.insert((deadline, self.sequence), payload);
        (deadline, self.sequence)
    }

    #[inline]
    fn cancel(&mut self, handle: (u64, u64)) {
        self.map.remove(&handle);
    }

    fn expire(&mut self, now: u64) {
        let later = self.map.split_off(&(now, u64::MAX));
        for (_, payload) in std::mem::replace(&mut self.map, later) {
            payload.fire();
        }
    }
}

/// tokio: one boxed `Sleep` per timer, polled once; dropping it cancels the timer. It has no
/// payload.
pub(crate) struct Tokio {
    runtime: Runtime,
    start: Instant,
    number: u64,
    /// Sleeps that are not cancelled.
    kept: Vec<Pin<Box<Sleep>>>,
}

impl<T: Payload> Timers<T> for Tokio {
    type Handle = Pin<Box<Sleep>>;

    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(T::WARM.is_some())
            .build();
        let runtime = runtime.expect("a runtime can be had");
        let start = runtime.block_on(async { Instant::now() });
        Self {
            runtime,
            start,
            number: 0,
            kept: Vec::new(),
        }
    }

    #[inline]
    fn add(&mut self, deadline: u64, _payload: T) -> Pin<Box<Sleep>> {
        self.number += 1;
        let at = self.start + Duration::from_nanos(deadline);
        let mut sleep = Box::pin(tokio::time::sleep_until(at));
        let waker = T::waker(self.number);
        let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "no deadline has passed");
        sleep
    }

    #[inline]
    fn cancel(&mut self, handle: Pin<Box<Sleep>>) {
        drop(handle);
    }

    fn expire(&mut self, now: u64) {
        let by = Duration::from_nanos(now);
        self.runtime.block_on(tokio::time::advance(by));
        self.kept.clear();
    }

    fn within<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let handle = self.runtime.handle().clone();
        let _inside = handle.enter();
        work(self)
    }
}

/// `hierarchical_hash_wheel_timer`, the variant that supports cancellation.
pub(crate) struct HashWheel<T> {
    wheel: QuadWheelWithOverflow<HashEntry<T>>,
    now: u64,
    number: u64,
}

pub(crate) struct HashEntry<T> {
    number: u64,
    payload: Cell<Option<T>>,
}

impl<T> fmt::Debug for HashEntry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl<T> CancellableTimerEntry for HashEntry<T> {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.number
    }
}

impl<T: Payload> Timers<T> for HashWheel<T> {
    type Handle = u64;

    fn new() -> Self {
        Self {
            wheel: QuadWheelWithOverflow::new(),
            now: 0,
            number: 0,
        }
    }

    #[inline]
    fn add(&mut self, deadline: u64, payload: T) -> u64 {
        self.number += 1;
        let entry = std::rc::Rc::new(HashEntry {
            number: self.number,
            payload: Cell::new(Some(payload)),
        });
        let ticks = deadline.div_ceil(TICK_NANOS) - self.now;
        let added = self
            .wheel
            .insert_ref_with_delay(entry, Duration::from_millis(ticks));
        added.expect("no deadline has passed");
        self.number
    }

    #[inline]
    fn cancel(&mut self, handle: u64) {
        self.wheel.cancel(&handle).expect("it is there");
    }

    fn expire(&mut self, now: u64) {
        let end = now / TICK_NANOS;
        while self.now < end {
            match self.wheel.can_skip() {
                Skip::Empty => return,
                Skip::Millis(ms) if u64::from(ms) <= end - self.now => {
                    self.wheel.skip(ms);
                    self.now += u64::from(ms);
                }
                Skip::Millis(_) => return,
                Skip::None => {
                    self.now += 1;
                    for entry in self.wheel.tick() {
                        if let Some(payload) = entry.payload.take() {
                            payload.fire();
                        }
                    }
                }
            }
        }
    }
}
