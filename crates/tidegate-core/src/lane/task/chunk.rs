//! A chunk of a task lane: an array of slots and the tag that marks the written ones.

use std::fmt;
use std::mem;
use std::ptr;

use crate::raw::task::Task;
use crate::raw::vtable::{Data, Vtable};
use crate::sys;
use crate::sys::prim::{AtomicPtr, Ordering, UnsafeCell};

/// Slots in a chunk (16 KiB), a power of two.
pub(super) const CHUNK: usize = if cfg!(tidegate_loom) { 2 } else { 512 };

/// How many slots ahead a producer prefetches the cache line that it will write. The lines of a
/// reused chunk are in the loop's cache, and fetching one takes longer than writing two tasks.
const AHEAD: usize = 8;

/// The number of low bits of a slot's first word that hold its tag; a vtable is aligned to 8.
const TAG_BITS: usize = 3;
/// The tags of successive uses of a chunk. Fresh memory carries 0.
const TAGS: [usize; 2] = [1, 2];

/// An array of slots. Each slot is written and read once in each use of the chunk.
#[repr(C, align(64))]
pub(super) struct Chunk {
    slots: [Slot; CHUNK],
    /// The one of [`TAGS`] that marks a slot as written in this use; changed only between uses.
    tag: UnsafeCell<Tag>,
}

/// The tag, padded to a cache line, so that every byte of a chunk is in a cell. The loop may free a
/// chunk while the last producer is still returning from [`Chunk::write`]; the `&self` there must
/// therefore guarantee nothing about any byte of the chunk.
#[repr(align(64))]
struct Tag(usize);

/// Storage for one task: 32 bytes, two to a cache line.
#[repr(C)]
struct Slot {
    /// The task's vtable with the tag in its low bits. Written last.
    first: AtomicPtr<Vtable>,
    data: UnsafeCell<Data>,
}

impl Chunk {
    /// Creates a chunk with no slot written.
    pub(super) fn allocate() -> Box<Self> {
        let slots = std::array::from_fn(|_| Slot {
            first: AtomicPtr::new(ptr::null_mut()),
            data: UnsafeCell::new([mem::MaybeUninit::uninit(); 3]),
        });
        Box::new(Self {
            slots,
            tag: UnsafeCell::new(Tag(TAGS[0])),
        })
    }

    /// Returns the tag of a written slot.
    ///
    /// # Safety
    ///
    /// The chunk is in use (between two calls of [`Chunk::toggle_tag`]) for as long as this runs.
    #[inline(always)]
    pub(super) unsafe fn tag(&self) -> usize {
        // SAFETY: only `turn` writes the tag, and it does not run now.
        self.tag.with(|tag| unsafe { (*tag).0 })
    }

    /// Toggles the tag, which makes every slot unwritten again.
    ///
    /// # Safety
    ///
    /// Every slot was written and read in this use, and the caller alone holds the chunk.
    pub(super) unsafe fn toggle_tag(&self) {
        // SAFETY: the caller alone holds the chunk.
        let tag = self.tag.with_mut(|tag| unsafe { &mut *tag });
        tag.0 = TAGS[0] + TAGS[1] - tag.0;
    }

    /// Writes `task` into the slot of `index`.
    ///
    /// # Safety
    ///
    /// The caller claimed `index`, this chunk contains its slot, and it has not written the slot
    /// yet.
    #[inline(always)]
    pub(super) unsafe fn write(&self, index: u32, task: Task) {
        let task = mem::ManuallyDrop::new(task);
        let slot = &self.slots[index as usize % CHUNK];
        sys::prefetch::prefetch_for_write(ptr::from_ref(slot).wrapping_add(AHEAD));
        // SAFETY: the slot belongs to the caller until its tag is stored below.
        slot.data.with_mut(|data| unsafe { *data = task.data });
        // SAFETY: the caller holds an index of this chunk, so the chunk is in use.
        let tag = unsafe { self.tag() };
        let first = ptr::from_ref(task.vtable)
            .cast_mut()
            .map_addr(|at| at | tag);
        // ORDERING: Release publishes `data`; pairs with the Acquire load in `read`.
        slot.first.store(first, Ordering::Release);
    }

    /// Returns `true` if the slot of `index` is written; `tag` is the chunk's.
    #[inline(always)]
    pub(super) fn is_written(&self, index: u32, tag: usize) -> bool {
        let slot = &self.slots[index as usize % CHUNK];
        slot.first.load(Ordering::Relaxed).addr() & ((1 << TAG_BITS) - 1) == tag
    }

    /// Takes the task out of the slot of `index`, if the slot is written.
    ///
    /// # Safety
    ///
    /// The caller is the lane's only reader, reads each index once, and `tag` is the chunk's.
    #[inline(always)]
    pub(super) unsafe fn read(&self, index: u32, tag: usize) -> Option<Task> {
        let slot = &self.slots[index as usize % CHUNK];
        // ORDERING: Acquire pairs with the Release store in `write` and makes `data` visible.
        let first = slot.first.load(Ordering::Acquire);
        if first.addr() & ((1 << TAG_BITS) - 1) != tag {
            return None;
        }
        // SAFETY: the tag says that the slot was written in this use, so no thread writes it now.
        let data = slot.data.with(|data| unsafe { *data });
        // SAFETY: `write` made the word from a `&'static Vtable` and the tag.
        let vtable = unsafe { &*untag(first) };
        Some(Task { vtable, data })
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").finish_non_exhaustive()
    }
}

fn untag(first: *mut Vtable) -> *const Vtable {
    first.map_addr(|at| at & !((1 << TAG_BITS) - 1))
}
