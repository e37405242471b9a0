//! `tidegate bench`.

use std::net::TcpListener;

use tidegate_testkit::{Counter, Folder, begins, has};

use crate::*;

fn hello(_: Request<'_>, response: Response<'_>) {
    response.body("hello\n");
}

#[test]
fn a_closed_loop_prints_a_summary_without_control_characters() {
    let served = Counter::new();
    let own = served.clone();
    let upstream = Upstream::new(move |_: Request<'_>, response: Response<'_>| {
        own.hit();
        response.body("hello\n");
    });
    let arguments = ["bench", &upstream.url(), "-d", "600s", "-c", "4"];
    // A connection that sends a second request has got its first response.
    let ran = run_until(&arguments, || served.wait_for(5));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    has(
        &ran.out,
        [
            "closed loop, connections: 4, threads: 1, ",
            "\n200 ",
            "\ncorrected ",
        ],
    );
    assert_plain(&ran.out);
    assert_eq!(ran.errors, "");
}

#[test]
fn a_rate_sends_each_planned_request_and_writes_its_files() {
    let upstream = Upstream::new(hello);
    let folder = Folder::new("bench");
    let [plot, json] = ["plot.svg", "run.json"].map(|name| folder.join(name));
    let ran = run(&[
        "bench",
        &upstream.url(),
        "--rate",
        "500",
        "-d",
        "400ms",
        "-c",
        "8",
        "--threads",
        "2",
        "--plot",
        plot.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&json).unwrap();
    has(&text, ["\"requests\":200,", "\"outcomes\":{\"200\":200}"]);
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg "));
}

#[test]
fn outcomes_are_counted_by_the_reason_of_a_gateway() {
    let upstream = Upstream::new(|request: Request<'_>, response: Response<'_>| {
        assert_eq!(request.field("X-Of").unwrap_or_default(), b"test");
        let response = response.status(503).field("Tidegate-Refused", "limit");
        response.field("Connection", "close").body("");
    });
    let url = upstream.url();
    let field = ["-H", "x-of: test", "-m", "HEAD", "--json", "-"];
    let common = ["bench", &url, "-r", "100", "-d", "200ms", "-c", "3"];
    let ran = run(&[&common[..], &field].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    has(&ran.out, ["\"outcomes\":{\"503 limit\":20}", "\"good\":0,"]);
}

#[test]
fn a_ramp_ends_when_most_requests_fail() {
    let upstream = Upstream::new(|_: Request<'_>, response: Response<'_>| {
        response.status(500).body("");
    });
    let url = upstream.url();
    let ran = run(&[
        "bench", &url, "--ramp", "100", "--stage", "100ms", "-d", "60s",
    ]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    has(&ran.out, ["ramp from 100 requests/s", "\n500 "]);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let server = Upstream::new(|_: Request<'_>, response: Response<'_>| response.body("ok"));
    for option in ["--json", "--plot"] {
        let ran = run(&["bench", &server.url(), "-d", "20ms", option, "/none/file"]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        let says = "/none/file: cannot be written: ";
        begins(&ran.errors, says);
        assert!(!ran.out.is_empty() && !ran.out.contains(says), "{ran:?}");
    }
}

#[test]
fn a_server_that_is_not_there_and_a_wrong_option_are_one_sentence() {
    let ran = run(&["bench", &format!("http://{NOBODY}/")]);
    assert_eq!(ran.status, Some(1));
    let says = format!("cannot reach {NOBODY}: ");
    assert!(
        ran.errors.starts_with(&says) && ran.errors.lines().count() == 1,
        "{ran:?}"
    );
    assert_eq!(ran.out, "");
    let ran = run(&["bench", "https://127.0.0.1/"]);
    assert_eq!(
        (ran.status, ran.errors.lines().count()),
        (Some(2), 1),
        "{ran:?}"
    );
    let ran = run(&["bench", "http://127.0.0.1/", "--rate", "fast"]);
    assert_eq!(ran.status, Some(2));
    has(&ran.errors, ["it is not a number"]);
}

#[test]
fn a_server_that_ends_each_connection_or_responds_with_nonsense_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let served = Counter::new();
    let own = served.clone();
    // Ends with the process.
    std::thread::Builder::new()
        .spawn(move || {
            use std::io::Write as _;
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                if number % 2 == 0 {
                    let _ = stream.write_all(b"nonsense\r\n\r\n");
                }
                drop(stream);
                own.hit();
            }
        })
        .unwrap();
    let arguments = ["bench", &url, "-d", "600s", "-c", "2", "--json", "-"];
    // One connection only asks whether the server is there, and two may not have ended.
    let ran = run_until(&arguments, || served.wait_for(7));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    has(&ran.out, ["connection closed", "not a response"]);
}

#[test]
fn a_signal_ends_it_early_with_a_summary() {
    let upstream = Upstream::new(hello);
    let mut terminal = Terminal::start(&["bench", &upstream.url(), "-d", "60s"], 80);
    terminal.until("good ");
    terminal.resize(20);
    // Lines of before may still be on their way; there are two in a second, for a minute.
    let is_cut = (0..100).any(|_| {
        terminal.until("\r\x1b[K");
        let line = terminal.seen.rsplit("\r\x1b[K").nth(1).unwrap();
        line.contains("ended") && line.len() < 20
    });
    assert!(is_cut, "{:?}", terminal.seen);
    terminal.keys("\x03");
    let status = terminal.end();
    assert!(status.success(), "{}", terminal.seen);
    has(&terminal.seen, ["closed loop"]);
    // The progress line was removed.
    has(&terminal.seen, ["\r\x1b[K"]);
}

#[test]
fn a_second_interrupt_ends_it_although_a_server_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let arguments = ["bench", &url, "-d", "600s", "--timeout", "500s"];
    let mut terminal = Terminal::start(&arguments, 80);
    terminal.until("ended 0/s");
    terminal.keys("\x03");
    // Two signals at once would be one.
    terminal.until("ending: waits for");
    terminal.keys("\x03");
    assert!(terminal.end().success(), "{}", terminal.seen);
    has(&terminal.seen, ["closed loop"]);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let upstream = Upstream::new(hello);
    for option in [&[][..], &["--json", "-"]] {
        let url = upstream.url();
        let arguments = [&["bench", &url, "-d", "300ms"], option].concat();
        let mut command = tidegate(&arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
