//! The entries that leave a wheel: expired, or drained.

use super::entry::Live;

/// An entry that has left the wheel because it was due.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::wheel::{Expired, Wheel};
///
/// let mut wheel = Wheel::new(Duration::from_nanos(10), 8)?;
/// wheel.insert(15, 'a');
/// let Expired { deadline, value } = wheel.pop_due(20).expect("it is due");
/// assert_eq!((deadline, value), (15, 'a'));
/// # Ok::<(), tidegate_timer::wheel::WheelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expired<T> {
    /// The requested deadline, or the first moment of the next tick if the deadline had already
    /// passed. Its distance to the current time is the lateness of the entry.
    pub deadline: u64,
    /// The inserted value.
    pub value: T,
}

impl<T> From<Live<T>> for Expired<T> {
    fn from(live: Live<T>) -> Self {
        Self {
            deadline: live.deadline,
            value: live.value,
        }
    }
}

/// Sorts the entries by their deadlines; those with the same one keep their order.
pub(super) fn sort_by_deadline<T>(entries: &mut [Expired<T>]) {
    let mut order = Vec::with_capacity(entries.len());
    for entry in &*entries {
        order.push((entry.deadline, order.len()));
    }
    sort(&mut order);
    // Entry `at` has to come from place `from`, or from where a swap has moved it to.
    for at in 0..order.len() {
        let mut from = order[at].1;
        while from < at {
            from = order[from].1;
        }
        entries.swap(at, from);
        order[at].1 = from;
    }
}

/// Sorts deadlines with their places. A function of its own, because a sort is compiled for each type.
fn sort(order: &mut [(u64, usize)]) {
    order.sort_unstable();
}
