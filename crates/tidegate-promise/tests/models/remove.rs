//! Models of removing listeners and sweeping their nodes. Under loom every removal sweeps.

use super::*;

/// Two threads: a listener in its own node is either called or removed.
#[test]
fn a_removal_against_a_notification_has_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let (kept, removed) = (Calls::new(), Calls::new());
        drop(reader.listen(kept.listener()));
        let token = reader.listen(removed.listener());
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        let was_removed = reader.remove(&token);
        drop((token, reader));
        assert!(completer.join().unwrap());
        assert_eq!(kept.get(), 1);
        assert_eq!(removed.get(), usize::from(!was_removed));
    });
}

/// Two threads: the same for the listener in the inline slot.
#[test]
fn a_removal_of_the_inline_listener_has_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let (removed, kept) = (Calls::new(), Calls::new());
        let token = reader
            .listen(removed.listener())
            .expect("nothing was taken");
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        let was_removed = reader.remove(&token);
        reader.listen(kept.listener());
        drop(reader);
        assert!(completer.join().unwrap());
        assert_eq!(removed.get(), usize::from(!was_removed));
        assert_eq!(kept.get(), 1);
    });
}

/// Three threads: a sweep loses no listener while another thread adds one and a third one
/// completes.
#[test]
fn a_sweep_against_an_addition_and_a_completion_loses_nothing() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let (kept, removed) = (Calls::new(), Calls::new());
        drop(reader.listen(kept.listener()));
        let token = reader.listen(removed.listener());
        let adder = {
            let (reader, kept) = (reader.clone(), kept.clone());
            thread::spawn(move || drop(reader.listen(kept.listener())))
        };
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        let was_removed = reader.remove(&token);
        drop((token, reader));
        adder.join().unwrap();
        assert!(completer.join().unwrap());
        assert_eq!(kept.get(), 2);
        assert_eq!(removed.get(), usize::from(!was_removed));
    });
}

/// Three threads: two sweeps race, and one of the sweeping threads then adds a listener.
#[test]
fn sweeps_against_each_other_lose_nothing() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let kept = Calls::new();
        drop(reader.listen(kept.listener()));
        let sweepers: Vec<_> = (0..2)
            .map(|n| {
                let (reader, kept) = (reader.clone(), kept.clone());
                thread::spawn(move || {
                    let token = reader.listen_waker(Waker::noop().clone());
                    reader.remove(&token);
                    if n == 0 {
                        drop(reader.listen(kept.listener()));
                    }
                })
            })
            .collect();
        drop(reader);
        for sweeper in sweepers {
            sweeper.join().unwrap();
        }
        drop(writer);
        assert_eq!(kept.get(), 2);
    });
}

/// Two threads: a future is dropped while the block completes. Its waker is dropped, and the
/// listener after it runs.
#[test]
fn a_dropped_future_against_a_completion_leaves_the_listener() {
    loom::model(|| {
        let (writer, mut reader) = ends();
        let (waker, woken) = waker();
        let calls = Calls::new();
        assert!(reader.poll(&waker).is_pending());
        reader.listen(calls.listener());
        drop(waker);
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        drop(reader);
        assert!(completer.join().unwrap());
        assert_eq!(calls.get(), 1);
        assert_eq!(Arc::strong_count(&woken), 1);
    });
}
