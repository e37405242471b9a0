//! Listeners: closures that receive an outcome once, type-erased in four words.
//!
//! The layout is that of a `Task`, with an argument. A waker is a special kind of listener: it
//! needs no outcome and may be called on any thread, so a waiting thread is woken without a detour
//! through the promise's home.
//!
//! A listener does not know the types of its promise, only its vtable does. So the lists of
//! listeners are compiled once, and not for each type of promise. The caller of a listener passes an
//! outcome of the same types as the listener was made for; both are of one block.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ptr;
use std::task::Waker;

use tidegate_core::internal::Watch;
use tidegate_core::internal::prim::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

use crate::outcome::Outcome;

const WORDS: usize = 3;
type Data = [MaybeUninit<*mut ()>; WORDS];

/// A reference to an outcome, without its types.
type RawOutcome = Outcome<*const (), *const ()>;

struct Vtable {
    /// Calls and consumes the closure in `Data`, with an outcome of the types that it takes.
    call: unsafe fn(*mut Data, RawOutcome),
    /// Drops the closure in `Data`.
    drop: unsafe fn(*mut Data),
    /// Takes the waker out of `Data`. `None` if this listener is not a waker.
    waker: Option<unsafe fn(*mut Data) -> Waker>,
}

/// One listener. Dropping it drops the closure without calling it.
pub(super) struct Listener {
    vtable: &'static Vtable,
    data: Data,
}

impl Listener {
    /// Creates a listener from a closure, for a block of the types `T` and `E`.
    #[inline]
    pub(super) fn new<T: 'static, E: 'static, F>(listen: F) -> Self
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        let mut data: Data = [MaybeUninit::uninit(); WORDS];
        // A constant, so that only the code of one branch is generated.
        let vtable = if const { fits::<F>() } {
            // SAFETY: `fits` checked that size and alignment of `data` suffice for an `F`.
            unsafe { (&raw mut data).cast::<F>().write(listen) };
            Inline::<F, T, E>::VTABLE
        } else {
            data[0].write(Box::into_raw(Box::new(listen)).cast::<()>());
            Boxed::<F, T, E>::VTABLE
        };
        Self { vtable, data }
    }

    /// Creates a listener from a waker and its entry in the watch list.
    pub(super) fn waker(waker: Waker, watch: Option<Watch>) -> Self {
        const { assert!(mem::size_of::<Watched>() <= mem::size_of::<Data>()) };
        const { assert!(mem::align_of::<Watched>() <= mem::align_of::<Data>()) };
        let mut data: Data = [MaybeUninit::uninit(); WORDS];
        let watched: Watched = (waker, watch.map(Box::new));
        // SAFETY: size and alignment of `data` suffice for a `Watched`, checked above.
        unsafe { (&raw mut data).cast::<Watched>().write(watched) };
        Self {
            vtable: &WAKE,
            data,
        }
    }

    /// Returns a listener that drops `watch` when it is called or dropped.
    pub(super) fn watched(self, watch: Watch) -> Self {
        let mut data: Data = [MaybeUninit::uninit(); WORDS];
        data[0].write(Box::into_raw(Box::new((watch, self))).cast::<()>());
        Self {
            vtable: &WATCHED,
            data,
        }
    }

    /// Returns `true` if this is a waker, which may be called on any thread.
    pub(super) fn is_waker(&self) -> bool {
        self.vtable.waker.is_some()
    }

    /// Returns the waker, if this is one.
    pub(super) fn into_waker(self) -> Option<Waker> {
        let take = self.vtable.waker?;
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the vtable has this function, so `data` holds a waker; `ManuallyDrop` keeps it
        // from being dropped again.
        Some(unsafe { take(&raw mut this.data) })
    }

    /// Calls the listener.
    ///
    /// # Safety
    ///
    /// The listener was made for the types `T` and `E`.
    #[inline]
    pub(super) unsafe fn call<T: 'static, E: 'static>(self, outcome: Outcome<&T, &E>) {
        // SAFETY: the caller guarantees the types of the outcome.
        unsafe { self.call_raw(erase(outcome)) };
    }

    /// Calls the listener.
    ///
    /// # Safety
    ///
    /// The outcome has the types that the listener was made for.
    #[inline]
    unsafe fn call_raw(self, outcome: RawOutcome) {
        let mut this = ManuallyDrop::new(self);
        let call = this.vtable.call;
        // SAFETY: `data` holds the closure that this vtable was made for, and `ManuallyDrop`
        // keeps it from being dropped again after `call` has consumed it. The caller guarantees the
        // types of the outcome.
        unsafe { call(&raw mut this.data, outcome) };
    }

    /// Calls the listener in place, without moving it first.
    ///
    /// # Safety
    ///
    /// `place` holds a listener that the caller owns and does not use afterwards. It was made for
    /// the types `T` and `E`.
    #[inline(always)]
    pub(super) unsafe fn call_at<T: 'static, E: 'static>(
        place: *mut Self,
        outcome: Outcome<&T, &E>,
    ) {
        // SAFETY: the caller guarantees that there is a listener.
        let call = unsafe { &*place }.vtable.call;
        // SAFETY: as above; the field is part of it.
        let data = unsafe { &raw mut (*place).data };
        // SAFETY: `data` holds the closure that this vtable was made for, and it is not used
        // afterwards. The caller guarantees the types of the outcome.
        unsafe { call(data, erase(outcome)) };
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: a listener that is dropped was not called (`call` forgets it), so `data` still
        // holds its closure.
        unsafe { (self.vtable.drop)(&raw mut self.data) };
    }
}

// SAFETY: a listener is created only from a `Send` closure or a waker, which is `Send`.
unsafe impl Send for Listener {}

/// Takes the types off an outcome.
#[inline(always)]
fn erase<T, E>(outcome: Outcome<&T, &E>) -> RawOutcome {
    match outcome {
        Outcome::Success(value) => Outcome::Success(ptr::from_ref(value).cast()),
        Outcome::Failure(cause) => Outcome::Failure(ptr::from_ref(cause).cast()),
        Outcome::Cancelled => Outcome::Cancelled,
    }
}

/// Gives an outcome its types back.
///
/// # Safety
///
/// The outcome has these types and lives for `'a`.
#[inline(always)]
unsafe fn typed<'a, T, E>(outcome: RawOutcome) -> Outcome<&'a T, &'a E> {
    match outcome {
        // SAFETY: the caller guarantees it.
        Outcome::Success(value) => Outcome::Success(unsafe { &*value.cast() }),
        // SAFETY: the caller guarantees it.
        Outcome::Failure(cause) => Outcome::Failure(unsafe { &*cause.cast() }),
        Outcome::Cancelled => Outcome::Cancelled,
    }
}

/// Whether an `F` fits into the words of a listener.
const fn fits<F>() -> bool {
    mem::size_of::<F>() <= mem::size_of::<Data>() && mem::align_of::<F>() <= mem::align_of::<Data>()
}

/// The vtable of a closure stored in the listener's own words.
struct Inline<F, T, E>(PhantomData<(F, T, E)>);

impl<F, T: 'static, E: 'static> Inline<F, T, E>
where
    F: FnOnce(Outcome<&T, &E>) + Send + 'static,
{
    const VTABLE: &'static Vtable = &Vtable {
        call: Self::call,
        drop: Self::drop,
        waker: None,
    };

    unsafe fn call(data: *mut Data, outcome: RawOutcome) {
        // SAFETY: the caller passes data that holds a live `F` and does not use it afterwards.
        let listen = unsafe { data.cast::<F>().read() };
        // SAFETY: the caller passes an outcome of the types that `F` takes.
        listen(unsafe { typed(outcome) });
    }

    unsafe fn drop(data: *mut Data) {
        // SAFETY: the caller passes data that holds a live `F` and does not use it afterwards.
        unsafe { data.cast::<F>().drop_in_place() };
    }
}

/// The vtable of a boxed closure; the first word is the box.
struct Boxed<F, T, E>(PhantomData<(F, T, E)>);

impl<F, T: 'static, E: 'static> Boxed<F, T, E>
where
    F: FnOnce(Outcome<&T, &E>) + Send + 'static,
{
    const VTABLE: &'static Vtable = &Vtable {
        call: Self::call,
        drop: Self::drop,
        waker: None,
    };

    unsafe fn unbox(data: *mut Data) -> Box<F> {
        // SAFETY: the caller passes data made for a boxed `F`: word 0 is the box.
        let word = unsafe { data.cast::<*mut F>().read() };
        // SAFETY: that word came from `Box::into_raw`, and the caller does not use it afterwards.
        unsafe { Box::from_raw(word) }
    }

    unsafe fn call(data: *mut Data, outcome: RawOutcome) {
        // SAFETY: the caller guarantees what `unbox` requires.
        let listen = unsafe { Self::unbox(data) };
        // SAFETY: the caller passes an outcome of the types that `F` takes.
        listen(unsafe { typed(outcome) });
    }

    unsafe fn drop(data: *mut Data) {
        // SAFETY: the caller guarantees what `unbox` requires.
        drop(unsafe { Self::unbox(data) });
    }
}

/// The vtable of a listener with a watch; the first word is the box of both.
static WATCHED: Vtable = Vtable {
    call: call_watched,
    drop: drop_watched,
    waker: None,
};

unsafe fn unbox_watched(data: *mut Data) -> Box<(Watch, Listener)> {
    // SAFETY: the caller passes data made by `Listener::watched`: word 0 is the box.
    let word = unsafe { data.cast::<*mut (Watch, Listener)>().read() };
    // SAFETY: that word came from `Box::into_raw`, and the caller does not use it afterwards.
    unsafe { Box::from_raw(word) }
}

unsafe fn call_watched(data: *mut Data, outcome: RawOutcome) {
    // SAFETY: the caller guarantees what `unbox_watched` requires.
    let (watch, listener) = *unsafe { unbox_watched(data) };
    drop(watch);
    // SAFETY: the caller passes an outcome of the types that the listener takes.
    unsafe { listener.call_raw(outcome) };
}

unsafe fn drop_watched(data: *mut Data) {
    // SAFETY: the caller guarantees what `unbox_watched` requires.
    drop(unsafe { unbox_watched(data) });
}

/// The data of a waker, of three words.
type Watched = (Waker, Option<Box<Watch>>);

/// The vtable of a waker.
static WAKE: Vtable = Vtable {
    call: call_waker,
    drop: drop_waker,
    waker: Some(take_waker),
};

unsafe fn take_waker(data: *mut Data) -> Waker {
    // SAFETY: the caller passes data that holds a live waker and does not use it afterwards.
    let (waker, watch) = unsafe { data.cast::<Watched>().read() };
    drop(watch);
    waker
}

unsafe fn call_waker(data: *mut Data, _outcome: RawOutcome) {
    // SAFETY: the caller guarantees what `take_waker` requires.
    unsafe { take_waker(data) }.wake();
}

unsafe fn drop_waker(data: *mut Data) {
    // SAFETY: the caller guarantees what `take_waker` requires.
    drop(unsafe { take_waker(data) });
}

/// A list node for a listener after the first one.
pub(super) struct Node {
    /// The next older node while in the inbox; the next newer one while in the queue.
    pub(super) next: AtomicPtr<Node>,
    /// [`WAITING`], then [`GONE`].
    state: AtomicU32,
    is_waker: bool,
    listener: UnsafeCell<MaybeUninit<Listener>>,
}

/// The node holds its listener.
const WAITING: u32 = 0;
/// The listener was taken out, to be called or dropped.
const GONE: u32 = 1;

// SAFETY: the listener is `Send` and only ever taken out whole, by the one thread that swaps
// `state`.
unsafe impl Send for Node {}
// SAFETY: as above; no reference to the listener is handed out.
unsafe impl Sync for Node {}

impl Node {
    pub(super) fn new(listener: Listener) -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU32::new(WAITING),
            is_waker: listener.is_waker(),
            listener: UnsafeCell::new(MaybeUninit::new(listener)),
        }
    }

    pub(super) fn is_waker(&self) -> bool {
        self.is_waker
    }

    /// Returns `true` if the listener was taken out.
    pub(super) fn is_gone(&self) -> bool {
        self.state.load(Ordering::Relaxed) == GONE
    }

    /// Takes the listener out, to call it or to remove it. Returns `Some` only once.
    pub(super) fn take(&self) -> Option<Listener> {
        // ORDERING: AcqRel between the thread that calls and the thread that removes: one of them
        // wins.
        if self.state.swap(GONE, Ordering::AcqRel) == GONE {
            return None;
        }
        // SAFETY: the swap gave this thread exclusive access to the listener.
        let listener = self.listener.with_mut(|place| unsafe { place.read() });
        // SAFETY: `new` stored the listener.
        Some(unsafe { listener.assume_init() })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("gone", &self.is_gone())
            .finish()
    }
}
