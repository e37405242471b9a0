//! Adding listeners to a block and removing them.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_core::internal::prim::Ordering;

use super::listener::{Listener, Node};
use super::notify;
use super::state::{DONE, INLINE, LISTENER, NOTIFYING};
use super::storage::BlockPtr;

/// Identifies one listener, to remove it.
pub struct ListenerToken {
    /// The id of the unique reader that added the listener; 0 for a shared one.
    pub(super) of: u64,
    pub(super) place: Place,
}

pub(super) enum Place {
    /// In the inline slot of the block, which a reader fills with a listener at most once.
    Inline,
    /// In a node of its own.
    Node(Arc<Node>),
}

/// The number of ids that a thread takes at a time.
const IDS: u64 = 1 << 20;

thread_local! {
    /// The next id of this thread; a multiple of `IDS` if it has to take others.
    static NEXT_ID: Cell<u64> = const { Cell::new(0) };
}

/// Returns an id that no other reader of the process has or had. Never 0.
#[inline]
pub(super) fn next_id() -> u64 {
    NEXT_ID.with(|next| {
        let id = match next.get() {
            spent if spent % IDS == 0 => take_ids(),
            id => id,
        };
        next.set(id + 1);
        id
    })
}

#[cold]
fn take_ids() -> u64 {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    TAKEN.fetch_add(1, Ordering::Relaxed) * IDS + 1
}

impl fmt::Debug for ListenerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerToken").finish_non_exhaustive()
    }
}

/// Adds a listener in a new node.
pub(super) fn push_node<T: Send + 'static, E: Send + 'static>(
    ptr: BlockPtr<T, E>,
    listener: Listener,
) -> Arc<Node> {
    let node = Arc::new(Node::new(listener));
    ptr.get().nodes.push(&node);
    announce(ptr, LISTENER, 0);
    node
}

/// Removes a node's listener. Returns `true` if this call removed it: it was not called and will
/// not be. Every `SWEEP_AFTER` removals it starts a sweep, which frees the nodes of removed
/// listeners, so that they do not outnumber live ones for long.
pub(super) fn remove_node<T: Send + 'static, E: Send + 'static>(
    ptr: BlockPtr<T, E>,
    node: &Node,
) -> bool {
    let removed = node.take().is_some();
    if removed && ptr.get().sweep_in.fetch_sub(1, Ordering::Relaxed) == 1 {
        notify::sweep(ptr);
    }
    removed
}

/// Announces a listener that was just added. If the outcome is decided and no thread is notifying,
/// sets `NOTIFYING` and starts a notification. Otherwise sets the bits in `added`,
/// so that the next or current notifier finds the listener. Clears the bits in `give_up` in the
/// same step; a read end that ends here passes `READER`.
#[inline]
pub(super) fn announce<T: Send + 'static, E: Send + 'static>(
    ptr: BlockPtr<T, E>,
    added: u32,
    give_up: u32,
) {
    let block = ptr.get();
    let mut state = block.state.load(Ordering::Relaxed);
    loop {
        let start = state & DONE != 0 && state & NOTIFYING == 0;
        let next = if start {
            (state | NOTIFYING) & !(LISTENER | INLINE | give_up)
        } else {
            (state | added) & !give_up
        };
        // ORDERING: AcqRel. Release publishes the listener to the thread that notifies; Acquire
        // pairs with the Release by which the outcome was decided, for a late listener.
        match block
            .state
            .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) if start => return notify::start(ptr, (state | added) & INLINE != 0),
            Ok(_) => return,
            Err(now) => state = now,
        }
    }
}
