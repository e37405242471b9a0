//! The listeners of a block after the first one: an inbox and a queue of nodes.
//!
//! Any thread pushes into the inbox. The holder of the `NOTIFYING` bit of the block moves the nodes
//! into the queue, oldest first, and takes them from there. Each list owns a reference to each of its
//! nodes.

use std::ptr;
use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicPtr, Ordering, UnsafeCell};

use super::listener::Node;

/// The nodes of a block.
pub(super) struct NodeList {
    /// Listeners after the first, newest first.
    inbox: AtomicPtr<Node>,
    /// Listeners moved out of the inbox, oldest first. Belongs to the holder of `NOTIFYING`.
    queue: UnsafeCell<*const Node>,
}

impl NodeList {
    pub(super) fn new() -> Self {
        Self {
            inbox: AtomicPtr::new(ptr::null_mut()),
            queue: UnsafeCell::new(ptr::null()),
        }
    }

    /// Adds a node to the inbox.
    pub(super) fn push(&self, node: &Arc<Node>) {
        let raw = Arc::into_raw(Arc::clone(node)).cast_mut();
        let mut newest = self.inbox.load(Ordering::Relaxed);
        loop {
            node.next.store(newest, Ordering::Relaxed);
            // ORDERING: Release publishes the node; pairs with the Acquire swap in `take_inbox`.
            match self.inbox.compare_exchange_weak(
                newest,
                raw,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
    }

    /// Returns `true` if the queue holds a node.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING`.
    #[inline(always)]
    pub(super) unsafe fn is_queued(&self) -> bool {
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        !self.queue.with(|queue| unsafe { *queue }).is_null()
    }

    /// Returns `true` if there was a node when this thread set `NOTIFYING`.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING`.
    #[inline(always)]
    pub(super) unsafe fn has_more(&self) -> bool {
        // SAFETY: the caller holds `NOTIFYING`.
        let queued = unsafe { self.is_queued() };
        queued || !self.inbox.load(Ordering::Relaxed).is_null()
    }

    /// Returns the oldest node that still holds its listener. Refills the queue from the inbox.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING` for as long as it uses the node.
    pub(super) unsafe fn oldest(&self) -> Option<&Node> {
        loop {
            // SAFETY: the caller holds `NOTIFYING`.
            unsafe { self.refill() };
            // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
            let head = self.queue.with(|queue| unsafe { *queue });
            // SAFETY: nodes in the queue are alive, because the queue owns a reference to each.
            let node = unsafe { head.as_ref() }?;
            if !node.is_gone() {
                return Some(node);
            }
            // SAFETY: the caller holds `NOTIFYING`.
            drop(unsafe { self.pop() });
        }
    }

    /// Removes the first node from the queue.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING`.
    pub(super) unsafe fn pop(&self) -> Option<Arc<Node>> {
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        let head = self.queue.with(|queue| unsafe { *queue });
        if head.is_null() {
            return None;
        }
        // SAFETY: the queue owned a reference to its first node, made by `Arc::into_raw`.
        let node = unsafe { Arc::from_raw(head) };
        let next = node.next.load(Ordering::Relaxed);
        // SAFETY: as above.
        self.queue.with_mut(|queue| unsafe { *queue = next });
        Some(node)
    }

    /// Moves the nodes of the inbox into the queue, oldest first, if the queue is empty.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING`.
    unsafe fn refill(&self) {
        // SAFETY: the caller holds `NOTIFYING`.
        if unsafe { self.is_queued() } {
            return;
        }
        let list = self.take_inbox();
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        self.queue.with_mut(|queue| unsafe { *queue = list });
    }

    /// Empties the inbox and returns its nodes as a list from oldest to newest.
    fn take_inbox(&self) -> *const Node {
        if self.inbox.load(Ordering::Relaxed).is_null() {
            return ptr::null();
        }
        // ORDERING: Acquire pairs with the Release by which each node was pushed.
        let mut newest = self.inbox.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut Node = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: nodes in the inbox are alive: it owned a reference to each, which now belongs
            // to this list.
            let node = unsafe { &*newest };
            let older = node.next.load(Ordering::Relaxed);
            node.next.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = older;
        }
        oldest
    }

    /// Rebuilds the queue from its own nodes and those of the inbox, without the removed ones.
    /// Returns how many are left.
    ///
    /// # Safety
    ///
    /// The caller holds `NOTIFYING`.
    pub(super) unsafe fn keep_live(&self) -> usize {
        let mut live = Vec::new();
        loop {
            // SAFETY: the caller holds `NOTIFYING`.
            while let Some(node) = unsafe { self.pop() } {
                if !node.is_gone() {
                    live.push(node);
                }
            }
            // SAFETY: the caller holds `NOTIFYING`.
            unsafe { self.refill() };
            // SAFETY: the caller holds `NOTIFYING`.
            if !unsafe { self.is_queued() } {
                break;
            }
        }
        let count = live.len();
        let mut list: *mut Node = ptr::null_mut();
        for node in live.into_iter().rev() {
            node.next.store(list, Ordering::Relaxed);
            list = Arc::into_raw(node).cast_mut();
        }
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        self.queue.with_mut(|queue| unsafe { *queue = list });
        count
    }

    /// Counts the nodes in the inbox and in the queue, including removed ones. Only for tests with
    /// one thread.
    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn count(&self) -> usize {
        let heads = [
            self.inbox.load(Ordering::Relaxed).cast_const(),
            // SAFETY: there is no other thread.
            self.queue.with(|queue| unsafe { *queue }),
        ];
        let mut count = 0;
        for mut node in heads {
            // SAFETY: nodes in the lists are alive, and no thread removes them meanwhile.
            while let Some(one) = unsafe { node.as_ref() } {
                count += 1;
                node = one.next.load(Ordering::Relaxed);
            }
        }
        count
    }
}
