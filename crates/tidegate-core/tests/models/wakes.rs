//! The flag that saves messages to a receiver that polls anyway.

use super::*;

/// What two threads announce to one receiver.
#[derive(Default)]
struct Board {
    flag: WakeFlag,
    news: [AtomicUsize; 2],
    messages: AtomicUsize,
}

impl Board {
    fn announce(&self, at: usize) {
        self.news[at].store(1, Relaxed);
        if self.flag.raise() {
            self.messages.fetch_add(1, Release);
        }
    }

    fn poll(&self) -> usize {
        self.flag.clear();
        self.news.iter().map(|news| news.load(Relaxed)).sum()
    }

    /// Polls for each message until everything is known. A lost wake-up would never be known: loom
    /// reports a loop that does not end.
    fn poll_until_known(&self, mut known: usize) {
        while known < 2 {
            if self.messages.swap(0, Acquire) > 0 {
                known = self.poll();
            }
            thread::yield_now();
        }
    }
}

fn announced_while(poll_first: fn(&Board) -> usize) {
    loom::model(move || {
        let board = Arc::new(Board::default());
        let wakers: Vec<_> = (0..2)
            .map(|at| {
                let board = Arc::clone(&board);
                thread::spawn(move || board.announce(at))
            })
            .collect();
        let known = poll_first(&board);
        board.poll_until_known(known);
        for waker in wakers {
            waker.join().expect("it does not panic");
        }
    });
}

/// Three threads: two wake the receiver while it polls.
/// Fails when: `raise` or `clear` is relaxed, or the flag is cleared after the poll.
#[test]
fn a_wake_without_a_message_is_seen_by_a_later_poll() {
    announced_while(Board::poll);
}

/// Three threads: two wake the receiver while it holds messages back and then polls.
/// Fails when: `hold` stores instead of swapping, or `clear` is relaxed.
#[test]
fn a_wake_that_was_held_back_is_seen_by_the_poll_that_follows() {
    announced_while(|board| {
        board.flag.hold();
        board.poll()
    });
}
