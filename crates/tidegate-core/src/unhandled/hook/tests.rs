//! Which reports a hook receives and when, and that a hook never blocks a reporting thread for
//! long.

use std::sync::mpsc::{self, Receiver, Sender};

use super::*;
use crate::Blocking;
use crate::ManualClock;

const LONG: Duration = Duration::from_secs(60);

fn error(message: &str) -> Unhandled<'_> {
    Unhandled::ChannelError { message }
}

fn next(delivered: &Receiver<String>) -> String {
    delivered.recv_timeout(LONG).expect("the hook is called")
}

/// An output that sends its lines to the test.
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8(line.to_vec()).expect("a line is text");
        self.0.send(text).expect("the test receives");
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A hook that sends each report to the test and returns when the test lets it.
fn held() -> (OnUnhandled, Receiver<String>, Sender<()>) {
    let (tx, delivered) = mpsc::channel();
    let (go, let_go) = mpsc::channel::<()>();
    let let_go = Mutex::new(let_go);
    let hook = OnUnhandled::new(move |source, what| {
        tx.send(format!("{source}: {what}"))
            .expect("the test receives");
        // Fails, and so returns at once, when the test has dropped its sender.
        let _ = let_go.lock().expect("one at a time").recv();
    });
    (hook, delivered, go)
}

#[test]
fn a_flood_writes_ten_lines_and_then_how_many_it_left_out() {
    let clock = ManualClock::new();
    let (tx, lines) = mpsc::channel();
    let hook = OnUnhandled::lines(Lines(tx), &clock);
    for number in 0..25 {
        hook.report("io", &error(&number.to_string()));
    }
    for number in 0..10 {
        let line = format!("tidegate: io: an error on a channel: {number}\n");
        assert_eq!(next(&lines), line);
    }
    assert!(lines.try_recv().is_err(), "ten in a second");
    clock.await_sleepers(1);
    clock.advance(SPAN);
    assert_eq!(next(&lines), "tidegate: io: 15 more errors were left out\n");
    hook.report("io", &error("later"));
    assert_eq!(
        next(&lines),
        "tidegate: io: an error on a channel: later\n",
        "a new second"
    );
}

#[test]
fn reports_that_several_sources_omitted_name_no_source() {
    let clock = ManualClock::new();
    let (tx, lines) = mpsc::channel();
    let hook = OnUnhandled::lines(Lines(tx), &clock);
    for number in 0..12 {
        hook.report(&format!("io-{number}"), &error("again"));
    }
    let written: Vec<_> = (0..10).map(|_| next(&lines)).collect();
    assert!(written[9].starts_with("tidegate: io-9: "));
    clock.await_sleepers(1);
    clock.advance(SPAN);
    let counted = "tidegate: several: 2 more errors were left out\n";
    assert_eq!(next(&lines), counted);
}

#[test]
fn the_count_comes_before_what_came_after_it_even_if_errors_never_stop() {
    let clock = ManualClock::new();
    let hook = OnUnhandled::lines(std::io::sink(), &clock);
    // This test plays the hook's thread.
    hook.shared.queue().thread_running = true;
    IS_HOOK_THREAD.set(true);
    let next = || hook.shared.next().expect("there is more").error;
    for second in 0..3 {
        hook.report("io", &error("first"));
        if second > 0 {
            assert!(
                matches!(next(), Unhandled::LeftOut { count: 2 }),
                "of the second before"
            );
        }
        for _ in 0..11 {
            hook.report("io", &error("again"));
        }
        for _ in 0..10 {
            assert!(matches!(next(), Unhandled::ChannelError { .. }));
        }
        clock.jump(SPAN);
    }
    IS_HOOK_THREAD.set(false);
}

#[test]
fn a_line_is_one_line_of_bounded_length() {
    let text = line("io", &error("two\nlines\r\u{1b}[0m"));
    let text = String::from_utf8(text).unwrap();
    assert_eq!(
        text,
        "tidegate: io: an error on a channel: two\\nlines\\r\\u{1b}[0m\n"
    );
    let long = line("io", &error(&"é\n".repeat(10_000)));
    assert!(long.len() <= LONGEST);
    assert_eq!(long.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

#[test]
fn a_hook_that_blocks_delays_no_reporter_and_receives_the_count_of_dropped_reports() {
    let (hook, delivered, go) = held();
    hook.report("io", &error("first"));
    assert_eq!(next(&delivered), "io: an error on a channel: first");
    for number in 0..BOUND + 3 {
        hook.report("io", &error(&number.to_string()));
    }
    drop(go);
    for number in 0..BOUND {
        let expected = format!("io: an error on a channel: {number}");
        assert_eq!(next(&delivered), expected);
    }
    assert_eq!(next(&delivered), "io: 3 more errors were left out");
    hook.flush().expect("this thread may block");
    hook.report("io", &error("again"));
    assert_eq!(next(&delivered), "io: an error on a channel: again");
}

#[test]
fn a_hook_may_panic_even_in_the_drop_of_its_payload() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload, on purpose");
        }
    }
    let (tx, delivered) = mpsc::channel();
    let hook = OnUnhandled::new(move |_, what| {
        tx.send(what.to_string()).expect("the test receives");
        std::panic::panic_any(Bomb);
    });
    for message in ["one", "two"] {
        hook.report("io", &error(message));
        assert_eq!(
            next(&delivered),
            format!("an error on a channel: {message}")
        );
    }
}

#[test]
fn a_hook_may_report_to_itself_but_may_not_wait_there() {
    let (tx, delivered) = mpsc::channel();
    // Emptied at the end: the hook holds a handle to itself.
    let own = Arc::new(Mutex::new(None::<OnUnhandled>));
    let inner = Arc::clone(&own);
    let hook = OnUnhandled::new(move |source, what| {
        tx.send(format!("{source}: {what}"))
            .expect("the test receives");
        if source == "io" {
            let hook = inner.lock().expect("no panic").clone();
            let hook = hook.expect("set before the first report");
            hook.report("hook", &error("inner"));
            hook.flush().expect("nothing to wait for");
        }
    });
    *own.lock().expect("no panic") = Some(hook.clone());
    hook.report("io", &error("outer"));
    assert_eq!(next(&delivered), "io: an error on a channel: outer");
    assert_eq!(next(&delivered), "hook: an error on a channel: inner");
    own.lock().expect("no panic").take();
}

#[test]
fn flush_waits_until_all_is_delivered_and_is_refused_where_waiting_is_forbidden() {
    let (hook, delivered, go) = held();
    hook.report("io", &error("first"));
    hook.report("io", &error("second"));
    drop(go);
    hook.flush().expect("this thread may block");
    assert_eq!(delivered.try_iter().count(), 2);
    assert!(Blocking::forbid(|| hook.flush()).is_err());
}
