//! The reactors of a group, on which a program registers sources of its own.

use tidegate_loop::Placement;

use super::net_group::NetGroup;
use crate::source::ReactorHandle;

impl<P: Placement> NetGroup<P> {
    /// Returns the reactor of the next loop, to register a source of the caller there: see
    /// [`source`](crate::source).
    ///
    /// ```
    /// let group = tidegate_net::pinned("io", 2)?;
    /// assert_ne!(group.next_reactor().name(), group.next_reactor().name());
    /// # Ok::<(), tidegate_loop::BuildError>(())
    /// ```
    pub fn next_reactor(&self) -> ReactorHandle {
        let next = self.loops.next();
        let at = self.loops.iter().position(|one| one == next);
        self.reactors[at.unwrap_or(0)].clone()
    }

    /// Returns the reactor of each loop, in the order of the loops.
    pub fn reactors(&self) -> &[ReactorHandle] {
        &self.reactors
    }
}
