//! Peers that speak plain HTTP where TLS is expected, or TLS where plain HTTP is. Each is one report.

use crate::process::Program;
use crate::secure::Files;
use crate::*;

/// What a server of TLS answers to a request: an alert (RFC 8446, 6).
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// Starts the program with one route to this server.
fn start(name: &str, back: &Upstream, more: &str) -> Program {
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[drain]\nannounce = \"0s\"\n{}",
        route(&[back], "").replace("balance", &format!("{more}balance"))
    );
    Program::start(name, &text)
}

/// Sends a request, and returns what the client gets.
fn ask(program: &mut Program, serve: impl FnOnce()) -> Message {
    let mut client = program.send(GET);
    serve();
    client.message()
}

/// Asserts that the program has reported one problem since its start, and that it is of this kind.
fn assert_one_report(said: &str, parts: &[&str]) {
    let problems = said.lines().filter(|line| line.contains(" WARN "));
    // A busy machine may add reports of stalls.
    let problems: Vec<_> = problems
        .filter(|line| !line.contains("kind=stall"))
        .collect();
    assert_eq!(problems.len(), 1, "{said}");
    for part in parts {
        assert!(problems[0].contains(part), "{part}\n{said}");
    }
}

#[test]
fn a_plain_server_behind_an_upstream_with_tls_is_one_that_cannot_be_reached() {
    let (files, back) = (Files::new("plain-server"), Upstream::on_socket());
    files.write("back", "back.example");
    let roots = files.0.join("back.pem");
    let tls = format!("tls = {{ name = \"back.example\", roots = {roots:?} }}\n");
    let mut program = start("plain-server", &back, &tls);
    let mut server = None;
    let response = ask(&mut program, || {
        let peer = server.insert(back.accept());
        // A hello of TLS.
        let mut hello = [0; 3];
        peer.0.read_exact(&mut hello).unwrap();
        assert_eq!(hello[..2], [22, 3]);
        peer.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    assert_eq!(response.status(), "502");
    assert_eq!(response.field("tidegate-failed"), Some("connect shop"));
    assert_one_report(
        &program.end(),
        &["kind=connect", "upstream.back: ", "TLS handshake failed"],
    );
}

#[test]
fn a_server_of_tls_behind_a_plain_upstream_gives_a_bad_response() {
    let back = Upstream::on_socket();
    let mut program = start("tls-server", &back, "");
    let mut server = None;
    let response = ask(&mut program, || {
        let peer = server.insert(back.accept());
        assert!(peer.head().starts_with("GET /a "));
        peer.0.write_all(&ALERT).unwrap();
    });
    assert_eq!(response.status(), "502");
    assert_eq!(response.field("tidegate-failed"), Some("bad_response shop"));
    assert_one_report(&program.end(), &["kind=bad_response", "upstream.back: "]);
}

#[test]
fn plain_http_to_a_listener_with_tls_is_closed_and_others_are_served() {
    let files = Files::new("plain-client");
    files.write("own", "shop.example");
    let text = format!(
        "[listen.secure]\nat = \"127.0.0.1:0\"\n\
         tls = {{ certificates = [{{ cert = {:?}, key = {:?} }}] }}\n\
         [listen.http]\nat = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n\
         [drain]\nannounce = \"0s\"\n",
        files.0.join("own.pem"),
        files.0.join("own.key"),
    );
    let mut program = Program::start("plain-client", &text);
    let lines = [program.line(), program.line()];
    let address = |name: &str| {
        let mut all = lines
            .iter()
            .filter_map(|line| line.split_once(" listens on "));
        all.find(|(own, _)| *own == name).unwrap().1
    };
    let mut client = TcpStream::connect(address("secure")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(GET.as_bytes()).unwrap();
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    // An alert at most: nothing that a client of HTTP takes for a response.
    assert!(got.is_empty() || got[0] == 21, "{got:?}");
    let mut other = connect_to(address("http"));
    other.write(GET);
    assert_eq!(other.message().status(), "200");
    assert_one_report(
        &program.end(),
        &[
            "kind=http_server",
            "before HTTP began, for example in the TLS handshake",
        ],
    );
}
