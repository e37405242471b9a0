//! `tidegate` without a command.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use tidegate_testkit::{begins, has};

use crate::*;

const TUTORIAL: &str = include_str!("../../../../docs/guide/gateway-tutorial.md");

/// Returns the columns of the summary of a route.
fn row<'a>(out: &'a str, route: &str) -> Vec<&'a str> {
    let (_, summary) = out.rsplit_once("summary of ").unwrap();
    let mut lines = summary.lines();
    let line = lines.find(|line| line.starts_with(route));
    line.unwrap_or_else(|| panic!("{out}"))
        .split_whitespace()
        .collect()
}

#[test]
fn a_run_of_some_seconds_ends_with_a_summary_and_status_0() {
    let ran = run(&["--duration", "8s"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(
        lines[0].starts_with("dashboard  http://127.0.0.1:"),
        "{}",
        ran.out
    );
    assert!(
        lines[1].starts_with("gateway    http://127.0.0.1:"),
        "{}",
        ran.out
    );
    assert!(
        lines[1].ends_with("routes: /fast /slow /flaky /blocking"),
        "{}",
        ran.out
    );
    assert!(
        lines[2].starts_with("load       ") && lines[2].ends_with(" req/s on each route; for 8s"),
        "{}",
        ran.out
    );
    // The table that the tutorial shows has the same columns.
    let shown = TUTORIAL.lines().find(|line| line.starts_with("route "));
    let shown: Vec<&str> = shown.unwrap().split_whitespace().collect();
    assert!(
        lines
            .iter()
            .any(|line| line.split_whitespace().eq(shown.iter().copied())),
        "{shown:?}: {}",
        ran.out
    );
    for route in ["/fast ", "/slow ", "/flaky ", "/blocking "] {
        let requests: u64 = row(&ran.out, route)[1].parse().unwrap();
        assert!(requests > 0, "{}", ran.out);
    }
    assert_plain(&ran.out);
    assert_eq!(ran.errors, "");
}

#[test]
fn ports_that_are_taken_are_replaced_by_others() {
    // A port that another program holds may become free at any moment, so only those count that this
    // test holds.
    let held = [9090, 8080].map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let mut child = tidegate(&["--duration", "1s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for (name, held) in ["dashboard", "gateway"].into_iter().zip(held) {
        let line = lines.next().unwrap().unwrap();
        let (_, rest) = line.split_once("http://").unwrap();
        begins(&line, name);
        if let Some(held) = held {
            let address = held.local_addr().unwrap().to_string();
            assert_ne!(rest.split('/').next(), Some(address.as_str()));
        }
    }
    assert!(lines.any(|line| line.unwrap().starts_with("summary of ")));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_terminal_shows_a_live_table_and_keys_change_an_upstream() {
    let mut terminal = Terminal::start(&[], 120);
    terminal.until("press q to stop");
    terminal.until("/blocking");
    terminal.keys("2f");
    terminal.until("slow failing");
    terminal.keys("1d");
    terminal.until("fast dead");
    terminal.keys("b");
    terminal.until("bulkheads off");
    terminal.keys("r");
    terminal.until("fast normal, slow normal, flaky normal, blocking normal; bulkheads on");
    terminal.resize(20);
    terminal.until("make it 60");
    terminal.resize(120);
    terminal.until("/blocking");
    terminal.keys("q");
    assert!(terminal.end().success(), "{}", terminal.seen);
    has(&terminal.seen, ["summary of "]);
}

#[test]
fn an_interrupt_restores_the_terminal_at_any_moment() {
    for text in ["dashboard", "gateway", "/fast"] {
        let mut terminal = Terminal::start(&[], 100);
        terminal.until(text);
        terminal.keys("\x03");
        assert!(terminal.end().success(), "{text}: {}", terminal.seen);
    }
    // At the very start there may be no handler yet: then the signal ends the process. A process in
    // the background of a script may have been started to ignore the other one, SIGINT.
    let mut terminal = Terminal::start(&[], 100);
    signal(&terminal.child, "TERM");
    terminal.end();
}

#[test]
fn a_reader_that_leaves_ends_the_demo() {
    let mut child = tidegate(&["--duration", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 9];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"dashboard");
    drop(out);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_wrong_duration_is_a_sentence() {
    let ran = run(&["--duration", "soon"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.errors.contains("has no unit") || ran.errors.contains("soon"),
        "{}",
        ran.errors
    );
}

#[test]
fn a_terminal_of_20_columns_gets_one_sentence() {
    let mut terminal = Terminal::start(&[], 20);
    terminal.until("make it 60");
    terminal.keys("q");
    assert!(terminal.end().success(), "{}", terminal.seen);
    has(&terminal.seen, ["summary of "]);
}
