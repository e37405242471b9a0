//! The handle of a request that is passed on, and the memory of such requests, which the loops use
//! again: a request takes a block that an earlier one has left, and allocates none.
//!
//! # Invariants
//!
//! * A spare block is empty: it keeps neither a configuration nor a connection alive.
//! * A block is spare only if nothing else refers to it. The list of its connection forgets it first.
//! * What was in a block is dropped while the spare blocks are not borrowed: that may end other
//!   requests.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::flight::FlightData;

/// How many blocks a loop keeps. More requests than that at once allocate theirs.
const KEPT: usize = 256;

thread_local! {
    static SPARE: RefCell<Vec<Arc<Block>>> = const { RefCell::new(Vec::new()) };
}

/// One request that is passed on. The last handle ends its memory's use.
#[derive(Clone)]
pub(super) struct Flight {
    /// `None` only while the handle is dropped.
    block: Option<Arc<Block>>,
}

/// The memory of a request.
struct Block {
    /// `None` while the block is spare.
    data: Option<FlightData>,
}

/// A request that may have ended.
#[derive(Clone)]
pub(super) struct WeakFlight(Weak<Block>);

impl Flight {
    // So that its parts are moved once.
    #[inline(always)]
    pub(super) fn of(data: FlightData) -> Self {
        let mut block = take_spare();
        let data = Some(data);
        match block.as_mut().and_then(Arc::get_mut) {
            Some(empty) => empty.data = data,
            None => block = Some(Arc::new(Block { data })),
        }
        Self { block }
    }

    pub(super) fn downgrade(&self) -> WeakFlight {
        WeakFlight(self.block.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    /// Returns what makes the request go on with its body.
    pub(super) fn waker(&self) -> Waker {
        match &self.block {
            Some(block) => Waker::from(Arc::clone(block)),
            None => Waker::noop().clone(),
        }
    }
}

impl WeakFlight {
    pub(super) fn upgrade(&self) -> Option<Flight> {
        let block = self.0.upgrade();
        block.map(|block| Flight { block: Some(block) })
    }

    /// Returns `true` if no handle is left.
    pub(super) fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns `true` if this is the request whose last handle is being dropped.
    fn is_of(&self, block: &Arc<Block>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(block))
    }
}

impl Deref for Flight {
    type Target = FlightData;

    #[inline]
    fn deref(&self) -> &FlightData {
        match self.block.as_deref() {
            Some(Block { data: Some(data) }) => data,
            _ => unreachable!("a block with a handle has a request"),
        }
    }
}

impl Drop for Flight {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && Arc::strong_count(&block) == 1
        {
            end(block);
        }
    }
}

/// Wakes the request when more of its body was received.
impl Wake for Block {
    fn wake(self: Arc<Self>) {
        let flight = Flight { block: Some(self) };
        flight.wake_body();
    }
}

#[inline]
fn take_spare() -> Option<Arc<Block>> {
    let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
    spare.ok().flatten()
}

/// Ends a request whose last handle this was, and keeps its block. On another thread than that of its
/// loop, the block is freed.
fn end(mut block: Arc<Block>) {
    let flights = block.data.as_ref().map(|data| &data.flights);
    if flights.is_none_or(|flights| !flights.forget(|flight| flight.is_of(&block))) {
        return;
    }
    // There may be other weak handles, of timers.
    let Some(ended) = Arc::get_mut(&mut block).map(|block| block.data.take()) else {
        return;
    };
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push(block);
        }
    });
    drop(ended);
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight")
            .field("route", &self.route().name)
            .finish_non_exhaustive()
    }
}
