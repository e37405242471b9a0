//! The examples that end by themselves within a moment run, and print what they promise.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the built example, which stands in a folder beside that of the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("it is in target/…/deps");
    folder.join("examples").join(name)
}

/// Runs an example without arguments, and checks that it succeeds and prints `line`.
fn runs(name: &str, line: &str) {
    let output = Command::new(program(name))
        .output()
        .expect("cargo has built it");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {errors}");
    assert!(printed.contains(line), "{name} printed: {printed}");
}

macro_rules! examples {
    ($($name:ident prints $line:literal;)*) => {
        $(
            #[test]
            fn $name() {
                runs(stringify!($name), $line);
            }
        )*
    };
}

examples! {
    async_main prints "HELLO, MAIN";
    async_echo prints "hello, future";
    async_on_a_loop prints "sum of squares: Some(14)";
    chat prints "hello, Anna";
    collapser prints "user 8";
    echo prints "hello";
    graceful_shutdown prints "task 2, taken from the report and run";
    group prints "task 5 ran on io-2";
    http_events prints "data: {\"type\":\"HystrixThreadPool\"";
    http_fetch prints "connect: true, safe to retry: true";
    http_command prints "at least one page: true, at most all: true";
    http_files prints "GET /static/numbers.txt: 206 Partial Content, 234";
    http_json prints "GET /notes/0: 200, {\"text\":\"buy milk\"}";
    http_blocking prints "GET /wait: waited for /go";
    http_upload prints "the server got 1000000 bytes, checksum";
    http_proxy prints "through the proxy: b\"behind\"";
    http_relay prints "relayed: 4194304 bytes";
    http_hello prints "GET /hello/Anna: 200 OK, hello, Anna";
    json_lines prints "{\"sum\":6.5}";
    lines prints "22 -> 42";
    live_resize prints "grown by code: 4 to 16 threads";
    metrics prints "event=\"SUCCESS\"} 1";
    process_pipe prints "the child said: line 3";
    promise prints "and here it is: 123456";
    resp prints "+PONG";
    rpc prints "THREE";
    schedule prints "runs in a day: 1441";
    tcp_proxy prints "through the proxy and back";
    timer_descriptor prints "at least ten ticks: true";
    tls_echo prints "hello";
    tour prints "a second call while the only permit is taken";
    udp prints "says 17";
}

#[test]
#[cfg(unix)]
fn an_http_server_that_is_asked_to_end_closes_idle_connections() {
    let mut server = Command::new(program("http_hello"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo has built it");
    let mut printed = BufReader::new(server.stdout.take().expect("it is piped"));
    let mut line = String::new();
    printed.read_line(&mut line).expect("it prints its address");
    let address = line.trim().strip_prefix("http://").expect("an address");
    let address = address.trim_end_matches('/');
    let mut client = BufReader::new(TcpStream::connect(address).expect("it listens"));
    let request = b"GET /hello/Anna HTTP/1.1\r\nHost: a\r\n\r\n";
    client.get_mut().write_all(request).expect("it reads");
    while !line.contains("hello, Anna") {
        client.read_line(&mut line).expect("a response");
    }
    let kill = format!("kill -TERM {}", server.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("there is a shell").success());
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("an orderly end");
    assert_eq!(rest, "");
    let status = server.wait().expect("it runs");
    assert!(status.success(), "{status}");
    let mut report = String::new();
    printed.read_to_string(&mut report).expect("a report");
    assert!(report.contains("0 were closed at the deadline"), "{report}");
}

#[test]
#[cfg(unix)]
fn a_server_that_is_asked_to_end_lets_its_connections_finish() {
    let mut room = Command::new(program("chat"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo has built it");
    let mut printed = BufReader::new(room.stdout.take().expect("it is piped"));
    let mut line = String::new();
    printed.read_line(&mut line).expect("it prints its address");
    let address = line.trim().strip_prefix("chat on ").expect("an address");
    let mut guest = BufReader::new(TcpStream::connect(address).expect("it listens"));
    guest.read_line(&mut String::new()).expect("a welcome");
    let kill = format!("kill -TERM {}", room.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("there is a shell").success());
    let mut heard = String::new();
    guest.read_to_string(&mut heard).expect("an orderly end");
    assert_eq!(heard, "the room closes\n");
    let status = room.wait().expect("it runs");
    assert!(status.success(), "{status}");
    let mut report = String::new();
    printed.read_to_string(&mut report).expect("a report");
    let expected = "1 connection was open, 0 were closed at the deadline\n";
    assert_eq!(report, expected);
}
