//! Cancellation tokens: how running work learns that its result is no longer wanted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::clock::{Clock, as_nanos, origin};
use crate::contain::{contain, discard, discard_all};
use crate::parker::Parker;
use crate::sys::prim::unpoisoned;
use crate::unhandled::{OnUnhandled, Unhandled};

/// A request to stop, shared between the work and the code that cancels it. Clones are handles to
/// the same token.
///
/// Rust cannot interrupt a thread: the work polls the token or registers a hook. Every wait of this
/// library that takes a token ends when the token is cancelled.
///
/// ```
/// use tidegate_core::CancelToken;
///
/// let token = CancelToken::new();
/// let (tx, rx) = std::sync::mpsc::channel();
/// let _hook = token.on_cancel(move || tx.send("stop").unwrap());
/// assert!(token.cancel());
/// assert!(token.is_cancelled());
/// assert_eq!(rx.recv(), Ok("stop"));
/// assert!(!token.cancel(), "only the first call trips it");
/// ```
#[derive(Clone, Default)]
pub struct CancelToken {
    shared: Arc<Shared>,
}

struct Shared {
    cancelled: AtomicBool,
    /// Set when the first hook or waiting thread is registered. Never cleared.
    hooked: AtomicBool,
    /// Nanoseconds from the process's origin of time, negative before it; `NEVER` means no
    /// deadline.
    deadline: AtomicI64,
    hooks: Mutex<Hooks>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            cancelled: AtomicBool::new(false),
            hooked: AtomicBool::new(false),
            deadline: AtomicI64::new(NEVER),
            hooks: Mutex::default(),
        }
    }
}

#[derive(Default)]
struct Hooks {
    next: u64,
    /// By their numbers, so oldest first. Any of them is removed in logarithmic time.
    waiting: BTreeMap<u64, Hook>,
}

enum Hook {
    /// A library thread that waits; the thread that cancels the token wakes it.
    Wake(Parker),
    /// User code.
    Call(Box<dyn FnOnce() + Send>),
}

const NEVER: i64 = i64::MAX;

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets or clears the time at which the work is expected to be done. Called by the code that
    /// created the token.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        let nanos = |span| i64::try_from(as_nanos(span)).unwrap_or(NEVER);
        let offset = deadline.map_or(NEVER, |at| match at.checked_duration_since(origin()) {
            Some(after) => nanos(after),
            None => -nanos(origin().saturating_duration_since(at)),
        });
        self.shared.deadline.store(offset, Ordering::Relaxed);
    }

    /// Does the same as [`CancelToken::set_deadline`], with a time in nanoseconds of `clock`.
    #[doc(hidden)]
    #[inline]
    pub fn set_deadline_at(&self, clock: &Clock, nanos: u64) {
        let offset = if clock.is_manual() {
            return self.set_deadline(clock.instant_at(nanos));
        } else {
            i64::try_from(nanos).unwrap_or(NEVER)
        };
        self.shared.deadline.store(offset, Ordering::Relaxed);
    }

    /// Returns `true` if no other code can have used this token: no clone of it is alive, it was
    /// not cancelled and it never had a hook. Such a token can be reused for the next call.
    #[doc(hidden)]
    #[inline]
    pub fn is_untouched(&self) -> bool {
        if Arc::strong_count(&self.shared) != 1 {
            return false;
        }
        // ORDERING: Acquire pairs with the Release that the drop of the last clone makes: a hook
        // that another thread added with its clone is seen here.
        fence(Ordering::Acquire);
        !self.shared.hooked.load(Ordering::Relaxed)
            && !self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Cancels the token and calls its hooks on this thread, oldest first. Returns `true` if this
    /// call cancelled it. If the token was already cancelled, calls no hook. A panicking hook does
    /// not prevent the others from running.
    pub fn cancel(&self) -> bool {
        let first = self.cancel_without_hooks();
        if first {
            self.run_hooks();
        }
        first
    }

    /// Cancels the token and wakes the waits that watch it, but calls no hook: for a thread that
    /// must not run user code. Returns `true` if this call cancelled it; the caller then arranges
    /// for [`CancelToken::run_hooks`] on another thread if [`CancelToken::has_hooks`] returns
    /// `true`.
    ///
    /// ```
    /// use tidegate_core::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let (tx, rx) = std::sync::mpsc::channel();
    /// token.on_cancel(move || tx.send("stop").unwrap()).forget();
    /// assert!(token.cancel_without_hooks() && token.is_cancelled() && token.has_hooks());
    /// assert!(rx.try_recv().is_err(), "not yet");
    /// token.run_hooks();
    /// assert_eq!(rx.recv(), Ok("stop"));
    /// ```
    #[doc(hidden)]
    pub fn cancel_without_hooks(&self) -> bool {
        // ORDERING: AcqRel. Release publishes what the canceller did to any thread that then sees
        // the token cancelled (Acquire in `is_cancelled`). Acquire, so that a later caller
        // sees it too.
        if self.shared.cancelled.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut hooks = self.lock();
        let all = std::mem::take(&mut hooks.waiting);
        let is_wake = |(_, hook): &(u64, Hook)| matches!(hook, Hook::Wake(_));
        let (wakes, calls): (BTreeMap<_, _>, _) = all.into_iter().partition(is_wake);
        hooks.waiting = calls;
        drop(hooks);
        for hook in wakes.into_values() {
            hook.run(SOURCE, &OnUnhandled::default());
        }
        true
    }

    /// Returns `true` if there are hooks to call or to [drop](CancelToken::drop_hooks). Before the
    /// token is cancelled, a registered waiting thread counts as a hook.
    #[doc(hidden)]
    pub fn has_hooks(&self) -> bool {
        self.shared.hooked.load(Ordering::Relaxed) && !self.lock().waiting.is_empty()
    }

    /// Calls the hooks of a cancelled token on this thread, oldest first. Each hook is called once,
    /// even if several threads call this. Does nothing before the token is cancelled.
    #[doc(hidden)]
    pub fn run_hooks(&self) {
        self.run_hooks_to(SOURCE, &OnUnhandled::default());
    }

    /// Does the same as [`CancelToken::run_hooks`], but reports panics of hooks to `report_to`,
    /// under the name `source`.
    #[doc(hidden)]
    pub fn run_hooks_to(&self, source: &str, report_to: &OnUnhandled) {
        while let Some(hook) = self.next_hook() {
            hook.run(source, report_to);
        }
    }

    fn next_hook(&self) -> Option<Hook> {
        let mut hooks = self.lock();
        let next = self.is_cancelled().then(|| hooks.waiting.pop_first())?;
        next.map(|(_, hook)| hook)
    }

    /// Drops the hooks on this thread without calling them, and removes the registrations of
    /// waiting threads without waking them. Called at the end of the work, when the token will not
    /// be cancelled any more.
    #[doc(hidden)]
    pub fn drop_hooks(&self) {
        let hooks = std::mem::take(&mut self.lock().waiting);
        discard_all(hooks);
    }

    /// Returns `true` if the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of the swap in `cancel_without_hooks`.
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Returns the time at which the work is expected to be done, if it was set.
    pub fn deadline(&self) -> Option<Instant> {
        let offset = self.shared.deadline.load(Ordering::Relaxed);
        let distance = Duration::from_nanos(offset.unsigned_abs());
        match offset {
            NEVER => None,
            0.. => origin().checked_add(distance),
            _ => origin().checked_sub(distance),
        }
    }

    /// Calls `hook` when the token is cancelled, on the thread that calls [`CancelToken::cancel`]
    /// or [`CancelToken::run_hooks`]. If the token is already cancelled, calls `hook` at once on
    /// this thread. A panic in `hook` is caught and reported. Dropping the returned guard removes a
    /// hook that has not started. It does not wait for a hook that is running.
    #[must_use = "dropping the hook takes it back"]
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> CancelHook {
        self.add(Hook::Call(Box::new(hook)))
    }

    /// Unparks `parker` when the token is cancelled: in [`CancelToken::cancel_without_hooks`],
    /// before [`CancelToken::cancel`] calls any hook. If the token is already cancelled, unparks
    /// `parker` at once. Dropping the returned guard removes the registration.
    #[doc(hidden)]
    #[must_use = "dropping the hook takes it back"]
    pub fn unpark_on_cancel(&self, parker: &Parker) -> CancelHook {
        self.add(Hook::Wake(parker.clone()))
    }

    fn add(&self, hook: Hook) -> CancelHook {
        self.shared.hooked.store(true, Ordering::Relaxed);
        let mut hooks = self.lock();
        // `cancel_without_hooks` sets the flag before it takes the hooks under this lock, so a hook
        // that is added after that sees the flag here.
        if self.is_cancelled() {
            drop(hooks);
            hook.run(SOURCE, &OnUnhandled::default());
            return CancelHook { of: None };
        }
        let id = hooks.next;
        hooks.next += 1;
        hooks.waiting.insert(id, hook);
        CancelHook {
            of: Some((Arc::clone(&self.shared), id)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Hooks> {
        self.shared.lock()
    }
}

/// The name in reports of panics, unless the caller gives another.
const SOURCE: &str = "a cancel token";

impl Hook {
    /// Runs the hook; catches and reports its panic.
    fn run(self, source: &str, report_to: &OnUnhandled) {
        let call = match self {
            Self::Wake(parker) => return parker.unpark(),
            Self::Call(call) => call,
        };
        if let Err(panic) = contain(call) {
            let message = panic.message();
            report_to.report(source, &Unhandled::HookPanic { message });
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Hooks> {
        unpoisoned(self.hooks.lock())
    }
}

impl Drop for Shared {
    /// Drops the hooks in containment: a token may be dropped where no user code is expected.
    fn drop(&mut self) {
        let hooks = unpoisoned(self.hooks.get_mut());
        discard_all(std::mem::take(&mut hooks.waiting));
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// A hook of a [`CancelToken`]. Dropping it removes the hook.
pub struct CancelHook {
    of: Option<(Arc<Shared>, u64)>,
}

impl CancelHook {
    /// Consumes the guard without removing the hook. The hook stays registered until it is called,
    /// or is dropped with the token or by [`CancelToken::drop_hooks`].
    pub fn forget(mut self) {
        self.of = None;
    }
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        if let Some((shared, id)) = &self.of {
            let hook = shared.lock().waiting.remove(id);
            // The values that the hook captured are dropped outside the lock.
            discard(hook);
        }
    }
}

impl fmt::Debug for CancelHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHook")
            .field("in_place", &self.of.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    //! A token is cancelled once, and every registered hook runs once.

    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn hooks_run_once_in_order_and_late_ones_at_once() {
        let token = CancelToken::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let push = |n: u32| {
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().push(n)
        };
        token.on_cancel(push(1)).forget();
        drop(token.on_cancel(push(2)));
        let _third = token.on_cancel(push(3));
        assert!(token.cancel());
        assert!(!token.cancel());
        let _late = token.on_cancel(push(4));
        assert_eq!(*seen.lock().unwrap(), [1, 3, 4]);
    }

    #[test]
    fn very_many_hooks_are_added_removed_in_any_order_and_called_in_their_own() {
        let many = tidegate_testkit::rounds(100_000);
        let (token, ran) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let add = |number| {
            let ran = Arc::clone(&ran);
            token.on_cancel(move || assert_eq!(ran.fetch_add(1, Ordering::Relaxed), number))
        };
        // Two thirds are removed, from both ends towards the middle.
        let removed: Vec<_> = (0..many)
            .map(|_| token.on_cancel(|| panic!("removed")))
            .collect();
        (0..many).for_each(|number| add(number).forget());
        let (first, second) = removed
            .into_iter()
            .enumerate()
            .partition::<Vec<_>, _>(|one| one.0 % 2 == 0);
        drop(first);
        second.into_iter().rev().for_each(drop);
        assert!(token.cancel());
        assert_eq!(ran.load(Ordering::Relaxed), many);
    }

    #[test]
    fn a_panicking_hook_does_not_stop_the_others() {
        let token = CancelToken::new();
        let ran = Arc::new(AtomicUsize::new(0));
        token.on_cancel(|| panic!("on purpose")).forget();
        let count = Arc::clone(&ran);
        token
            .on_cancel(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .forget();
        assert!(token.cancel());
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_late_hook_that_panics_does_no_harm() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose, in a drop");
            }
        }
        let token = CancelToken::new();
        let bomb = Bomb;
        let taken_back = token.on_cancel(move || drop(bomb));
        drop(taken_back);
        token.cancel();
        let late = token.on_cancel(|| panic!("on purpose"));
        drop(late);
    }

    #[test]
    fn tripping_wakes_waits_and_leaves_the_hooks_to_another_thread() {
        let token = CancelToken::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let add = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        token.on_cancel(add.clone()).forget();
        let taken_back = token.on_cancel(add);
        let parker = Parker::new();
        let _wait = token.unpark_on_cancel(&parker);
        token.run_hooks();
        assert_eq!(ran.load(Ordering::Relaxed), 0, "it was not tripped");
        assert!(token.cancel_without_hooks() && !token.cancel_without_hooks() && !token.cancel());
        parker.park(None);
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        assert!(token.has_hooks());
        drop(taken_back);
        token.run_hooks();
        token.run_hooks();
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        assert!(!token.has_hooks());
    }

    #[test]
    fn hooks_that_will_not_be_called_are_dropped_by_drop_hooks() {
        struct SetOnDrop(Arc<AtomicUsize>);
        impl Drop for SetOnDrop {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
                panic!("on purpose");
            }
        }
        let token = CancelToken::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let told = SetOnDrop(Arc::clone(&dropped));
            token.on_cancel(move || drop(told)).forget();
        }
        token.drop_hooks();
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert!(!token.has_hooks());
        for _ in 0..2 {
            let told = SetOnDrop(Arc::clone(&dropped));
            token.on_cancel(move || drop(told)).forget();
        }
        // The last token drops its hooks, and the thread that drops it survives.
        drop(token);
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_hook_may_add_a_hook() {
        let token = CancelToken::new();
        let (tx, rx) = std::sync::mpsc::channel();
        let inner = token.clone();
        token
            .on_cancel(move || inner.on_cancel(move || tx.send(1).unwrap()).forget())
            .forget();
        token.cancel();
        assert_eq!(rx.try_recv(), Ok(1));
    }

    #[test]
    fn a_racing_hook_runs_exactly_once() {
        for _ in 0..200 {
            let token = CancelToken::new();
            let ran = Arc::new(AtomicUsize::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| token.cancel());
                let count = Arc::clone(&ran);
                token
                    .on_cancel(move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    })
                    .forget();
            });
            assert_eq!(ran.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn reports_its_deadline() {
        assert_eq!(CancelToken::new().deadline(), None);
        let manual = crate::ManualClock::new();
        manual.advance(std::time::Duration::from_secs(9));
        let token = CancelToken::new();
        token.set_deadline(Some(manual.now()));
        assert_eq!(token.deadline(), Some(manual.now()));
        token.set_deadline(None);
        assert_eq!(token.deadline(), None);
    }

    #[test]
    fn is_untouched_until_cloned_hooked_or_tripped() {
        let token = CancelToken::new();
        assert!(token.is_untouched());
        let clone = token.clone();
        assert!(!token.is_untouched());
        drop(clone);
        assert!(token.is_untouched());
        drop(token.on_cancel(|| {}));
        assert!(!token.is_untouched());
        let tripped = CancelToken::new();
        tripped.cancel();
        assert!(!tripped.is_untouched());
    }
}
