//! The signal lane and the blocks that are queued in it.

use super::*;

/// A block that logs its number.
struct Numbered(u32, Arc<Log>);

impl Deliver for Numbered {
    fn deliver(block: StdArc<SignalBlock<Self>>, how: Delivery) {
        if how == Delivery::Home {
            block.1.note(block.0);
        }
    }
}

fn numbered(number: u32, log: &Arc<Log>) -> tidegate_core::executor::Signal {
    let block = SignalBlock::new(Numbered(number, Arc::clone(log)));
    block.raise().expect("not raised yet")
}

/// Three threads, three signals; the loop takes once and then closes.
/// Fails when: the push is not Release, or the close is not Acquire.
#[test]
fn each_is_delivered_once_and_in_its_producers_order_or_comes_back() {
    loom::model(|| {
        let (lane, log) = (StdArc::new(SignalLane::new()), Arc::new(Log::default()));
        let producers: Vec<_> = [vec![1, 2], vec![11]]
            .into_iter()
            .map(|numbers| {
                let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
                thread::spawn(move || {
                    numbers
                        .into_iter()
                        .filter(|&number| lane.push(numbered(number, &log)).is_ok())
                        .count()
                })
            })
            .collect();
        lane.take().for_each(|signal| signal.deliver());
        lane.close().for_each(|signal| signal.deliver());
        let accepted: usize = producers
            .into_iter()
            .map(|producer| producer.join().expect("it does not panic"))
            .sum();
        let seen = log.get();
        let first: Vec<u32> = seen.iter().copied().filter(|&what| what < 10).collect();
        assert_eq!(seen.len(), accepted);
        assert!([1, 2].starts_with(&first));
        assert!(lane.is_empty() && lane.push(numbered(3, &log)).is_err());
    });
}

/// Three threads: one takes while another closes (both are safe to call from any thread) and a
/// third pushes. The lane stays closed, and every signal is seen once.
/// Fails when: `take` swaps without checking for the closed mark, or is relaxed.
#[test]
fn a_take_against_a_close_does_not_open_the_lane_again() {
    loom::model(|| {
        let (lane, log) = (StdArc::new(SignalLane::new()), Arc::new(Log::default()));
        let block = SignalBlock::new(News::default());
        lane.push(block.raise().expect("not raised yet"))
            .expect("the lane is open");
        let taker = {
            let lane = StdArc::clone(&lane);
            thread::spawn(move || lane.take().count())
        };
        let producer = {
            let (lane, log) = (StdArc::clone(&lane), Arc::clone(&log));
            thread::spawn(move || usize::from(lane.push(numbered(1, &log)).is_ok()))
        };
        let left = lane.close().count();
        let taken = taker.join().expect("it does not panic");
        let accepted = producer.join().expect("it does not panic");
        assert_eq!(left + taken, 1 + accepted);
        assert!(lane.push(numbered(2, &log)).is_err());
        assert_eq!(block.notified.load(Relaxed), 1);
    });
}

/// Two threads, two updates, one block: a raise that finds a signal in flight creates no second
/// one, and yet its update is delivered.
/// Fails when: a swap of `raised` is relaxed, or the flag is cleared after the delivery.
#[test]
fn no_news_is_lost_when_a_block_is_raised_again() {
    loom::model(|| {
        let (lane, block) = (
            StdArc::new(SignalLane::new()),
            SignalBlock::new(News::default()),
        );
        let producer = {
            let (lane, block) = (StdArc::clone(&lane), StdArc::clone(&block));
            thread::spawn(move || {
                for news in 1..=2 {
                    block.latest.store(news, Relaxed);
                    if let Some(signal) = block.raise() {
                        lane.push(signal).expect("the lane is open");
                    }
                }
            })
        };
        // A lost update would never be delivered: loom reports a loop that does not end.
        while block.received.load(Relaxed) < 2 {
            lane.take().for_each(|signal| signal.deliver());
            thread::yield_now();
        }
        producer.join().expect("it does not panic");
        lane.take().for_each(|signal| signal.deliver());
        assert_eq!(block.received.load(Relaxed), 2);
        assert!((1..=2).contains(&block.notified.load(Relaxed)));
    });
}
