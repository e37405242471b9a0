//! The type information of a task's closure: its kind, its bytes, and its functions.

use std::mem::MaybeUninit;

/// Whether a task may block the thread that runs it.
///
/// Ordered from least to most blocking, so that the kind of a chain of handlers is the maximum of
/// their kinds.
///
/// ```
/// use tidegate_core::Blocking;
///
/// assert_eq!(Blocking::Never.max(Blocking::Adapts), Blocking::Adapts);
/// assert_eq!(Blocking::default(), Blocking::May);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blocking {
    /// Never blocks.
    Never,
    /// Blocks only where the thread allows it: the task checks the thread's tag first.
    Adapts,
    /// May block. This is the default.
    #[default]
    May,
}

/// Words of closure that fit into a task without a box.
pub(crate) const INLINE_WORDS: usize = 3;

/// The closure's bytes. Pointer-typed words, so that pointers captured by the closure keep their
/// provenance when the task is moved word by word through a lane.
pub(crate) type Data = [MaybeUninit<*mut ()>; INLINE_WORDS];

/// The description of a closure type; one static per closure type.
#[derive(Debug)]
#[repr(align(8))]
pub(crate) struct Vtable {
    /// Runs and consumes the closure in `Data`.
    pub(super) run: unsafe fn(*mut Data),
    /// Drops the closure in `Data` without running it.
    pub(super) drop: unsafe fn(*mut Data),
    /// Returns the closure's name, read from its type or from its data.
    pub(super) name: unsafe fn(*const Data) -> &'static str,
    /// Returns the name of the closure's type, for observers that cannot read the data.
    pub(crate) type_name: fn() -> &'static str,
    pub(super) blocking: Blocking,
    pub(super) long: bool,
    /// Whether the task is of the runtime itself: only its executor can run it.
    pub(super) internal: bool,
}
