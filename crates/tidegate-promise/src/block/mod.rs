//! The promise block: one heap block, one state word, the first listener inline.
//!
//! [`Writer`] and [`Reader`] are the two ends of a block: the raw, minimal ones, on which
//! `tidegate-promise` builds what users see. [`state`] has the bits and says who may touch
//! which field when; [`notify`] runs the listeners where they belong.
//!
//! A block that lives the common life (made, listened to, completed) costs one atomic
//! read-modify-write when its read end is given up with the listener, three otherwise, and no
//! lock.

#![expect(
    unsafe_code,
    reason = "the block is shared memory, handed from thread to thread by one state word"
)]

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tidegate_core::internal::SignalHeader;
use tidegate_core::prim::{AtomicPtr, AtomicU16, AtomicU32, Ordering, UnsafeCell, fence};
use tidegate_core::{Executor, Task};

use self::bell::Bell;
use self::listener::{Listener, Node};
use self::state::{
    CANCELLED, CLAIMED, DONE, INLINE, LEFT, LISTENER, NOTIFYING, OWED, OWNERS, READER, SLEEPER,
    UNCANCELLABLE, WRITER, is_settled,
};

mod bell;
mod depth;
mod listener;
mod notify;
mod pool;
mod reader;
mod sleepers;
mod state;
mod watched;
mod writer;

pub use self::reader::{ListenerToken, Reader, SharedReader};
pub use self::sleepers::wake_sleepers;
pub use self::watched::tell_left;
pub use self::writer::{SharedWriter, Writer};

/// How something ended: exactly one of three ways.
///
/// ```
/// use tidegate_promise::Outcome;
///
/// let outcome: Outcome<u32, String> = Outcome::Success(7);
/// assert_eq!(outcome.as_ref().success(), Some(&7));
/// assert!(!outcome.is_cancelled());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T, E> {
    /// It succeeded.
    Success(T),
    /// It failed.
    Failure(E),
    /// It was cancelled before it was completed.
    Cancelled,
}

impl<T, E> Outcome<T, E> {
    /// The same outcome, borrowed.
    pub fn as_ref(&self) -> Outcome<&T, &E> {
        match self {
            Self::Success(value) => Outcome::Success(value),
            Self::Failure(cause) => Outcome::Failure(cause),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The value of a success.
    pub fn success(self) -> Option<T> {
        match self {
            Self::Success(value) => Some(value),
            _ => None,
        }
    }

    /// The cause of a failure.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failure(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether it succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl<T: Clone, E: Clone> Outcome<&T, &E> {
    /// The same outcome, owned.
    pub fn cloned(self) -> Outcome<T, E> {
        match self {
            Outcome::Success(value) => Outcome::Success(value.clone()),
            Outcome::Failure(cause) => Outcome::Failure(cause.clone()),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}

/// The block itself. Fields in the order in which they are used, so that a promise of a word
/// with one listener touches two cache lines.
#[repr(C)]
struct Block<T: 'static, E: 'static> {
    /// The link to hang in a signal lane; must come first.
    header: SignalHeader,
    state: AtomicU32,
    /// Shared writers, while the write end is shared.
    writers: AtomicU32,
    /// Shared readers, while the read end is shared.
    readers: AtomicU32,
    /// Removals of listeners until the next sweep.
    sweep_in: AtomicU16,
    /// The holder of `NOTIFYING` has seen that `inline` is full.
    inline_waits: UnsafeCell<bool>,
    /// The unique reader has moved the outcome out.
    taken: UnsafeCell<bool>,
    inline: UnsafeCell<MaybeUninit<Listener<T, E>>>,
    outcome: UnsafeCell<MaybeUninit<Result<T, E>>>,
    /// By which the reader is woken when it sleeps on `state`.
    bell: Bell,
    /// Where listeners run; `None` means wherever the outcome is decided.
    home: Option<Arc<dyn Executor>>,
    /// Listeners beyond the first, newest first.
    inbox: AtomicPtr<Node<T, E>>,
    /// Listeners taken out of the inbox, oldest first.
    queue: UnsafeCell<*const Node<T, E>>,
    /// What runs on the thread that cancels.
    hook: AtomicPtr<Task>,
    /// The failure of a promise whose writers are all gone.
    abandoned: fn() -> E,
}

/// A promise of a word, failing with a pointer, fills two cache lines. (Those of
/// the models are larger.)
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
const _: () = assert!(size_of::<Block<u64, Arc<()>>>() <= 128);

/// A pointer to a block, by which the two ends and the notification share it.
struct BlockPtr<T: 'static, E: 'static>(NonNull<Block<T, E>>);

impl<T, E> Clone for BlockPtr<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, E> Copy for BlockPtr<T, E> {}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    const LAYOUT: Layout = Layout::new::<Block<T, E>>();

    #[inline(always)]
    fn allocate(home: Option<Arc<dyn Executor>>, abandoned: fn() -> E, owed: u32) -> Self {
        let memory = pool::take(Self::LAYOUT).cast::<Block<T, E>>();
        let block = Block {
            header: SignalHeader::new(notify::deliver::<T, E>),
            state: AtomicU32::new(WRITER | READER | owed),
            writers: AtomicU32::new(1),
            readers: AtomicU32::new(1),
            sweep_in: AtomicU16::new(notify::SWEEP_AFTER),
            inline_waits: UnsafeCell::new(false),
            taken: UnsafeCell::new(false),
            inline: UnsafeCell::new(MaybeUninit::uninit()),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
            bell: Bell::new(),
            home,
            inbox: AtomicPtr::new(ptr::null_mut()),
            queue: UnsafeCell::new(ptr::null()),
            hook: AtomicPtr::new(ptr::null_mut()),
            abandoned,
        };
        // SAFETY: the memory is fresh and of the block's layout.
        unsafe { memory.as_ptr().write(block) };
        Self(memory)
    }

    #[inline(always)]
    fn get(&self) -> &Block<T, E> {
        // SAFETY: a `BlockPtr` is only kept by somebody whose owner bit is set in the state
        // (writer, reader, notifier), and the block is freed when the last bit is cleared.
        unsafe { self.0.as_ref() }
    }

    /// Where its state lies, to be named and not to be looked at.
    fn word(&self) -> *const AtomicU32 {
        let offset = std::mem::offset_of!(Block<T, E>, state);
        self.0.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// Where the block lies, to tell it from others.
    fn addr(&self) -> usize {
        self.0.addr().get()
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// No owner bit is set any more, and the caller saw that with Acquire.
    unsafe fn free(self) {
        let block = self.get();
        let state = block.state.load(Ordering::Relaxed);
        debug_assert_eq!(state & (LISTENER | INLINE), 0, "a listener was forgotten");
        // SAFETY: nobody else is left.
        let taken = block.taken.with(|taken| unsafe { *taken });
        if state & DONE != 0 && state & CANCELLED == 0 && !taken {
            // SAFETY: nobody else is left, and `DONE` without `CANCELLED` says that the outcome
            // was stored; it was not taken.
            match unsafe { block.take_outcome() } {
                Ok(value) => drop_contained(block.home.as_deref(), value),
                Err(cause) => drop_contained(block.home.as_deref(), cause),
            }
        }
        block.drop_hook();
        // SAFETY: what is left in the block is dropped here and not used again. The listener
        // slot and the outcome are `MaybeUninit` and have been dealt with.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: the memory came from the pool with this layout.
        unsafe { pool::give(self.0.cast(), Self::LAYOUT) };
    }

    /// Decides the outcome if `next` finds a next state; `None` means that it was decided
    /// before. Answers whether listeners wait to be told and this thread must see to it.
    ///
    /// On the pointer, not on a reference: another owner may free the block as soon as the
    /// state has changed.
    #[inline(always)]
    fn decide(self, next: impl Fn(u32) -> Option<u32>) -> Option<Decided> {
        let word = &self.get().state;
        let bell = self.get().bell.clone();
        let mut state = word.load(Ordering::Relaxed);
        loop {
            let mut next = next(state)?;
            let notify = state & LISTENER != 0 && state & NOTIFYING == 0;
            if notify {
                next = (next | NOTIFYING) & !(LISTENER | INLINE);
            }
            // ORDERING: AcqRel. Release publishes the outcome to every Acquire load of `DONE`;
            // Acquire pairs with the Release by which listeners were added.
            match word.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Decided {
                        notify,
                        inline: notify && state & INLINE != 0,
                        state: next,
                        bell,
                    });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Decides the outcome for a unique writer that is the only owner left, which is the case
    /// when the read end was given up with its listener: nobody else can change the state, so a
    /// plain store will do. `None` if there is another owner; it must then be done by [`decide`].
    ///
    /// [`decide`]: Self::decide
    #[inline(always)]
    fn decide_alone(self, leave: u32) -> Option<Decided> {
        let word = &self.get().state;
        // ORDERING: Acquire pairs with the Release by which the read end announced its listener
        // and left.
        let state = word.load(Ordering::Acquire);
        if state & (OWNERS | DONE) != WRITER {
            return None;
        }
        let notify = state & LISTENER != 0;
        let mut next = (state | DONE) & !leave;
        if notify {
            next = (next | NOTIFYING) & !(LISTENER | INLINE);
        }
        word.store(next, Ordering::Relaxed);
        Some(Decided {
            notify,
            inline: state & INLINE != 0,
            state: next,
            bell: self.get().bell.clone(),
        })
    }

    /// Cancels; false if the outcome is decided, being stored, or cannot be cancelled.
    fn cancel(self) -> bool {
        let Some(decided) = self.decide(|state| {
            (state & (DONE | CLAIMED | UNCANCELLABLE) == 0).then_some(state | DONE | CANCELLED)
        }) else {
            return false;
        };
        // ORDERING: SeqCst fence between setting `CANCELLED` and looking for a hook; pairs with
        // the fence in `Block::on_cancel`.
        fence(Ordering::SeqCst);
        self.after_cancel(&decided);
        true
    }

    /// What comes after a cancellation: the hook runs, the listeners are told.
    fn after_cancel(self, decided: &Decided) {
        let block = self.get();
        if let Some(hook) = block.take_hook() {
            depth::run_hook(block.home.as_ref(), hook);
        }
        decided.tell(self);
    }

    /// Gives up on a task that its home has left: it is cancelled, so that it does not run any more,
    /// and this is what its reader is told. `None` if it is not left, or has begun after all.
    fn give_up_on_left(self) -> Option<E> {
        if !self.get().is_left() {
            return None;
        }
        let decided = self.decide_left()?;
        self.after_cancel(&decided);
        Some((self.get().abandoned)())
    }

    /// Clears `bit` and frees the block if nobody else needs it.
    fn give_up(self, bit: u32) {
        let block = self.get();
        // ORDERING: Acquire, so that freeing comes after whatever the other owners did; pairs
        // with the Release of the operation by which each of them cleared its bit.
        let mut state = block.state.load(Ordering::Acquire);
        if state & OWNERS != bit {
            // ORDERING: AcqRel. Release hands what this owner did to the one that frees; Acquire
            // as above.
            state = block.state.fetch_and(!bit, Ordering::AcqRel);
        }
        if state & OWNERS == bit {
            // SAFETY: this was the last owner, seen with Acquire.
            unsafe { self.free() };
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    /// Moves the outcome out.
    ///
    /// # Safety
    ///
    /// It was stored, was not moved out before, and the caller alone may touch it.
    unsafe fn take_outcome(&self) -> Result<T, E> {
        // SAFETY: as the caller promises.
        let outcome = self.outcome.with_mut(|place| unsafe { place.read() });
        // SAFETY: as the caller promises.
        unsafe { outcome.assume_init() }
    }

    fn take_hook(&self) -> Option<Box<Task>> {
        if self.hook.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // ORDERING: AcqRel: Acquire pairs with the Release in `Writer::on_cancel`; the swap
        // gives the hook to one thread.
        let hook = self.hook.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: non-null hooks come from `Box::into_raw`, and the swap gave this one away.
        (!hook.is_null()).then(|| unsafe { Box::from_raw(hook) })
    }

    /// Drops the hook, which will never be needed.
    #[inline(always)]
    fn drop_hook(&self) {
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

    /// Whether this is the block of a task that its home has accepted, has not begun and has left.
    fn is_left(&self) -> bool {
        // ORDERING: Acquire, as in `has`.
        let state = self.state.load(Ordering::Acquire);
        let open = state & (OWED | DONE | CLAIMED | UNCANCELLABLE) == OWED;
        open && self.home.as_ref().is_some_and(|home| home.has_left_tasks())
    }

    fn has(&self, bits: u32) -> bool {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set, so that who sees the
        // block done sees what happened before.
        self.state.load(Ordering::Acquire) & bits != 0
    }

    fn outcome(&self) -> Option<Outcome<&T, &E>> {
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

    /// Shows the outcome to a listener, if it is decided.
    #[inline(always)]
    fn show(&self, see: impl FnOnce(Outcome<&T, &E>)) {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set.
        let state = self.state.load(Ordering::Acquire);
        if state & DONE == 0 {
            return;
        }
        if state & CANCELLED != 0 {
            return match state & LEFT {
                0 => see(Outcome::Cancelled),
                _ => see(Outcome::Failure(&(self.abandoned)())),
            };
        }
        // SAFETY: `DONE` is set, and the caller, who notifies, keeps the outcome from being taken.
        see(unsafe { self.decided_outcome(state) });
    }

    /// What the outcome of a cancelled block is to whoever reads it.
    fn cancelled_outcome(&self, state: u32) -> Outcome<T, E> {
        match state & LEFT {
            0 => Outcome::Cancelled,
            _ => Outcome::Failure((self.abandoned)()),
        }
    }

    /// # Safety
    ///
    /// `state` has `DONE` and was read with Acquire, and the outcome is not taken meanwhile.
    #[inline(always)]
    unsafe fn decided_outcome(&self, state: u32) -> Outcome<&T, &E> {
        if state & CANCELLED != 0 {
            return Outcome::Cancelled;
        }
        // SAFETY: `DONE` without `CANCELLED` says that the outcome was stored, and nobody
        // changes it any more.
        let outcome = self.outcome.with(|place| unsafe { &*place });
        // SAFETY: as above.
        match unsafe { outcome.assume_init_ref() } {
            Ok(value) => Outcome::Success(value),
            Err(cause) => Outcome::Failure(cause),
        }
    }
}

/// Counts one more handle. Ends the process, as `Arc` does, before a program that forgets handles
/// by the billion makes the count wrap and frees what is in use.
fn count_one(handles: &AtomicU32) {
    // Relaxed: a new reference made from a live one, as in `Arc`.
    if handles.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
        std::process::abort();
    }
}

/// Drops something of the user's; its panic goes no further.
#[inline(always)]
fn drop_contained<V>(home: Option<&dyn Executor>, value: V) {
    if std::mem::needs_drop::<V>() {
        depth::contain(home, || drop(value));
    }
}

/// What a thread that decided an outcome has to see to.
struct Decided {
    /// It got the right to notify.
    notify: bool,
    /// The inline listener is among those to be told.
    inline: bool,
    /// The state it left.
    state: u32,
    bell: Bell,
}

impl Decided {
    /// Tells the listeners, or wakes the reader that sleeps on the block. The block may be gone
    /// unless this thread got the right to notify.
    #[inline(always)]
    fn tell<T: Send + 'static, E: Send + 'static>(&self, ptr: BlockPtr<T, E>) {
        if self.notify {
            notify::start(ptr, self.inline);
        } else if self.state & SLEEPER != 0 && is_settled(self.state) {
            self.bell.ring(ptr.word());
        }
    }
}

/// Makes a block and answers its two ends. `home` is where listeners run, `abandoned` makes the
/// failure for a block whose write end is dropped undecided.
#[inline]
pub fn block<T: Send + 'static, E: Send + 'static>(
    home: Option<Arc<dyn Executor>>,
    abandoned: fn() -> E,
) -> (Writer<T, E>, Reader<T, E>) {
    let block = BlockPtr::allocate(home, abandoned, 0);
    (Writer::new(block), Reader::new(block))
}

/// [`block`] for the outcome of a task that `home` has accepted. Where `home` ends without having
/// begun it ([`Executor::has_left_tasks`]), readers see `left` instead of waiting for ever.
#[inline]
pub fn owed_block<T: Send + 'static, E: Send + 'static>(
    home: Arc<dyn Executor>,
    left: fn() -> E,
) -> (Writer<T, E>, Reader<T, E>) {
    let block = BlockPtr::allocate(Some(home), left, OWED);
    (Writer::new(block), Reader::new(block))
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
