//! Models of deciding and dropping the ends: one outcome wins, nothing leaks, nothing is freed
//! twice.

use super::*;

/// Two threads: either the value is stored and the listener receives it, or the block is cancelled
/// and the writer gets the value back.
#[test]
fn a_completion_against_a_cancellation_has_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        reader.listen(calls.listener());
        let completer = thread::spawn(move || match writer.complete(Ok(value(1))) {
            Ok(()) => true,
            Err(back) => {
                assert!(back.is_ok(), "what was refused comes back");
                false
            }
        });
        let cancelled = reader.cancel();
        let completed = completer.join().unwrap();
        assert!(cancelled != completed);
        assert_eq!(reader.is_cancelled(), cancelled);
        assert_eq!(calls.get(), 1);
    });
}

/// Three threads: two shared readers cancel and are dropped while the writer completes.
#[test]
fn cancellations_against_each_other_have_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let reader = reader.share().expect("nothing was taken");
        let other = {
            let reader = reader.clone();
            thread::spawn(move || usize::from(reader.cancel()))
        };
        let completer = thread::spawn(move || usize::from(writer.complete(Ok(value(1))).is_ok()));
        let mine = usize::from(reader.cancel());
        drop(reader);
        let winners = mine + other.join().unwrap() + completer.join().unwrap();
        assert_eq!(winners, 1);
    });
}

/// Two threads: the last owner frees the block and the value in it.
#[test]
fn a_completion_against_a_dropped_reader_frees_once() {
    loom::model(|| {
        let (writer, reader) = ends();
        let completer = thread::spawn(move || writer.complete(Ok(value(1))).is_ok());
        drop(reader);
        assert!(completer.join().unwrap());
    });
}

/// Two threads: a writer that is dropped undecided notifies the listener of the abandonment.
#[test]
fn an_abandoning_writer_against_a_listener_notifies_it() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        let dropper = thread::spawn(move || drop(writer));
        let inner = calls.clone();
        reader.finish(move |outcome| {
            assert_eq!(outcome.failure(), Some(&ABANDONED));
            inner.hit();
        });
        dropper.join().unwrap();
        assert_eq!(calls.get(), 1);
    });
}

/// Three threads: one of two shared writers wins; the other gets its value back.
#[test]
fn two_shared_writers_have_one_winner() {
    loom::model(|| {
        let (writer, mut reader) = ends();
        let writer = writer.share();
        let calls = Calls::new();
        reader.listen(calls.listener());
        let others: Vec<_> = (1..3)
            .map(|n| {
                let writer = writer.clone();
                thread::spawn(move || usize::from(writer.try_complete(Ok(value(n))).is_ok()))
            })
            .collect();
        drop(writer);
        let winners: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!((winners, calls.get()), (1, 1));
        let taken = reader.try_take().and_then(Outcome::success);
        assert!(taken.is_some_and(|value| *value == 1 || *value == 2));
    });
}

/// Three threads: a shared writer completes, another is dropped, and the reader cancels and is
/// dropped.
#[test]
fn shared_writers_against_a_cancellation_have_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let writer = writer.share();
        let dropper = {
            let writer = writer.clone();
            thread::spawn(move || drop(writer))
        };
        let completer = thread::spawn(move || writer.try_complete(Ok(value(1))).is_ok());
        let cancelled = reader.cancel();
        drop(reader);
        dropper.join().unwrap();
        assert!(cancelled != completer.join().unwrap());
    });
}

/// Two threads: a hook that is set while the block is cancelled runs exactly once, on either
/// thread.
#[test]
fn a_hook_against_a_cancellation_runs_once() {
    loom::model(|| {
        let (writer, reader) = ends();
        let calls = Calls::new();
        let inner = calls.clone();
        let worker = thread::spawn(move || {
            // Loom checks this cell: the thread that runs the hook must see what the thread that
            // set it wrote.
            let written = Cell::new(0);
            written.set(7);
            writer.on_cancel(Task::new(move || {
                assert_eq!(written.get(), 7);
                inner.hit();
            }));
            writer.complete(Ok(value(1))).is_ok()
        });
        let cancelled = reader.cancel();
        drop(reader);
        let completed = worker.join().unwrap();
        assert!(cancelled != completed);
        assert_eq!(calls.get(), usize::from(cancelled));
    });
}

/// Three threads: a hook is set while the block is completed and cancelled. If the block was
/// cancelled, the hook runs; otherwise it is dropped. In both cases it is not kept.
#[test]
fn a_hook_against_a_decision_is_not_kept() {
    loom::model(|| {
        let (writer, reader) = ends();
        let writer = writer.share();
        let calls = Calls::new();
        let completer = {
            let writer = writer.clone();
            thread::spawn(move || writer.try_complete(Ok(value(1))).is_ok())
        };
        let canceller = thread::spawn(move || {
            let cancelled = reader.cancel();
            (cancelled, reader)
        });
        let inner = calls.clone();
        writer.on_cancel(Task::new(move || inner.hit()));
        let completed = completer.join().unwrap();
        let (cancelled, _reader) = canceller.join().unwrap();
        assert!(cancelled != completed);
        assert_eq!(calls.get(), usize::from(cancelled));
        assert_eq!(
            Arc::strong_count(&calls.0),
            1,
            "the hook is gone though the block lives"
        );
    });
}

/// Two threads: a block that was made uncancellable cannot be cancelled.
#[test]
fn a_mark_against_a_cancellation_has_one_winner() {
    loom::model(|| {
        let (writer, reader) = ends();
        let worker = thread::spawn(move || {
            let marked = writer.set_uncancellable();
            (marked, writer.complete(Ok(value(1))).is_ok())
        });
        let cancelled = reader.cancel();
        let (marked, completed) = worker.join().unwrap();
        assert_eq!((marked, completed), (!cancelled, !cancelled));
    });
}
