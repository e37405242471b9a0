//! The task lane: a bounded queue with many producers and one loop, which stores closures in place.
//!
//! Tasks are stored in slots of 32 bytes, two to a cache line, in the order of their index. A
//! producer claims the next index with one compare-and-swap and then writes the slot. The loop
//! reads slots in order and **never writes to them**: a tag in the first word of a slot says
//! whether it is written, and the expected tag alternates each time a chunk is used again. So the
//! loop only ever reads the cache lines that producers write. The one line that the loop writes
//! (`head`) changes once per batch, and producers read it only when the lane seems full.
//!
//! # Invariants
//!
//! * `index - head + local <= bound`, where `index` and `local` come from one claim word. The bound
//!   is therefore exact: there are never more accepted and unstarted tasks than the bound. `head`
//!   is published late, so a push may be refused too early, by the tasks of the running batch; a
//!   refused producer sets `wanted`, and the loop publishes after its current task.
//! * A claim is refused from the moment the closed bit is set. A push either claims before that,
//!   and `drain` returns its task, or it returns its task to the producer.
//! * Chunks are installed in a directory, in the entry `index / CHUNK` modulo its length, which
//!   exceeds the bound by at least one chunk. A chunk is removed from its entry before the `head`
//!   beyond it is published, so no producer can reach the entry while the old chunk is there.
//! * Any chunk whose slots all carry the *other* tag may be installed in any empty entry. Used
//!   chunks are therefore installed where the producers will be next, and an idle lane keeps two or
//!   three.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use self::chunk::{CHUNK, Chunk};
use crate::cache_padded::CachePadded;
use crate::executor::{RejectReason, Rejected};
use crate::raw::task::Task;
use crate::sys::prim::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, claim_fence, spin_loop, yield_now,
};

mod chunk;

/// Set in the claim word once the lane is closed.
const CLOSED: u64 = 1 << 63;
/// One task of the loop's local queue in the claim word.
const LOCAL_ONE: u64 = 1 << 32;
/// The largest bound a lane can have.
const MAX_BOUND: usize = 1 << 30;

/// The producers' side of a loop's task lane.
///
/// ```
/// use tidegate_core::Task;
/// use tidegate_core::internal::TaskLane;
///
/// let (lane, mut end) = TaskLane::new(16);
/// lane.push(Task::new(|| println!("hello"))).unwrap();
/// end.pop().expect("just pushed").run();
/// lane.close();
/// assert!(lane.push(Task::new(|| ())).is_err());
/// ```
pub struct TaskLane {
    producers: CachePadded<Producers>,
    /// The first index that is not known to be started; written by the loop once per batch.
    head: CachePadded<AtomicU32>,
    /// Set when a producer was refused and wants `head` published.
    wanted: CachePadded<AtomicBool>,
    directory: Box<[AtomicPtr<Chunk>]>,
    bound: u32,
}

/// The words that producers compete for, on a cache line of their own.
#[derive(Debug)]
struct Producers {
    /// Closed bit, tasks in the loop's local queue (31 bits), next index (32 bits).
    claim: AtomicU64,
    /// A `head` that some producer has read. It is as good as the real one until the lane looks
    /// full, and it saves every push a read of the loop's cache line.
    seen: AtomicU32,
}

/// The loop's side of its task lane: the only consumer.
pub struct TaskLaneReceiver {
    lane: Arc<TaskLane>,
    /// The next index to take.
    head: u32,
    /// The `head` that was published last.
    published: u32,
    /// The chunk of `head`; null until a producer has installed it.
    chunk: *mut Chunk,
    /// The tag of a written slot in `chunk`.
    tag: usize,
}

// SAFETY: the receiver owns the right to read slots; a chunk is reached through the lane, which the
// receiver keeps alive, and tasks are `Send`.
unsafe impl Send for TaskLaneReceiver {}

impl TaskLane {
    /// The smallest bound a lane can have; a smaller one is raised to it.
    pub const MIN_BOUND: usize = if cfg!(tidegate_loom) { 1 } else { 16 };

    /// Creates a lane that holds at most `bound` tasks, and its receiver. A bound below
    /// [`TaskLane::MIN_BOUND`] is raised to it, and one above 2^30 is lowered to that.
    pub fn new(bound: usize) -> (Arc<Self>, TaskLaneReceiver) {
        Self::starting_at(bound, 0)
    }

    fn starting_at(bound: usize, index: u32) -> (Arc<Self>, TaskLaneReceiver) {
        let bound = bound.clamp(Self::MIN_BOUND, MAX_BOUND);
        let places = (bound.div_ceil(CHUNK) + 1).next_power_of_two();
        let lane = Arc::new(Self {
            producers: CachePadded::new(Producers {
                claim: AtomicU64::new(u64::from(index)),
                seen: AtomicU32::new(index),
            }),
            head: CachePadded::new(AtomicU32::new(index)),
            wanted: CachePadded::new(AtomicBool::new(false)),
            directory: (0..places)
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
            bound: u32::try_from(bound).expect("clamped to 2^30"),
        });
        let end = TaskLaneReceiver {
            lane: Arc::clone(&lane),
            head: index,
            published: index,
            chunk: ptr::null_mut(),
            tag: 0,
        };
        (lane, end)
    }

    /// Appends `task` to the lane. Returns an upper bound of the number of waiting tasks; there are
    /// fewer if the loop has taken tasks and not published that yet. The caller then rings the
    /// doorbell.
    ///
    /// # Errors
    ///
    /// The task, when the lane is full or closed.
    #[inline]
    pub fn push(&self, task: Task) -> Result<usize, Rejected<Task>> {
        let mut claim = self.producers.claim.load(Ordering::Relaxed);
        let (index, waiting) = loop {
            if claim & CLOSED != 0 {
                return Err(Rejected::new(task, RejectReason::Closed));
            }
            let index = index_of(claim);
            // ORDERING: Acquire pairs with the Release store in `refresh_seen`, which passes on
            // what that producer acquired from the loop.
            let mut waiting = self.waiting(claim, self.producers.seen.load(Ordering::Acquire));
            if waiting >= self.bound {
                waiting = self.waiting(claim, self.refresh_seen());
            }
            if waiting >= self.bound {
                self.request_head();
                return Err(Rejected::new(task, RejectReason::Full));
            }
            let next = claim & !u64::from(u32::MAX) | u64::from(index.wrapping_add(1));
            // ORDERING: SeqCst: the claim that `TaskLaneReceiver::is_empty` must see, see
            // `Doorbell`. It publishes nothing: the slot's tag does. In loom's models `claim_fence`
            // gives this order instead: no model fails if this ordering is weakened, but models
            // fail if that fence is removed.
            match self.producers.claim.compare_exchange_weak(
                claim,
                next,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break (index, waiting),
                Err(now) => claim = now,
            }
        };
        // SAFETY: a chunk in its directory entry is alive, and the loop removes it only after it
        // has read every slot of it, this thread's included.
        let chunk = unsafe { &*self.chunk_at(index) };
        // SAFETY: the claim gave this index to this thread alone, so its slot is unwritten in this
        // use of the chunk and no other thread writes it.
        unsafe { chunk.write(index, task) };
        // Last, because loom's fence would otherwise hide a missing Acquire of `head`.
        claim_fence();
        Ok(waiting as usize + 1)
    }

    /// Refuses every later push. Returns `false` if the lane was closed before.
    pub fn close(&self) -> bool {
        // ORDERING: SeqCst, as the claims: earlier claims are counted by `is_empty`, later ones are
        // refused. The models need only that this is one atomic operation on the word, which any
        // ordering gives; `SeqCst` keeps the close in the total order of `Doorbell`.
        self.producers.claim.fetch_or(CLOSED, Ordering::SeqCst) & CLOSED == 0
    }

    /// Returns `true` if the lane is closed.
    pub fn is_closed(&self) -> bool {
        self.producers.claim.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Returns the number of tasks that are accepted and not known to be started, including those
    /// in the loop's local queue.
    pub fn len(&self) -> usize {
        // ORDERING: SeqCst, as in `TaskLaneReceiver::is_empty`: a loop that gives its thread back
        // calls this after arming its doorbell. (No loom model depends on it, for the same reason.)
        let claim = self.producers.claim.load(Ordering::SeqCst);
        self.waiting(claim, self.head()) as usize
    }

    /// Returns `true` if no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of waiting tasks.
    pub fn bound(&self) -> usize {
        self.bound as usize
    }

    /// Counts up to `most` tasks of the loop's own queue against the bound. Returns how many were
    /// counted. Called only by the loop.
    pub fn reserve(&self, most: u32) -> u32 {
        let mut claim = self.producers.claim.load(Ordering::Relaxed);
        loop {
            let room = self.bound.saturating_sub(self.waiting(claim, self.head()));
            let granted = most.min(room);
            if granted == 0 || claim & CLOSED != 0 {
                return 0;
            }
            let next = claim + u64::from(granted) * LOCAL_ONE;
            // Relaxed: only a count; the counted tasks never leave the loop's thread.
            match self.producers.claim.compare_exchange_weak(
                claim,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return granted,
                Err(now) => claim = now,
            }
        }
    }

    /// Releases `count` reserved tasks: they were started, or are no longer needed.
    pub fn release(&self, count: u32) {
        if count > 0 {
            let before = self
                .producers
                .claim
                .fetch_sub(u64::from(count) * LOCAL_ONE, Ordering::Relaxed);
            debug_assert!(local_of(before) >= count, "released more than was reserved");
        }
    }

    /// Reads the loop's `head` and stores it in `seen` for the other producers.
    #[cold]
    fn refresh_seen(&self) -> u32 {
        let head = self.head();
        // ORDERING: Release passes on what `head` acquired; pairs with the Acquire load in `push`.
        // An older value may replace a newer one: producers then only read the real `head` sooner.
        self.producers.seen.store(head, Ordering::Release);
        head
    }

    /// Asks the loop to publish its head after its current task.
    #[cold]
    fn request_head(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn head(&self) -> u32 {
        // ORDERING: Acquire pairs with the Release store in `publish`: a producer that sees that a
        // chunk's indexes are free again also sees that the chunk has left its directory entry.
        self.head.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn waiting(&self, claim: u64, head: u32) -> u32 {
        // A stale claim may be behind a fresh head; its compare-and-swap then fails.
        let queued = index_of(claim).wrapping_sub(head) as i32;
        u32::try_from(queued).unwrap_or(0) + local_of(claim)
    }

    /// Returns the chunk of `index`. Installs a new one if the directory entry is empty.
    #[inline(always)]
    fn chunk_at(&self, index: u32) -> *mut Chunk {
        let place = self.directory_entry(index);
        // ORDERING: Acquire pairs with the Release of the thread that installed the chunk, in
        // `install_chunk` or in `TaskLaneReceiver::retire`: its tag and its old slots are visible.
        let chunk = place.load(Ordering::Acquire);
        if chunk.is_null() {
            return Self::install_chunk(place);
        }
        chunk
    }

    #[cold]
    fn install_chunk(place: &AtomicPtr<Chunk>) -> *mut Chunk {
        let fresh = Box::into_raw(Chunk::allocate());
        // ORDERING: Release publishes the fresh chunk to `chunk_at` and `find_chunk`; Acquire, on
        // failure, sees another thread's chunk. A thread that finds the entry empty reads nothing
        // through it.
        match place.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(theirs) => {
                // SAFETY: `fresh` came from `Box::into_raw` above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                theirs
            }
        }
    }

    /// Returns the number of chunks in the directory.
    #[cfg(test)]
    fn chunks(&self) -> usize {
        let hangs = |place: &&AtomicPtr<Chunk>| !place.load(Ordering::Relaxed).is_null();
        self.directory.iter().filter(hangs).count()
    }

    #[inline(always)]
    fn directory_entry(&self, index: u32) -> &AtomicPtr<Chunk> {
        let place = (index as usize / CHUNK) & (self.directory.len() - 1);
        &self.directory[place]
    }
}

impl Drop for TaskLane {
    fn drop(&mut self) {
        for place in &self.directory {
            let chunk = place.load(Ordering::Relaxed);
            if !chunk.is_null() {
                // SAFETY: chunks in the directory come from `Box::into_raw`; both sides of the lane
                // are gone, and the receiver's drop has dropped every task before.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

impl fmt::Debug for TaskLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLane")
            .field("len", &self.len())
            .field("bound", &self.bound)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl TaskLaneReceiver {
    /// Takes the oldest task. Returns `None` if there is none, or if its producer is still writing
    /// it (then [`TaskLaneReceiver::is_empty`] is false).
    #[inline]
    pub fn pop(&mut self) -> Option<Task> {
        if self.chunk.is_null() {
            self.find_chunk()?;
        }
        // SAFETY: `chunk` is in the directory entry of `head`, and only this thread removes it, in
        // `retire`.
        let chunk = unsafe { &*self.chunk };
        // SAFETY: this is the lane's only receiver, and each index is read once, since `head` moves
        // on below.
        let task = unsafe { chunk.read(self.head, self.tag) }?;
        self.head = self.head.wrapping_add(1);
        if (self.head as usize).is_multiple_of(CHUNK) {
            self.retire();
        }
        Some(task)
    }

    /// Returns `true` if the oldest task can be taken now. Reads only the slot of that task, not
    /// the word that producers compete for: a loop polls this while it waits a moment.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        if self.chunk.is_null() && self.find_chunk().is_none() {
            return false;
        }
        // SAFETY: as in `pop`.
        let chunk = unsafe { &*self.chunk };
        chunk.is_written(self.head, self.tag)
    }

    /// Publishes the loop's `head` to the producers. Called once per batch.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            // ORDERING: Release pairs with the Acquire load in `TaskLane::head`.
            self.lane.head.store(self.head, Ordering::Release);
        }
    }

    /// Returns `true` if a producer was refused since the last call. The loop then publishes after
    /// its current task and releases what it reserved and does not use.
    #[inline]
    pub fn take_head_request(&self) -> bool {
        self.lane.wanted.load(Ordering::Relaxed) && self.lane.wanted.swap(false, Ordering::Relaxed)
    }

    /// Does the same as [`TaskLane::reserve`].
    pub fn reserve(&self, most: u32) -> u32 {
        self.lane.reserve(most)
    }

    /// Does the same as [`TaskLane::release`].
    pub fn release(&self, count: u32) {
        self.lane.release(count);
    }

    /// Returns `true` if no task was claimed beyond those taken. The loop calls this after arming
    /// its doorbell; see `Doorbell` for why the result is reliable then.
    pub fn is_empty(&self) -> bool {
        // ORDERING: SeqCst, the loop's check; pairs with the claim in `TaskLane::push`. In loom's
        // models the fence of `Doorbell::arm` gives this order instead.
        index_of(self.lane.producers.claim.load(Ordering::SeqCst)) == self.head
    }

    /// Returns the number of tasks that are claimed and not yet taken.
    pub fn len(&self) -> usize {
        let claim = self.lane.producers.claim.load(Ordering::Relaxed);
        index_of(claim).wrapping_sub(self.head) as usize
    }

    /// Returns the producers' side.
    pub fn lane(&self) -> &Arc<TaskLane> {
        &self.lane
    }

    /// Takes all tasks out of a closed lane. Waits for producers that have claimed an index and are
    /// still writing.
    pub fn drain(&mut self) -> Vec<Task> {
        debug_assert!(self.lane.is_closed(), "an open lane has no end to drain to");
        let mut left = Vec::with_capacity(self.len());
        let mut looks = 0_u32;
        while !self.is_empty() {
            if let Some(task) = self.pop() {
                left.push(task);
                continue;
            }
            looks += 1;
            if looks.is_multiple_of(64) || cfg!(tidegate_loom) {
                yield_now();
            } else {
                spin_loop();
            }
        }
        self.publish();
        left
    }

    #[cold]
    fn find_chunk(&mut self) -> Option<()> {
        // ORDERING: Acquire pairs with the Release in `TaskLane::install_chunk` and `retire`.
        let chunk = self.lane.directory_entry(self.head).load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        self.chunk = chunk;
        // SAFETY: a chunk in its directory entry is alive until this thread removes it.
        let hung = unsafe { &*chunk };
        // SAFETY: it is in use, and its tag changes only in `retire`, by this thread.
        self.tag = unsafe { hung.tag() };
        Some(())
    }

    /// Removes the completely read chunk from its directory entry and installs it where it is
    /// needed next.
    #[cold]
    fn retire(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, ptr::null_mut());
        let last = self.head.wrapping_sub(1);
        // Relaxed: no producer reads this entry before it has seen the `head` that is published
        // after this, with Release.
        self.lane
            .directory_entry(last)
            .store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: it came from `Box::into_raw` in `install_chunk` and is freed only below.
        let used = unsafe { &*chunk };
        // SAFETY: every slot was read, so every producer of this chunk is done with it, and it is
        // in no directory entry: this thread alone holds it.
        unsafe { used.toggle_tag() };
        let claimed = index_of(self.lane.producers.claim.load(Ordering::Relaxed));
        let ahead = claimed.wrapping_add(CHUNK as u32);
        // ORDERING: Release publishes the toggled tag; pairs with the Acquire load in
        // `TaskLane::chunk_at` and `find_chunk`.
        let hung = self.lane.directory_entry(ahead).compare_exchange(
            ptr::null_mut(),
            chunk,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if hung.is_err() {
            // SAFETY: it came from `Box::into_raw` in `install_chunk` and is in no directory entry.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}

impl Drop for TaskLaneReceiver {
    fn drop(&mut self) {
        self.lane.close();
        drop(self.drain());
    }
}

impl fmt::Debug for TaskLaneReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLaneReceiver")
            .field("taken", &self.head)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

fn index_of(claim: u64) -> u32 {
    claim as u32
}

fn local_of(claim: u64) -> u32 {
    ((claim & !CLOSED) >> 32) as u32
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
