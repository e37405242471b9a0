//! The producer cell: the right to produce, and the requests for more rounds, in one word.
//!
//! A strategy keeps its boxed producer in this cell. The thread that takes the box out has the
//! right to produce and is called its holder. Putting the box back gives the right up. A *loan*
//! puts the box into the cell while its thread runs a task, so that another thread may take it. The
//! word also says whether another round is wanted, whether a helper is pending, and how often the
//! box was lent. So each step of a strategy is one atomic operation, and all parts stay consistent.
//!
//! | `HOME` | `WANTED` | state | may access the box |
//! |---|---|---|---|
//! | 1 | 0 | *idle*: no thread produces, no round is wanted | none |
//! | 1 | 1 | *lent*: the first thread that comes continues producing | none |
//! | 0 | 0 | *producing* | the holder |
//! | 0 | 1 | *producing*, and once more before it may rest | the holder |
//!
//! ```text
//!           claim             request_round, claim
//!   idle ─────────────► producing ─────────────► producing, again
//!    │ ◄─────────────── ▲    │ ◄────────────────────── │
//!    │   finish_round   │    │ lend   finish_round      │ lend
//!    │                  │    ▼                          │
//!    │ request_round ► lent ◄────────────────────────────┘
//!                    (claim, arrive, resume, take_loan: back to producing)
//! ```
//!
//! `CLOSED` ends production. If the box is in the cell, the closing thread takes it out. If not,
//! the holder gives it up at its next step. After that, `HOME` means that no holder is left and the
//! cell may be opened again. `PENDING` says that one helper was requested and has not arrived.
//! `QUEUED` beside it says that this helper may still be in a queue, possibly for ever, so no
//! thread may rely on it. The upper bits count the loans.
//!
//! # Ordering
//!
//! Each step that passes the box on is Release, and each that takes it is Acquire: the next holder
//! sees what the last one did. Each request is Release too, so that work that was queued before it
//! is seen in the requested round. [`ProducerGuard::lend`] is `SeqCst`. It is one side of a
//! store-buffer pattern with the load in `MonitorState::notify` that follows it. The other side is
//! `MonitorState::sleep` or `MonitorState::end`, followed by [`ProducerCell::snapshot`].
#![expect(
    unsafe_code,
    reason = "the producer is handed from thread to thread by one word"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};

use tidegate_core::internal::CachePadded;
use tidegate_core::internal::prim::{AtomicU64, Ordering, UnsafeCell, claim_fence};

/// There is no holder: the box is in the cell, or the cell is closed and the box was given up.
const HOME: u64 = 1;
/// Another round is wanted.
const WANTED: u64 = 2;
/// A helper was requested and has not arrived.
const PENDING: u64 = 4;
/// No more rounds.
const CLOSED: u64 = 8;
/// The requested helper may still be in a queue.
const QUEUED: u64 = 16;
/// One loan: the unit of the loan counter.
const LOAN: u64 = 32;

/// Holds the producer of a strategy; see the module's table.
///
/// ```
/// use tidegate_pool::internal::{ProducerCell, RestResult};
///
/// let cell = ProducerCell::new(Box::new(7));
/// let held = cell.claim().expect("no other thread produces");
/// assert!(cell.claim().is_none(), "this call only requests another round");
/// let RestResult::Again(held) = held.finish_round() else { panic!("the other call requested another round") };
/// assert_eq!(*held, 7);
/// assert!(matches!(held.finish_round(), RestResult::Idle));
/// ```
pub struct ProducerCell<T> {
    word: CachePadded<AtomicU64>,
    value: UnsafeCell<Option<Box<T>>>,
}

// SAFETY: the cell passes whole boxes from thread to thread, which needs `T: Send`.
unsafe impl<T: Send> Send for ProducerCell<T> {}
// SAFETY: as above; `&T` exists only through the one `ProducerGuard`.
unsafe impl<T: Send> Sync for ProducerCell<T> {}

/// The result of [`ProducerCell::request_round`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperRequest {
    /// A thread produces, or a helper is pending: another round will follow.
    Enough,
    /// No thread produces: the caller must send a helper, or call [`ProducerCell::arrive`] itself.
    BringHelper,
    /// The cell is closed.
    Closed,
}

/// The result of [`ProducerCell::close`].
#[derive(Debug, PartialEq, Eq)]
pub enum CloseResult<T> {
    /// The producer was in the cell.
    Home(Box<T>),
    /// Another thread holds the producer and will give it up.
    Out,
    /// The cell was closed before.
    Already,
}

/// The helper that is pending for a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingHelper {
    /// There is none.
    None,
    /// The helper may still be in a queue.
    Queued,
    /// A thread has the helper.
    Given,
}

/// A snapshot of a cell, for a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSnapshot {
    /// `true` if the producer is in the cell and another round is wanted.
    pub lent: bool,
    /// The helper that is pending for the producer.
    pub coming: PendingHelper,
    /// How often the producer was lent so far.
    pub loans: u64,
}

impl<T> ProducerCell<T> {
    /// Creates an idle cell that holds `value`.
    pub fn new(value: Box<T>) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(HOME)),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// Takes the producer out if it is in the cell. Otherwise requests another round from its
    /// holder.
    pub fn claim(&self) -> Option<ProducerGuard<'_, T>> {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & HOME != 0 => Some(word & !(HOME | WANTED)),
            word => Some(word | WANTED),
        });
        (before? & HOME != 0).then(|| self.take_out())
    }

    /// Requests another round without ever taking the producer out.
    pub fn request_round(&self) -> HelperRequest {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & (HOME | PENDING) == HOME => Some(word | WANTED | PENDING | QUEUED),
            word => Some(word | WANTED),
        });
        match before {
            None => HelperRequest::Closed,
            Some(word) if word & HOME != 0 && word & PENDING == 0 => HelperRequest::BringHelper,
            Some(_) => HelperRequest::Enough,
        }
    }

    /// Requests another round from inside a task. The thread that runs the task checks again after
    /// it. Returns `true` if no thread produces and no round was wanted until now: if the task
    /// waits for the round, another thread must be sent.
    pub fn request_from_task(&self) -> bool {
        // ORDERING: Release pairs with the Acquire of the thread that takes the box next or rests.
        let before = self.word.fetch_or(WANTED, Ordering::Release);
        before & (HOME | WANTED | CLOSED) == HOME
    }

    /// Clears the pending helper, which has arrived or will not come, and takes the producer if it
    /// is lent.
    pub fn arrive(&self) -> Option<ProducerGuard<'_, T>> {
        let before = self.step(|word| match is_lent(word) {
            true => Some(word & !(HOME | WANTED | PENDING | QUEUED)),
            false => Some(word & !(PENDING | QUEUED)),
        });
        is_lent(before?).then(|| self.take_out())
    }

    /// Clears the pending helper, which will not come.
    pub fn no_helper(&self) {
        // Relaxed: it passes nothing on.
        self.word.fetch_and(!(PENDING | QUEUED), Ordering::Relaxed);
    }

    /// Takes the producer back after a task, if it is still lent.
    pub fn resume(&self) -> Option<ProducerGuard<'_, T>> {
        let before = self.step(|word| is_lent(word).then_some(word & !(HOME | WANTED)));
        before.map(|_| self.take_out())
    }

    /// Takes the producer over if it is still lent by loan number `loan`.
    pub fn take_loan(&self, loan: u64) -> Option<ProducerGuard<'_, T>> {
        let before = self.step(|word| {
            let same = is_lent(word) && word / LOAN == loan;
            same.then_some(word & !(HOME | WANTED))
        });
        before.map(|_| self.take_out())
    }

    /// Ends production. A holder gives the producer up at its next step.
    pub fn close(&self) -> CloseResult<T> {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            // Marked as held by this thread until the box has been read.
            word => Some((word | CLOSED) & !HOME),
        });
        match before {
            None => return CloseResult::Already,
            Some(word) if word & HOME == 0 => return CloseResult::Out,
            Some(_) => {}
        }
        let value = self.read();
        // ORDERING: Release: the box has been read; pairs with the Acquire in `reopen`.
        self.word.fetch_or(HOME, Ordering::Release);
        value.map_or(CloseResult::Out, CloseResult::Home)
    }

    /// Opens a closed cell with another producer; the cell is then idle.
    ///
    /// # Errors
    ///
    /// Returns the new producer if the cell is not closed or the last holder has not given its
    /// producer up.
    pub fn reopen(&self, value: Box<T>) -> Result<(), Box<T>> {
        let opened = self.step(|word| {
            let over = word & CLOSED != 0 && word & HOME != 0;
            over.then_some(word & !(CLOSED | HOME | WANTED | PENDING | QUEUED))
        });
        if opened.is_none() {
            return Err(value);
        }
        let held = ProducerGuard {
            cell: self,
            value: Some(value),
        };
        // If a round was requested meanwhile, the producer is lent. If the cell was closed
        // meanwhile, the producer is dropped.
        drop(held.finish_round());
        Ok(())
    }

    /// Returns a snapshot for a monitor.
    #[inline]
    pub fn snapshot(&self) -> CellSnapshot {
        // ORDERING: SeqCst, the monitor's check; pairs with the step in `lend`.
        let word = self.word.load(Ordering::SeqCst);
        CellSnapshot {
            lent: is_lent(word),
            coming: match word & (PENDING | QUEUED) {
                0 => PendingHelper::None,
                PENDING => PendingHelper::Given,
                _ => PendingHelper::Queued,
            },
            loans: word / LOAN,
        }
    }

    /// Returns `true` if no thread produces and no round is wanted.
    pub fn is_idle(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & (HOME | WANTED | CLOSED) == HOME
    }

    /// Returns `true` if the cell was closed.
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Returns `true` if a helper was requested and has not arrived.
    pub fn is_helper_pending(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PENDING != 0
    }

    /// Returns `true` if the cell was closed and the producer has been given up.
    pub fn is_over(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of the thread that gave the producer up.
        self.word.load(Ordering::Acquire) & (CLOSED | HOME) == CLOSED | HOME
    }

    /// Changes the word to `next(word)`. Returns the previous word, or `None` if `next` returns
    /// `None`.
    #[inline(always)]
    fn step(&self, mut next: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // ORDERING: AcqRel. Acquire pairs with the Release of the last step: the box and work
            // queued before a request are visible. Release publishes the requester's part to the
            // holder.
            match self.word.compare_exchange_weak(
                word,
                next(word)?,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(before) => return Some(before),
                Err(now) => word = now,
            }
        }
    }

    /// Returns the box. Called only by the thread that has just cleared `HOME`.
    fn take_out(&self) -> ProducerGuard<'_, T> {
        ProducerGuard {
            cell: self,
            value: self.read(),
        }
    }

    fn read(&self) -> Option<Box<T>> {
        // SAFETY: only the thread that cleared `HOME` calls this, and no other thread accesses the
        // value until `HOME` is set again.
        self.value.with_mut(|value| unsafe { (*value).take() })
    }
}

impl<T> fmt::Debug for ProducerCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("ProducerCell")
            .field("home", &(word & HOME != 0))
            .field("wanted", &(word & WANTED != 0))
            .field("pending", &(word & PENDING != 0))
            .field("queued", &(word & QUEUED != 0))
            .field("closed", &(word & CLOSED != 0))
            .field("loans", &(word / LOAN))
            .finish()
    }
}

fn is_lent(word: u64) -> bool {
    word & (HOME | WANTED | CLOSED) == HOME | WANTED
}

/// The producer guard: owns the producer while it is out of its cell. Its owner has the right to
/// produce.
///
/// If it is dropped, also by a panic, the producer is lent, so that the next thread that comes
/// continues producing.
#[must_use = "if it is dropped, the right to produce stays unused"]
pub struct ProducerGuard<'a, T> {
    cell: &'a ProducerCell<T>,
    /// `None` only after the box was moved elsewhere.
    value: Option<Box<T>>,
}

/// The result of [`ProducerGuard::finish_round`] for a producer that has no more tasks.
#[derive(Debug)]
pub enum RestResult<'a, T> {
    /// The producer is idle in the cell.
    Idle,
    /// Another round was requested: produce again.
    Again(ProducerGuard<'a, T>),
    /// The cell was closed: the caller drops the producer.
    GivenUp(Box<T>),
}

/// The result of lending a producer.
#[derive(Debug)]
pub struct LendResult<T> {
    /// The number of this loan.
    pub number: u64,
    /// `true` if the caller must send the helper that was requested.
    pub bring_helper: bool,
    /// The producer, if the cell was closed meanwhile.
    pub given_up: Option<Box<T>>,
}

impl<'a, T> ProducerGuard<'a, T> {
    /// Puts the producer into the cell as idle, unless another round was requested.
    pub fn finish_round(mut self) -> RestResult<'a, T> {
        self.put_in();
        let before = self.cell.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & WANTED != 0 => Some(word & !WANTED),
            word => Some(word | HOME),
        });
        match before {
            Some(word) if word & WANTED == 0 => RestResult::Idle,
            Some(_) => {
                self.value = self.cell.read();
                RestResult::Again(self)
            }
            None => {
                self.value = self.cell.read();
                self.give_up().map_or(RestResult::Idle, RestResult::GivenUp)
            }
        }
    }

    /// Puts the producer into the cell for another thread to take, and counts the loan. With
    /// `helper` it also marks a helper as pending, which the caller gives to a thread, unless a
    /// thread has one already.
    #[inline]
    pub fn lend(self, helper: bool) -> LendResult<T> {
        self.lend_to(if helper { PENDING } else { 0 })
    }

    /// Like [`ProducerGuard::lend`] with a helper, for a caller that puts the helper into a queue,
    /// unless one is pending already.
    pub fn lend_to_queue(self) -> LendResult<T> {
        self.lend_to(PENDING | QUEUED)
    }

    #[inline(always)]
    fn lend_to(mut self, helper: u64) -> LendResult<T> {
        self.put_in();
        let mut word = self.cell.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                self.value = self.cell.read();
                return LendResult {
                    number: word / LOAN,
                    bring_helper: false,
                    given_up: self.give_up(),
                };
            }
            let next = match helper {
                // A helper on a thread replaces one in a queue.
                PENDING => (word | HOME | WANTED | PENDING) & !QUEUED,
                _ if word & PENDING != 0 => word | HOME | WANTED,
                helper => word | HOME | WANTED | helper,
            };
            let next = next.wrapping_add(LOAN);
            // ORDERING: SeqCst: Release publishes the box; the total order puts this step before
            // the load in `MonitorState::notify` that follows. Pairs with `snapshot`.
            match self.cell.word.compare_exchange_weak(
                word,
                next,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        claim_fence();
        LendResult {
            number: word.wrapping_add(LOAN) / LOAN,
            bring_helper: match helper {
                0 => false,
                PENDING => word & (PENDING | QUEUED) != PENDING,
                _ => word & PENDING == 0,
            },
            given_up: None,
        }
    }

    /// Returns `true` if the cell was closed while the producer was out.
    pub fn is_closed(&self) -> bool {
        self.cell.is_closed()
    }

    /// Gives the producer up for good if the cell is closed; the caller drops it.
    ///
    /// Returns `None` if the cell is open; the producer is lent then.
    pub fn give_up(mut self) -> Option<Box<T>> {
        if !self.is_closed() {
            return None;
        }
        let value = self.value.take();
        // ORDERING: Release: a thread that opens the cell again comes after this holder.
        self.cell.word.fetch_or(HOME, Ordering::Release);
        value
    }

    /// Moves the box into the cell. It still belongs to this holder until `HOME` is set.
    fn put_in(&mut self) {
        let mine = self.value.take();
        // SAFETY: this holder cleared `HOME`, so no other thread accesses the value.
        self.cell.value.with_mut(|value| unsafe { *value = mine });
    }
}

impl<T> Deref for ProducerGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect("a holder has the box")
    }
}

impl<T> DerefMut for ProducerGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("a holder has the box")
    }
}

impl<T> Drop for ProducerGuard<'_, T> {
    fn drop(&mut self) {
        if self.value.is_none() {
            return;
        }
        self.put_in();
        let lies = self.cell.step(|word| match word & CLOSED {
            0 => Some(word | HOME | WANTED),
            _ => None,
        });
        if lies.is_none() {
            let value = self.cell.read();
            // ORDERING: Release: a thread that opens the cell again comes after this holder.
            self.cell.word.fetch_or(HOME, Ordering::Release);
            drop(value);
        }
    }
}

impl<T> fmt::Debug for ProducerGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerGuard").finish_non_exhaustive()
    }
}
