//! The memory of a block: its fields, and how it is allocated, read and freed.
//!
//! [`state`](super::state) says which thread may access which field in which state. Nothing here
//! runs a listener: `decide`, `notify` and `cancel` build on this file.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicPtr, AtomicU16, AtomicU32, Ordering, UnsafeCell};
use tidegate_core::internal::{Delivery, SignalHeader};
use tidegate_core::{Executor, Task};

use super::listener::Listener;
use super::node_list::NodeList;
use super::state::{CANCELLED, DONE, INLINE, LISTENER, OWNERS, READER, UNSTARTED, WRITER};
use super::word_waiters::WordWaiters;
use super::{depth, memory};
use crate::outcome::Outcome;

/// The minimum number of listener removals between two sweeps.
pub(super) const SWEEP_AFTER: u16 = if cfg!(tidegate_loom) { 1 } else { 64 };

/// The block itself. The fields are in the order of their use, so that a promise of one word with
/// one listener touches two cache lines.
#[repr(C)]
pub(super) struct Block<T: 'static, E: 'static> {
    /// The link for a signal lane; must be the first field.
    header: SignalHeader,
    pub(super) state: AtomicU32,
    /// The number of shared writers, while the write end is shared.
    pub(super) writers: AtomicU32,
    /// The number of shared readers, while the read end is shared.
    pub(super) readers: AtomicU32,
    /// The number of listener removals until the next sweep.
    pub(super) sweep_in: AtomicU16,
    /// The holder of `NOTIFYING` has seen that `inline` is full.
    pub(super) inline_pending: UnsafeCell<bool>,
    /// The unique reader has moved the outcome out.
    pub(super) taken: UnsafeCell<bool>,
    pub(super) inline: UnsafeCell<MaybeUninit<Listener>>,
    pub(super) outcome: UnsafeCell<MaybeUninit<Result<T, E>>>,
    /// Wakes the reader that sleeps on `state`.
    pub(super) word_waiters: WordWaiters,
    /// The executor on which listeners run; `None` means the thread that decides the outcome.
    pub(super) home: Option<Arc<dyn Executor>>,
    /// Listeners after the first.
    pub(super) nodes: NodeList,
    /// The cancel hook, which runs on the thread that cancels.
    pub(super) hook: AtomicPtr<Task>,
    /// Returns the failure of a promise whose writers were all dropped.
    pub(super) abandoned: fn() -> E,
}

/// A promise of one word with a pointer-sized failure fits into two cache lines. (Blocks in the
/// models are larger.)
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
const _: () = assert!(size_of::<Block<u64, Arc<()>>>() <= 128);

/// A pointer to a block, shared by the two ends and the notifier.
pub(super) struct BlockPtr<T: 'static, E: 'static>(pub(super) NonNull<Block<T, E>>);

impl<T, E> Clone for BlockPtr<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, E> Copy for BlockPtr<T, E> {}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    const LAYOUT: Layout = Layout::new::<Block<T, E>>();

    /// Creates a block. `deliver` receives the block when it was sent to `home` as a signal.
    /// `task` is `TASK` or 0.
    #[inline(always)]
    pub(super) fn allocate(
        deliver: unsafe fn(NonNull<SignalHeader>, Delivery),
        home: Option<Arc<dyn Executor>>,
        abandoned: fn() -> E,
        task: u32,
    ) -> Self {
        let memory = memory::take(Self::LAYOUT).cast::<Block<T, E>>();
        let block = Block {
            header: SignalHeader::new(deliver),
            state: AtomicU32::new(WRITER | READER | task),
            writers: AtomicU32::new(1),
            readers: AtomicU32::new(1),
            sweep_in: AtomicU16::new(SWEEP_AFTER),
            inline_pending: UnsafeCell::new(false),
            taken: UnsafeCell::new(false),
            inline: UnsafeCell::new(MaybeUninit::uninit()),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
            word_waiters: WordWaiters::new(),
            home,
            nodes: NodeList::new(),
            hook: AtomicPtr::new(ptr::null_mut()),
            abandoned,
        };
        // SAFETY: the memory is unused and has the block's layout.
        unsafe { memory.as_ptr().write(block) };
        Self(memory)
    }

    #[inline(always)]
    pub(super) fn get(&self) -> &Block<T, E> {
        // SAFETY: a `BlockPtr` is only kept by an owner whose bit is set in the state (writer,
        // reader, notifier), and the block is freed when the last bit is cleared.
        unsafe { self.0.as_ref() }
    }

    /// Returns the address of the state word. It is used as a futex key and not dereferenced.
    pub(super) fn word(&self) -> *const AtomicU32 {
        let offset = std::mem::offset_of!(Block<T, E>, state);
        self.0.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// Returns the address of the block, which identifies it.
    pub(super) fn addr(&self) -> usize {
        self.0.addr().get()
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// No owner bit is set, and the caller saw that with Acquire.
    pub(super) unsafe fn free(self) {
        let block = self.get();
        let state = block.state.load(Ordering::Relaxed);
        debug_assert_eq!(state & (LISTENER | INLINE), 0, "a listener was forgotten");
        // SAFETY: there is no other owner.
        let taken = block.taken.with(|taken| unsafe { *taken });
        if state & DONE != 0 && state & CANCELLED == 0 && !taken {
            // SAFETY: there is no other owner, and `DONE` without `CANCELLED` means that the
            // outcome was stored; it was not taken.
            match unsafe { block.take_outcome() } {
                Ok(value) => drop_contained(block.home.as_deref(), value),
                Err(cause) => drop_contained(block.home.as_deref(), cause),
            }
        }
        block.drop_hook();
        // SAFETY: the remaining fields are dropped here and not used again. The listener slot and
        // the outcome are `MaybeUninit` and were emptied before.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: `memory::take` returned this memory for the same layout.
        unsafe { memory::recycle(self.0.cast(), Self::LAYOUT) };
    }

    /// Clears the owner bit `bit` and frees the block if it was the last one.
    pub(super) fn give_up(self, bit: u32) {
        let block = self.get();
        // ORDERING: Acquire, so that freeing happens after everything the other owners did; pairs
        // with the Release of the operation by which each of them cleared its bit.
        let mut state = block.state.load(Ordering::Acquire);
        if state & OWNERS != bit {
            // ORDERING: AcqRel. Release publishes this owner's accesses to the owner that frees;
            // Acquire as above.
            state = block.state.fetch_and(!bit, Ordering::AcqRel);
        }
        if state & OWNERS == bit {
            // SAFETY: this was the last owner, seen with Acquire.
            unsafe { self.free() };
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    /// Moves the outcome out of the block.
    ///
    /// # Safety
    ///
    /// The outcome was stored and not moved out before, and the caller has exclusive access to it.
    pub(super) unsafe fn take_outcome(&self) -> Result<T, E> {
        // SAFETY: the caller guarantees exclusive access.
        let outcome = self.outcome.with_mut(|place| unsafe { place.read() });
        // SAFETY: the caller guarantees that the outcome was stored.
        unsafe { outcome.assume_init() }
    }

    pub(super) fn take_hook(&self) -> Option<Box<Task>> {
        if self.hook.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // ORDERING: AcqRel: Acquire pairs with the Release in `Block::on_cancel`; the swap gives
        // the hook to one thread.
        let hook = self.hook.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: non-null hooks come from `Box::into_raw`, and the swap transferred this one to
        // this thread.
        (!hook.is_null()).then(|| unsafe { Box::from_raw(hook) })
    }

    /// Drops the hook, which is no longer needed.
    #[inline(always)]
    pub(super) fn drop_hook(&self) {
        if !self.hook.load(Ordering::Relaxed).is_null() {
            self.drop_some_hook();
        }
    }

    #[cold]
    fn drop_some_hook(&self) {
        if let Some(hook) = self.take_hook() {
            depth::contain(self.home.as_deref(), || drop(hook));
        }
    }

    pub(super) fn load(&self) -> u32 {
        // ORDERING: Acquire, as in `Block::has`.
        self.state.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, bits: u32) -> bool {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set, so that everything
        // before the decision is visible to the caller.
        self.state.load(Ordering::Acquire) & bits != 0
    }

    pub(super) fn outcome(&self) -> Option<Outcome<&T, &E>> {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set.
        let state = self.state.load(Ordering::Acquire);
        if state & DONE == 0 {
            return None;
        }
        // SAFETY: `DONE` is set, and the caller (a reader or the notifier) keeps the outcome
        // from being taken: the unique reader takes it only through `&mut`, after all
        // notification.
        Some(unsafe { self.decided_outcome(state) })
    }

    /// Calls `see` with the outcome, if it is decided.
    #[inline(always)]
    pub(super) fn show(&self, see: impl FnOnce(Outcome<&T, &E>)) {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set.
        let state = self.state.load(Ordering::Acquire);
        if state & DONE == 0 {
            return;
        }
        if state & CANCELLED != 0 {
            return match state & UNSTARTED {
                0 => see(Outcome::Cancelled),
                _ => see(Outcome::Failure(&(self.abandoned)())),
            };
        }
        // SAFETY: `DONE` is set, and the caller holds `NOTIFYING`, so the outcome cannot be taken.
        see(unsafe { self.decided_outcome(state) });
    }

    /// Returns the outcome of a cancelled block: the failure if its task was never started, else
    /// `Cancelled`.
    pub(super) fn cancelled_outcome(&self, state: u32) -> Outcome<T, E> {
        match state & UNSTARTED {
            0 => Outcome::Cancelled,
            _ => Outcome::Failure((self.abandoned)()),
        }
    }

    /// Returns the outcome of a decided block.
    ///
    /// # Safety
    ///
    /// `state` contains `DONE` and was read with Acquire, and the outcome is not taken meanwhile.
    #[inline(always)]
    unsafe fn decided_outcome(&self, state: u32) -> Outcome<&T, &E> {
        if state & CANCELLED != 0 {
            return Outcome::Cancelled;
        }
        // SAFETY: `DONE` without `CANCELLED` means that the outcome was stored, and it does not
        // change after that.
        let outcome = self.outcome.with(|place| unsafe { &*place });
        // SAFETY: as above.
        match unsafe { outcome.assume_init_ref() } {
            Ok(value) => Outcome::Success(value),
            Err(cause) => Outcome::Failure(cause),
        }
    }
}

/// Increments a handle count. Aborts the process, as `Arc` does, before the count can overflow and
/// free a block that is in use.
pub(super) fn count_one(handles: &AtomicU32) {
    // Relaxed: a new reference made from a live one, as in `Arc`.
    if handles.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
        std::process::abort();
    }
}

/// Drops a user's value and contains a panic of its `Drop`.
#[inline(always)]
fn drop_contained<V>(home: Option<&dyn Executor>, value: V) {
    if const { std::mem::needs_drop::<V>() } {
        depth::contain(home, || drop(value));
    }
}
