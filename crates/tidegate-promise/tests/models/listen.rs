//! Models of a completion against listeners: each runs exactly once, on one thread at a time.

use super::*;

/// Two threads: one completes while the other adds two listeners, inline and in a node.
#[test]
fn a_completion_against_listeners_notifies_each_once() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        reader.listen(calls.listener());
        reader.listen(calls.listener());
        assert!(completer.join().unwrap());
        drop(reader);
        assert_eq!(calls.get(), 2);
    });
}

/// Two threads: the reader listens and is consumed in one step while the other thread completes.
#[test]
fn a_completion_against_the_last_listener_notifies_and_frees() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        reader.finish(calls.listener());
        assert!(completer.join().unwrap());
        assert_eq!(calls.get(), 1);
    });
}

/// Three threads: two add listeners through shared readers while the third completes.
#[test]
fn a_completion_against_two_shared_readers_notifies_each_once() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let calls = Calls::new();
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        let other = {
            let (reader, calls) = (reader.clone(), calls.clone());
            thread::spawn(move || drop(reader.listen(calls.listener())))
        };
        reader.listen(calls.listener());
        drop(reader);
        assert!(completer.join().unwrap());
        other.join().unwrap();
        assert_eq!(calls.get(), 2);
    });
}

/// Three threads: two late listeners of a decided block race for the right to notify.
#[test]
fn late_listeners_against_each_other_are_called_once() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        assert!(writer.complete(Ok(value(1))).is_ok());
        let calls = Calls::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (reader, calls) = (reader.clone(), calls.clone());
                thread::spawn(move || drop(reader.listen(calls.listener())))
            })
            .collect();
        drop(reader);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(calls.get(), 2);
    });
}

/// Three threads: the block is sent to its home while its reader adds a late listener and is
/// dropped. The listeners stay in order.
#[test]
fn a_late_listener_against_the_home_keeps_its_place() {
    loom::model(|| {
        let home = Home::new();
        let (writer, reader) = block::<Value, u32>(Some(home.clone()), || ABANDONED);
        let order = Arc::new(AtomicUsize::new(0));
        let note = |digit: usize| {
            let order = Arc::clone(&order);
            move |_: Outcome<&Value, &u32>| {
                order.store(order.load(Relaxed) * 10 + digit, Relaxed);
            }
        };
        reader.listen(note(1));
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        let driver = {
            let home = home.clone();
            thread::spawn(move || home.drain())
        };
        reader.listen(note(2));
        drop(reader);
        assert!(completer.join().unwrap());
        driver.join().unwrap();
        home.drain();
        home.drain();
        assert_eq!(order.load(Relaxed), 12);
    });
}

/// Two threads: a task polls, with another waker each time, until it can take the value that the
/// other thread stores. It is woken if it has to wait.
#[test]
fn a_completion_against_a_poll_wakes_the_last_waker() {
    loom::model(|| {
        let (writer, mut reader) = ends();
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        let (first, _) = waker();
        let taken = match reader.poll(&first) {
            Poll::Ready(taken) => taken,
            Poll::Pending => {
                let (second, woken) = waker();
                match reader.poll(&second) {
                    Poll::Ready(taken) => taken,
                    Poll::Pending => {
                        assert!(completer.join().unwrap());
                        assert_eq!(woken.load(Relaxed), 1);
                        let Poll::Ready(taken) = reader.poll(&second) else {
                            panic!("woken, and not ready");
                        };
                        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
                        return;
                    }
                }
            }
        };
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        assert!(completer.join().unwrap());
        assert!(matches!(reader.poll(&first), Poll::Ready(None)));
    });
}

/// Two threads: one sleeps until it is woken and can take the outcome. A lost wake-up is a
/// deadlock, which loom reports.
#[test]
fn a_waiting_thread_is_never_left_asleep() {
    loom::model(|| {
        let (writer, mut reader) = ends();
        let calls = Calls::new();
        reader.listen(calls.listener());
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let taken = loop {
            match reader.poll(&waker) {
                Poll::Ready(taken) => break taken,
                Poll::Pending => {
                    parker.park(None);
                }
            }
        };
        assert_eq!(calls.get(), 1, "the listener comes first");
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        assert!(completer.join().unwrap());
    });
}

/// Two threads: the waiting thread is woken in place while a later listener is still being sent to
/// its home. The waiting thread must register again, although it polls with the same waker.
#[test]
fn a_waker_that_was_called_too_early_is_registered_again() {
    loom::model(|| {
        let home = Home::new();
        let (writer, mut reader) = block::<Value, u32>(Some(home.clone()), || ABANDONED);
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        assert!(reader.poll(&waker).is_pending());
        reader.listen(|_| ());
        let completer = thread::spawn(move || {
            assert!(writer.complete(Ok(value(7))).is_ok());
            home.drain();
        });
        let taken = loop {
            match reader.poll(&waker) {
                Poll::Ready(taken) => break taken,
                Poll::Pending => {
                    parker.park(None);
                }
            }
        };
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        completer.join().unwrap();
    });
}

/// Two threads: the outcome is never taken while a listener still reads it.
#[test]
fn a_take_never_meets_a_listener() {
    loom::model(|| {
        let (writer, mut reader) = ends();
        let calls = Calls::new();
        reader.listen(calls.listener());
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        if let Some(taken) = reader.try_take() {
            assert_eq!(calls.get(), 1);
            assert_eq!(taken.success().as_deref(), Some(&7));
            assert!(reader.listen(calls.listener()).is_none());
        }
        assert!(completer.join().unwrap());
    });
}

fn look(reader: &SharedReader<Value, u32>) {
    if let Some(outcome) = reader.peek() {
        assert_eq!(outcome.success().map(|value| **value), Some(7));
    }
}

/// Two threads: the notifier may be the last owner. It frees the outcome only after every access
/// to it. The listener yields, because loom tries an interleaving between two steps of one thread
/// only at the last step that accessed the same word. Fails if the first load in `release`, or the
/// load after a failed exchange, is relaxed.
#[test]
fn a_notifier_that_frees_comes_after_every_look() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        drop(reader.listen(|_| thread::yield_now()));
        let looker = thread::spawn(move || look(&reader));
        assert!(writer.complete(Ok(value(7))).is_ok());
        looker.join().unwrap();
    });
}

/// The same, but the reader accesses the outcome on the other side of the notification.
#[test]
fn a_reader_that_leaves_during_the_notification_is_waited_for() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        drop(reader.listen(|_| ()));
        let looker = thread::spawn(move || look(&reader));
        assert!(writer.complete(Ok(value(7))).is_ok());
        looker.join().unwrap();
    });
}

/// Three threads: shared readers read the outcome by reference while the third thread completes.
#[test]
fn a_look_sees_the_whole_outcome_or_none() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        let other = {
            let reader = reader.clone();
            thread::spawn(move || look(&reader))
        };
        look(&reader);
        drop(reader);
        assert!(completer.join().unwrap());
        other.join().unwrap();
    });
}
