//! Models of a reader that sleeps on the block itself: the thread that settles the block wakes it.
//! A lost wake-up is a deadlock, which loom reports.

use super::*;

fn sleep_and_take(mut reader: Reader<Value, u32>) -> Option<Outcome<Value, u32>> {
    assert!(reader.sleep(), "models can sleep on a word");
    reader.try_take()
}

/// Two threads: there is no listener, so the decision itself settles the block.
#[test]
fn a_sleeper_is_woken_by_a_decision() {
    loom::model(|| {
        let (writer, reader) = ends();
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        let taken = sleep_and_take(reader);
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        assert!(completer.join().unwrap());
    });
}

/// Two threads: there is a listener, so the end of the notification settles the block.
#[test]
fn a_sleeper_is_woken_after_the_listeners() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        reader.listen(calls.listener());
        let completer = thread::spawn(move || writer.complete(Ok(value(7))).is_ok());
        let taken = sleep_and_take(reader);
        assert_eq!(calls.get(), 1, "the listener comes first");
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        assert!(completer.join().unwrap());
    });
}

/// Two threads: the listener runs on its home, some time after the decision.
#[test]
fn a_sleeper_is_woken_from_the_listeners_home() {
    loom::model(|| {
        let home = Home::new();
        let (writer, reader) = block::<Value, u32>(Some(home.clone()), || ABANDONED);
        reader.listen(|_| ());
        let completer = thread::spawn(move || {
            assert!(writer.complete(Ok(value(7))).is_ok());
            home.drain();
        });
        let taken = sleep_and_take(reader);
        assert_eq!(taken.and_then(Outcome::success).as_deref(), Some(&7));
        completer.join().unwrap();
    });
}

/// Three threads: one shared writer completes while the other cancels. The winner wakes the
/// sleeper.
#[test]
fn a_sleeper_is_woken_by_the_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let writer = writer.share();
        let other = writer.clone();
        let completer = thread::spawn(move || writer.try_complete(Ok(value(7))).is_ok());
        let canceller = thread::spawn(move || other.cancel());
        let taken = sleep_and_take(reader).expect("it is settled");
        let (completed, cancelled) = (completer.join().unwrap(), canceller.join().unwrap());
        assert_ne!(completed, cancelled, "one of them decided");
        assert_eq!(taken.is_cancelled(), cancelled);
    });
}

/// Two threads: a write end that is dropped undecided wakes the sleeper, too.
#[test]
fn a_sleeper_is_woken_when_the_writer_leaves() {
    loom::model(|| {
        let (writer, reader) = ends();
        let leaver = thread::spawn(move || drop(writer));
        let taken = sleep_and_take(reader);
        assert_eq!(taken.and_then(Outcome::failure), Some(ABANDONED));
        leaver.join().unwrap();
    });
}
