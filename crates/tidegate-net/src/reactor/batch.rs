//! Events whose sources receive together.

use super::source::{Desk, EventSource};
use crate::events::{Group, Slab};
use crate::sys::prefetch;

/// Lets who is at home of a group receive before the first of them is told: one system call many
/// times in a row is cheaper than two kinds by turns, since its code stays near. Where `far`, there
/// are so many sources that their memory has to be asked for. True if they all are quick, so that what
/// they send may wait for each other.
#[inline(never)]
pub(crate) fn receive_ahead<S: EventSource + ?Sized>(
    group: Group<'_>,
    sources: &mut Slab<Box<S>>,
    desk: &mut Desk,
    far: bool,
) -> bool {
    let mut quick = true;
    for (at, ready) in group.to_come[..group.len].iter().enumerate() {
        if far
            && let Some(later) = group.to_come.get(at + 2)
            && let Some(source) = sources.peek(later.token)
        {
            prefetch(&**source);
        }
        if let Some(source) = sources.get_mut(ready.token) {
            quick &= source.receive_ahead(ready.readiness, desk);
            if far {
                source.expect();
            }
        }
    }
    quick
}
