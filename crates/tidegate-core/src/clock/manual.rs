//! A clock that stands still until a test advances it.
//!
//! A thread that waits on a manual clock registers as a sleeper with its deadline. [`advance`]
//! steps from deadline to deadline and wakes each sleeper at exactly its time. Threads that drive
//! loops are *members*: between two steps the clock waits until every member sleeps again. So a
//! test sees the same order of events each time, and a year passes in a millisecond.
//!
//! A member is quiet when it sleeps through this clock, its deadline is in the future, and it was
//! not woken since. A wakeup counts from the moment it is sent (`Sleeper::wakes`), not from the
//! moment its thread runs, so work that one loop gave to another is never mistaken for idleness.
//!
//! [`advance`]: ManualClock::advance

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::moment::{as_nanos, origin, system_now};
use super::sleeper::Sleeper;
use crate::sys::prim::{self, Condvar, Mutex, MutexGuard};

prim::thread_local! {
    /// Ids of the memberships of this thread, innermost last. An id is unique in the process, since
    /// a thread may be a member of several clocks.
    static MEMBER_OF: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A clock for tests: time moves only when the test advances it.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// clock.advance(Duration::from_secs(365 * 24 * 3600));
/// assert_eq!((clock.now() - start).as_secs(), 31_536_000);
/// ```
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    origin: Instant,
    state: Mutex<State>,
    /// Notified when a thread falls asleep (member or not), when a member leaves, and when time
    /// moves.
    changed: Condvar,
}

/// The last moment. Later values are no times: `u64::MAX` means "never", and a cell of a timeout
/// stores its outcome as one of the three values before it.
const END: u64 = u64::MAX - 4;

#[derive(Default)]
struct State {
    now: u64,
    next_id: u64,
    /// Sleeping threads, in the order of their registrations.
    sleepers: Vec<Registered>,
    members: Vec<Member>,
}

/// A thread for which the clock waits.
struct Member {
    id: u64,
    /// The registration under which the thread sleeps; `None` if it is awake.
    sleep: Option<u64>,
}

struct Registered {
    id: u64,
    sleeper: Arc<dyn Sleeper>,
    deadline: Option<u64>,
    /// `wakes` at the registration; a difference means that the sleeper was woken since.
    wakes: u64,
    /// A wakeup was already pending at the registration.
    notified: bool,
}

impl ManualClock {
    /// Creates a clock that stands at its origin.
    pub fn new() -> Self {
        // Called first, so that the process's own origin is never after a manual clock's.
        origin();
        Self {
            shared: Arc::new(Shared {
                origin: system_now(),
                state: Mutex::default(),
                changed: Condvar::new(),
            }),
        }
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        let nanos = self.nanos();
        self.shared
            .origin
            .checked_add(Duration::from_nanos(nanos))
            .unwrap_or(self.shared.origin)
    }

    /// Returns the present time in nanoseconds since the origin.
    pub fn nanos(&self) -> u64 {
        self.lock().now
    }

    pub(super) fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// Moves time forward by `by`, from deadline to deadline. Wakes each sleeper at its deadline,
    /// and lets the loops on this clock finish the resulting work before the next step. Also waits
    /// until the loops are idle before the first step and after the last one.
    ///
    /// Time never goes back: if another thread moves it further meanwhile, it stays there. It ends
    /// before `u64::MAX` nanoseconds, a deadline that means "never".
    ///
    /// # Threads
    ///
    /// Do not call this from a loop or from a job of a pool on this clock: it would wait for itself.
    /// It hangs while one of them is blocked by something outside this library; use
    /// [`ManualClock::jump`] then.
    pub fn advance(&self, by: Duration) {
        self.settle();
        let mut state = self.lock();
        let target = state.after(by);
        loop {
            let next = state
                .sleepers
                .iter()
                .filter_map(|sleeper| sleeper.deadline)
                .filter(|&deadline| deadline > state.now && deadline <= target)
                .min();
            // Another thread may have moved the time past `target` while this one waited.
            state.now = next.unwrap_or(target).max(state.now);
            wake_due(&mut state);
            self.shared.changed.notify_all();
            state = self.settled(state);
            if next.is_none() {
                return;
            }
        }
    }

    /// Moves time forward by `by` in one step and wakes the sleepers that are due, without waiting.
    pub fn jump(&self, by: Duration) {
        let mut state = self.lock();
        state.now = state.after(by);
        wake_due(&mut state);
        self.shared.changed.notify_all();
    }

    /// Returns when every loop and every thread of a pool on this clock is idle: asleep, not due and
    /// not woken. Waits for itself if one of them calls this.
    pub fn settle(&self) {
        drop(self.settled(self.lock()));
    }

    /// Returns the earliest deadline of all sleepers, or `None` if no sleeper has a deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        let state = self.lock();
        let next = state.sleepers.iter().filter_map(|one| one.deadline).min()?;
        self.shared.origin.checked_add(Duration::from_nanos(next))
    }

    /// Returns the number of threads that sleep through this clock.
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// Blocks until at least `count` threads sleep through this clock: for a test that must not
    /// advance the clock before a thread waits.
    pub fn await_sleepers(&self, count: usize) {
        let mut state = self.lock();
        while state.sleepers.len() < count {
            state = self.wait(state);
        }
    }

    /// Registers `sleeper` until `wait` returns. Returns `false`, without calling `wait`, if the
    /// deadline has passed.
    pub(super) fn sleep(
        &self,
        sleeper: &Arc<dyn Sleeper>,
        deadline: Option<u64>,
        wait: impl FnOnce(),
    ) -> bool {
        let deadline = deadline.filter(|&deadline| deadline != u64::MAX);
        let mut state = self.lock();
        if deadline.is_some_and(|deadline| deadline <= state.now) {
            return false;
        }
        let member = state.member_here();
        let id = state.take_id();
        let registered = Registered {
            id,
            sleeper: Arc::clone(sleeper),
            deadline,
            wakes: sleeper.wakes(),
            notified: sleeper.is_notified(),
        };
        state.sleepers.push(registered);
        let outer = state.replace_sleep_of(member, Some(id));
        self.shared.changed.notify_all();
        drop(state);

        wait();

        let mut state = self.lock();
        state.sleepers.retain(|one| one.id != id);
        state.replace_sleep_of(member, outer);
        true
    }

    pub(super) fn join(&self) -> ClockMember {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.lock().members.push(Member { id, sleep: None });
        ClockMember {
            of: Some((self.clone(), id)),
            entered: false,
        }
    }

    /// Returns `true` if the calling thread is a member of this clock.
    pub(super) fn is_member_here(&self) -> bool {
        self.lock().member_here().is_some()
    }

    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn is_quiet(&self) -> bool {
        self.lock().is_quiet()
    }

    fn settled<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.is_quiet() {
            state = self.wait(state);
        }
        state
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        prim::unpoisoned(self.shared.changed.wait(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        prim::lock(&self.shared.state)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("nanos", &self.nanos())
            .field("sleepers", &self.sleepers())
            .finish()
    }
}

impl State {
    /// Returns the time `by` from now.
    fn after(&self, by: Duration) -> u64 {
        self.now.saturating_add(as_nanos(by)).min(END)
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the calling thread's membership of this clock.
    fn member_here(&self) -> Option<u64> {
        let is_mine = |id: &&u64| self.members.iter().any(|member| member.id == **id);
        MEMBER_OF.with_borrow(|ids| ids.iter().rev().find(is_mine).copied())
    }

    /// Records the registration under which a member's thread sleeps. Returns the previous one.
    fn replace_sleep_of(&mut self, member: Option<u64>, sleep: Option<u64>) -> Option<u64> {
        let id = member?;
        let member = self.members.iter_mut().find(|member| member.id == id)?;
        std::mem::replace(&mut member.sleep, sleep)
    }

    fn is_quiet(&self) -> bool {
        self.members.iter().all(|member| {
            let sleep = |one: &&Registered| Some(one.id) == member.sleep;
            self.sleepers.iter().find(sleep).is_some_and(|one| {
                let due = one.deadline.is_some_and(|deadline| deadline <= self.now);
                !due && !one.notified && one.sleeper.wakes() == one.wakes
            })
        })
    }
}

fn wake_due(state: &mut State) {
    let now = state.now;
    for one in &state.sleepers {
        if one.deadline.is_some_and(|deadline| deadline <= now) {
            one.sleeper.wake();
        }
    }
}

/// A thread that [`ManualClock::settle`] waits for. Created by [`Clock::join`] before the thread
/// starts, so that a starting thread counts as busy; dropped when the thread is done.
///
/// [`Clock::join`]: crate::Clock::join
#[derive(Debug)]
pub struct ClockMember {
    of: Option<(ManualClock, u64)>,
    entered: bool,
}

impl ClockMember {
    pub(super) fn none() -> Self {
        Self {
            of: None,
            entered: false,
        }
    }

    /// Makes the calling thread this member.
    pub fn enter(&mut self) {
        if let (Some((_, id)), false) = (&self.of, self.entered) {
            MEMBER_OF.with_borrow_mut(|ids| ids.push(*id));
            self.entered = true;
        }
    }
}

impl Drop for ClockMember {
    fn drop(&mut self) {
        let Some((clock, id)) = self.of.take() else {
            return;
        };
        if self.entered {
            let _ = MEMBER_OF.try_with(|ids| ids.borrow_mut().retain(|one| *one != id));
        }
        clock.lock().members.retain(|member| member.id != id);
        clock.shared.changed.notify_all();
    }
}
