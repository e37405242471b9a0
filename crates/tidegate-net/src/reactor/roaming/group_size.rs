//! How many sources the next task of a roaming loop gets.
//!
//! Several sources in a task save time if the thread that produces runs the task and then goes on
//! producing. If another thread runs it or takes over, the loop has to recall the sources that have
//! not begun. So a loop begins with one source, and doubles the number as long as its tasks are over
//! when it goes on. It halves the number if one is not, and then waits before it tries more again:
//! longer each time, until its tasks have been over for a while. The waits are short, because a task
//! that was not over is cheap compared with the slow sources that caused it, and because a system
//! that lets other programs run can cause it too.

use crate::sys::PIECES;

/// Sources that are run before the number grows again after a task that was not over: at first, and
/// at most.
const PAUSE: u32 = 32;
const LONGEST_PAUSE: u32 = 512;

/// The number of sources of the next task.
#[derive(Debug)]
pub(super) struct GroupSize {
    size: usize,
    /// Sources to run before the number grows.
    pause: u32,
    /// The length of the next pause.
    next_pause: u32,
    /// Sources that were run since the last task that was not over.
    calm: u32,
}

impl GroupSize {
    pub(super) fn new() -> Self {
        Self {
            size: 1,
            pause: 0,
            next_pause: PAUSE,
            calm: 0,
        }
    }

    /// Returns the number.
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.size
    }

    /// Records a task of `count` sources that was over when the loop went on.
    #[inline]
    pub(super) fn was_over(&mut self, count: usize) {
        let count = count as u32;
        self.calm = self.calm.saturating_add(count);
        self.pause = self.pause.saturating_sub(count);
        if self.pause == 0 && self.size < PIECES {
            self.size *= 2;
        }
    }

    /// Records a task of `count` sources that was not over.
    #[cold]
    pub(super) fn was_left(&mut self, count: usize) {
        if self.calm >= LONGEST_PAUSE {
            self.next_pause = PAUSE;
        }
        self.calm = 0;
        self.size = (self.size / 2).max(1);
        self.pause = self.next_pause;
        if count > 1 {
            self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    //! The number grows while tasks are over, and less often the more of them were not.

    use super::*;

    /// Runs tasks of full size that are over until the number is `size`. Returns how many sources
    /// that were.
    fn run_until(group_size: &mut GroupSize, size: usize) -> usize {
        let mut run = 0;
        while group_size.get() < size {
            let count = group_size.get();
            run += count;
            group_size.was_over(count);
        }
        run
    }

    #[test]
    fn the_number_doubles_while_tasks_are_over() {
        let mut group_size = GroupSize::new();
        assert_eq!(group_size.get(), 1);
        assert_eq!(run_until(&mut group_size, PIECES), 7, "1 + 2 + 4");
        group_size.was_over(PIECES);
        assert_eq!(group_size.get(), PIECES);
    }

    #[test]
    fn the_number_is_halved_and_grows_after_a_pause_that_doubles() {
        let mut group_size = GroupSize::new();
        run_until(&mut group_size, PIECES);
        for pause in [32, 64, 128] {
            group_size.was_left(PIECES);
            assert_eq!(group_size.get(), PIECES / 2);
            assert_eq!(run_until(&mut group_size, PIECES), pause);
        }
        for _ in 0..10 {
            group_size.was_left(2);
        }
        assert_eq!(group_size.get(), 1);
        let run = run_until(&mut group_size, 2);
        assert_eq!(run, LONGEST_PAUSE as usize);
    }

    #[test]
    fn after_a_long_calm_the_pause_is_short_again() {
        let mut group_size = GroupSize::new();
        for _ in 0..10 {
            group_size.was_left(2);
        }
        run_until(&mut group_size, PIECES);
        group_size.was_left(PIECES);
        assert_eq!(run_until(&mut group_size, PIECES), PAUSE as usize);
    }

    #[test]
    fn tasks_of_one_source_that_other_threads_run_leave_the_pause_as_it_is() {
        let mut group_size = GroupSize::new();
        for _ in 0..100 {
            group_size.was_left(1);
        }
        assert_eq!(run_until(&mut group_size, 2), PAUSE as usize);
    }
}
