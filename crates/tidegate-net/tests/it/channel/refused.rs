//! Messages that no handler gets are told why.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_net::{ChannelOptions, EmbeddedChannel, Message, NetError};
use tidegate_promise::{Completion, Failure, Promise, promise};

use crate::marks;

/// A request with the promise of its answer, and with its size.
struct Ask(Promise<u32>, usize);

impl Message for Ask {
    fn size(&self) -> usize {
        self.1
    }

    fn refused(self, why: Failure) {
        let _ = self.0.fail(why);
    }
}

fn ask(size: usize) -> (Ask, Completion<u32>) {
    let (promise, answer) = promise();
    (Ask(promise, size), answer)
}

/// Returns why there is no answer.
fn why(answer: Completion<u32>) -> NetError {
    let failure = answer.wait().unwrap_err().failure().unwrap();
    failure.downcast_ref::<NetError>().unwrap().clone()
}

fn channel(options: ChannelOptions) -> EmbeddedChannel {
    EmbeddedChannel::with_options(options, |p| p).unwrap()
}

#[test]
fn a_message_that_is_too_large_is_told_so() {
    let embedded = channel(marks(10, 100, 1_000));
    let channel = embedded.channel();
    let ((one, first), (two, second)) = (ask(2_000), ask(2_000));
    channel.write(one);
    let written = channel.write_with(Some(Box::new(two)));
    for answer in [first, second] {
        assert!(matches!(why(answer), NetError::WriteQueueFull { .. }));
    }
    assert!(written.wait().is_err());
}

#[test]
fn a_message_that_a_closed_channel_does_not_take_is_told_so() {
    let mut embedded = channel(ChannelOptions::default());
    let channel = embedded.channel();
    let ((one, first), (two, second), (late, third)) = (ask(7), ask(7), ask(7));
    drop(channel.close());
    channel.write((one, two));
    embedded.run();
    channel.write_and_flush(late);
    for answer in [first, second, third] {
        assert!(matches!(why(answer), NetError::Closed(None)));
    }
}

#[test]
fn a_message_that_panics_when_it_is_refused_costs_nobody_anything() {
    struct Panics(Arc<AtomicUsize>);
    impl Message for Panics {
        fn size(&self) -> usize {
            1
        }
        fn refused(self, _: Failure) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let mut embedded = channel(ChannelOptions::default());
    let channel = embedded.channel();
    drop(channel.close());
    channel.write(Panics(Arc::clone(&count)));
    let after = channel.write_with("after");
    embedded.run();
    assert!(after.wait().unwrap_err().to_string().contains("closed"));
    let late = channel.write_with(Panics(Arc::clone(&count)));
    assert!(late.wait().unwrap_err().to_string().contains("closed"));
    assert_eq!(count.load(Ordering::Relaxed), 2);
}
