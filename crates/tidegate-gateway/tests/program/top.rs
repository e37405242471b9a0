//! `tidegate top`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};

use tidegate_testkit::{begins, has, lacks};

use crate::*;

const SNAPSHOT: &str = r#"{"version":1,"ready":true,"schema":{"series":[{"name":"rate"}]},
    "routes":[{"key":"catalog","values":[400],"says":"fine"}],"upstreams":[],"loops":[]}"#;

fn admin() -> Upstream {
    Upstream::new(
        |request: Request<'_>, response: Response<'_>| match request.path() {
            "/api/snapshot" => response.body(SNAPSHOT),
            _ => response.status(404).body(""),
        },
    )
}

fn address(admin: &Upstream) -> String {
    admin.server.local_addr().to_string()
}

#[test]
fn once_prints_one_table_for_scripts() {
    let admin = admin();
    let ran = run(&["top", &address(&admin), "--once"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    begins(&ran.out, "ready; routes: 1, upstreams: 0\n");
    has(&ran.out, ["\ncatalog  400 "]);
    assert_plain(&ran.out);
    // Without a terminal it prints once, too. The address may be a URL.
    let again = run(&["top", &admin.url()]);
    assert_eq!((again.status, again.out), (Some(0), ran.out));
}

#[test]
fn a_listener_on_a_unix_socket_is_reached() {
    let path = std::env::temp_dir().join(format!("tidegate-top-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let served = std::thread::scope(|scope| {
        let serves = scope.spawn(|| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
            }
            let length = SNAPSHOT.len();
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{SNAPSHOT}");
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            head
        });
        let ran = run(&["top", &format!("unix:{}", path.display()), "--once"]);
        // If the program has not connected, the thread ends now.
        drop(UnixStream::connect(&path));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        has(&ran.out, ["\ncatalog  400 "]);
        serves.join().unwrap()
    });
    begins(&served, "GET /api/snapshot HTTP/1.1\r\n");
    std::fs::remove_file(&path).unwrap();
    let none = format!("unix:{}", path.display());
    let ran = run(&["top", &none, "--once"]);
    let says = format!("{none}: the gateway does not answer (");
    begins(&ran.errors, &says);
}

#[test]
fn a_gateway_that_does_not_answer_is_one_sentence() {
    let ran = run(&["top", NOBODY]);
    assert_eq!(
        (ran.status, ran.errors.lines().count()),
        (Some(1), 1),
        "{ran:?}"
    );
    begins(
        &ran.errors,
        format!("{NOBODY}: the gateway does not answer ("),
    );
    assert_eq!(ran.out, "");
}

#[test]
fn a_token_is_sent_and_a_missing_one_is_one_sentence() {
    let guarded = Upstream::new(|request: Request<'_>, response: Response<'_>| {
        match request.field("Authorization") == Some(b"Bearer secret") {
            true => response.body(SNAPSHOT),
            false => response.status(401).body(""),
        }
    });
    let ran = run(&["top", &address(&guarded), "--once"]);
    assert_eq!(
        (ran.status, ran.errors.lines().count()),
        (Some(1), 1),
        "{ran:?}"
    );
    has(&ran.errors, ["set the variable TIDEGATE_TOKEN"]);
    let mut with = tidegate(&["top", &address(&guarded), "--once"]);
    assert!(
        with.env("TIDEGATE_TOKEN", "secret")
            .output()
            .unwrap()
            .status
            .success()
    );
    let wrong = Upstream::new(|_: Request<'_>, response: Response<'_>| response.body("{}"));
    let ran = run(&["top", &address(&wrong)]);
    assert_eq!(
        (ran.status, ran.errors.lines().count()),
        (Some(1), 1),
        "{ran:?}"
    );
    has(&ran.errors, ["not a snapshot of this version"]);
}

#[test]
fn a_terminal_is_redrawn_resized_and_restored() {
    let admin = admin();
    let mut terminal = Terminal::start(&["top", &address(&admin)], 100);
    terminal.until("catalog");
    terminal.resize(20);
    terminal.until("make it 60");
    terminal.resize(100);
    terminal.until("catalog");
    terminal.keys("q");
    assert!(terminal.end().success(), "{}", terminal.seen);
}

#[test]
fn a_typed_interrupt_restores_the_terminal() {
    let admin = admin();
    let mut terminal = Terminal::start(&["top", &address(&admin)], 100);
    terminal.until("catalog");
    terminal.keys("\x03");
    assert!(terminal.end().success(), "{}", terminal.seen);
}

#[test]
fn an_interrupt_does_not_wait_for_a_gateway_that_does_not_answer() {
    // It accepts nothing: a connection waits for its response.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let mut terminal = Terminal::start(&["top", &at], 100);
    // It has asked, so it is ready for a signal.
    let (mut asked, _) = silent.accept().unwrap();
    asked.read_exact(&mut [0; 1]).unwrap();
    terminal.keys("\x03");
    assert!(terminal.end().success(), "{}", terminal.seen);
    lacks(&terminal.seen, ["does not answer"]);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let admin = admin();
    let mut child = tidegate(&["top", &address(&admin), "--once"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
