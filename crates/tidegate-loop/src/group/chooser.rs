//! Choosing an event loop of a group.

use tidegate_core::internal::prim::{AtomicU64, Ordering};

/// How a group chooses the event loop for new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choose {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The less busy of two.
    LessBusy,
}

/// The policy and the counter of a group's choices.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    how: Choose,
    next: AtomicU64,
}

impl Chooser {
    pub(crate) fn new(how: Choose) -> Self {
        Self {
            how,
            next: AtomicU64::new(0),
        }
    }

    /// Chooses one of `count` event loops (at least one). `load` returns how busy an event loop is,
    /// or `None` if it accepts no work now.
    ///
    /// # Errors
    ///
    /// The event loop whose turn it is, if none accepts work.
    pub(crate) fn choose(
        &self,
        count: usize,
        load: impl Fn(usize) -> Option<u64>,
    ) -> Result<usize, usize> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let first = place(ticket, count);
        match self.how {
            Choose::RoundRobin => {
                let mut tries = (0..count).map(|step| (first + step) % count);
                tries.find(|&at| load(at).is_some()).ok_or(first)
            }
            Choose::LessBusy => {
                let other = (first + 1 + spread(ticket, count - 1)) % count;
                match (load(first), load(other)) {
                    (Some(a), Some(b)) => Ok(if a <= b { first } else { other }),
                    (Some(_), None) => Ok(first),
                    (None, Some(_)) => Ok(other),
                    (None, None) => (0..count).find(|&at| load(at).is_some()).ok_or(first),
                }
            }
        }
    }
}

/// Returns the index of choice number `ticket` among `count`: by a mask if `count` is a power of
/// two (the counter may wrap), else by a 64-bit remainder (which does not wrap in practice).
fn place(ticket: u64, count: usize) -> usize {
    let count = count as u64;
    let at = if count.is_power_of_two() {
        ticket & (count - 1)
    } else {
        ticket % count
    };
    usize::try_from(at).unwrap_or(0)
}

/// Returns a pseudo-random number below `range` (0 if that is 0) that depends only on `ticket`.
fn spread(ticket: u64, range: usize) -> usize {
    if range == 0 {
        return 0;
    }
    let mut mixed = ticket.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ (mixed >> 31)) % range as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Round robin is exact, the less busy loop wins, and loops that accept no work are skipped.

    use super::*;

    fn idle(_: usize) -> Option<u64> {
        Some(0)
    }

    #[test]
    fn round_robin_is_exact_for_any_count() {
        for count in [1, 2, 3, 4, 7, 8] {
            let chooser = Chooser::new(Choose::RoundRobin);
            let chosen: Vec<_> = (0..3 * count)
                .map(|_| chooser.choose(count, idle))
                .collect();
            let expected: Vec<_> = (0..3 * count).map(|turn| Ok(turn % count)).collect();
            assert_eq!(chosen, expected);
        }
    }

    #[test]
    fn round_robin_survives_the_wrap_of_a_32_bit_counter() {
        let chooser = Chooser::new(Choose::RoundRobin);
        chooser
            .next
            .store(u64::from(u32::MAX) - 1, Ordering::Relaxed);
        let choose = |_| chooser.choose(3, idle).expect("all accept work");
        let chosen: Vec<_> = (0..6).map(choose).collect();
        for pair in chosen.windows(2) {
            assert_eq!((pair[0] + 1) % 3, pair[1]);
        }
    }

    #[test]
    fn the_masked_counter_may_wrap() {
        let chooser = Chooser::new(Choose::RoundRobin);
        chooser.next.store(u64::MAX, Ordering::Relaxed);
        assert_eq!([(); 2].map(|()| chooser.choose(4, idle)), [Ok(3), Ok(0)]);
    }

    #[test]
    fn the_less_busy_of_two_is_chosen() {
        let chooser = Chooser::new(Choose::LessBusy);
        let load = |at: usize| Some(if at == 2 { 0 } else { 10 });
        let chosen = (0..400)
            .filter(|_| chooser.choose(4, load) == Ok(2))
            .count();
        assert!(
            chosen > 150,
            "two random looks find the idle one about half the time: {chosen}"
        );
    }

    #[test]
    fn loops_that_take_no_work_are_skipped_while_others_do() {
        for how in [Choose::RoundRobin, Choose::LessBusy] {
            let chooser = Chooser::new(how);
            let load = |at: usize| (at == 1).then_some(5);
            for _ in 0..50 {
                assert_eq!(chooser.choose(4, load), Ok(1));
            }
            let any = chooser.choose(4, |_| None);
            assert!(any.is_err_and(|at| at < 4), "a loop even if all have ended");
        }
    }
}
