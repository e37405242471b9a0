//! Signals: notifications about work that was accepted earlier, sent to a loop without allocating.
//!
//! A signal is one reference to a heap block that begins with a [`SignalHeader`]. The header
//! contains the link by which the block is queued in a loop's signal lane. Queueing therefore needs
//! no memory, and a signal is never refused for lack of memory. A block is in at most one lane at a
//! time; the code that creates the [`Signal`] ensures that.
//!
//! Code without unsafe creates signals with [`SignalBlock`]: a value in an `Arc` that can be raised
//! as a signal and that knows whether a signal for it already exists.

use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::sys::prim::{AtomicBool, AtomicPtr, Ordering};

/// How a signal reaches its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// On the executor to which it was sent.
    Home,
    /// On the thread that dropped the signal: the executor to which it was sent refused it, or has
    /// terminated.
    Orphaned,
}

/// The first field of every block that can be a signal: the link and the delivery function.
#[derive(Debug)]
#[repr(C)]
pub struct SignalHeader {
    /// The next block in the lane. Written only by the owner of the signal's reference: the thread
    /// that pushes the signal, then the thread that took it out of the lane.
    pub next: AtomicPtr<SignalHeader>,
    /// Delivers the block and takes over the reference that the signal owned.
    deliver: unsafe fn(NonNull<SignalHeader>, Delivery),
}

impl SignalHeader {
    /// Creates a header whose block is delivered by `deliver`, which takes over the signal's
    /// reference.
    pub fn new(deliver: unsafe fn(NonNull<SignalHeader>, Delivery)) -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            deliver,
        }
    }
}

/// A notification on its way to an executor. It owns one reference to its block.
///
/// Dropping a signal delivers it as [`Delivery::Orphaned`], so that no notification is lost
/// silently.
#[must_use = "a signal that is dropped is delivered as orphaned"]
pub struct Signal {
    block: NonNull<SignalHeader>,
}

impl Signal {
    /// Creates a signal that owns one reference to `block`.
    ///
    /// # Safety
    ///
    /// `block` must point to a live block that begins with this header, the caller gives up one
    /// reference to it, any thread must be able to use the block, and no other signal for it may
    /// exist until this one is delivered.
    #[doc(hidden)]
    pub unsafe fn from_block(block: NonNull<SignalHeader>) -> Self {
        Self { block }
    }

    /// Returns the address of the block, to distinguish it from others.
    #[doc(hidden)]
    pub fn addr(&self) -> usize {
        self.block.addr().get()
    }

    /// Returns the block without delivering the signal; the counterpart of [`Signal::from_block`].
    #[doc(hidden)]
    pub fn into_block(self) -> NonNull<SignalHeader> {
        let block = self.block;
        mem::forget(self);
        block
    }

    /// Delivers the signal to its block. Called by the executor that received the signal, on its
    /// own thread.
    #[inline]
    pub fn deliver(self) {
        self.deliver_as(Delivery::Home);
    }

    fn deliver_as(self, how: Delivery) {
        let block = self.into_block();
        // SAFETY: the signal owned a reference to the block, so it is alive.
        let deliver = unsafe { block.as_ref() }.deliver;
        // SAFETY: that reference is handed to `deliver`, and this signal is gone.
        unsafe { deliver(block, how) };
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // SAFETY: the signal owns a reference to the block, so it is alive.
        let deliver = unsafe { self.block.as_ref() }.deliver;
        // SAFETY: that reference is handed to `deliver`, and this signal ends here.
        unsafe { deliver(self.block, Delivery::Orphaned) };
    }
}

// SAFETY: `from_block` requires a block that any thread may use.
unsafe impl Send for Signal {}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.block).finish()
    }
}

/// The delivery function of a [`SignalBlock`].
pub trait Deliver: Send + Sync + Sized + 'static {
    /// Called once for each raised signal, on the receiving executor, or on the thread that dropped
    /// the signal if `how` is orphaned. The block can already be raised again during this call.
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery);
}

/// A value in an `Arc` that can be raised as a signal, at most once at a time.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
///
/// struct Count(AtomicU32);
/// impl Deliver for Count {
///     fn deliver(block: Arc<SignalBlock<Self>>, _how: Delivery) {
///         block.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let block = SignalBlock::new(Count(AtomicU32::new(0)));
/// let signal = block.raise().expect("not raised yet");
/// assert!(block.raise().is_none(), "raised already");
/// signal.deliver();
/// assert_eq!(block.0.load(Ordering::Relaxed), 1);
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct SignalBlock<S> {
    header: SignalHeader,
    /// Set while a signal for this block exists.
    raised: AtomicBool,
    value: S,
}

impl<S: Deliver> SignalBlock<S> {
    /// Creates a block that contains `value`.
    pub fn new(value: S) -> Arc<Self> {
        Arc::new(Self {
            header: SignalHeader::new(deliver_block::<S>),
            raised: AtomicBool::new(false),
            value,
        })
    }

    /// Returns a signal for this block, or `None` if a signal for it is already in flight. The
    /// delivery of that signal sees what the caller wrote before this call.
    pub fn raise(self: &Arc<Self>) -> Option<Signal> {
        // ORDERING: AcqRel. Release publishes what the caller wrote before raising to the swap in
        // `deliver_block` (whether this call made the signal or found one in flight); Acquire makes
        // that swap's `false` visible with what its thread did before.
        if self.raised.swap(true, Ordering::AcqRel) {
            return None;
        }
        let block = Arc::into_raw(Arc::clone(self))
            .cast_mut()
            .cast::<SignalHeader>();
        let block = NonNull::new(block).expect("an Arc is never null");
        // SAFETY: the header is the first field of the block (`repr(C)`), the reference comes
        // from the clone just made, `S: Deliver` is `Send + Sync`, and `raised` was false, so
        // no other signal for this block exists.
        Some(unsafe { Signal::from_block(block) })
    }
}

impl<S> std::ops::Deref for SignalBlock<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.value
    }
}

unsafe fn deliver_block<S: Deliver>(header: NonNull<SignalHeader>, how: Delivery) {
    // SAFETY: only `raise` makes signals with this function, from an `Arc<SignalBlock<S>>`
    // whose reference the signal owned and now gives up.
    let block = unsafe { Arc::from_raw(header.as_ptr().cast_const().cast::<SignalBlock<S>>()) };
    // ORDERING: AcqRel pairs with the swap in `raise`: a raise that found `true` happened before
    // this, so what it wrote is visible to the delivery; a later raise finds `false` and makes a
    // new signal.
    block.raised.swap(false, Ordering::AcqRel);
    S::deliver(block, how);
}
