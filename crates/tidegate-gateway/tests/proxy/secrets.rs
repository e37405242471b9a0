//! No output of the running program contains a secret.

use std::process::Command;

use rcgen::{CertificateParams, KeyPair};

use tidegate_testkit::{Folder, begins, has, lacks};

use crate::operation::{World, operated};
use crate::process::Program;
use crate::steps::output;
use crate::*;

/// Each secret contains this text.
const MARKER: &str = "marker";

/// What the test plants, and where the program reads it.
struct Planted {
    folder: Folder,
    /// A line of each private key: that of a listener, and that towards an upstream.
    keys: [String; 2],
}

impl Planted {
    fn new(test: &str) -> Self {
        let folder = Folder::new(&format!("secrets-{test}"));
        let keys = ["own", "towards"].map(|name| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["shop.example".to_owned()]).unwrap();
            let own = params.self_signed(&key).unwrap();
            std::fs::write(folder.join(format!("{name}.pem")), own.pem()).unwrap();
            let key = key.serialize_pem();
            std::fs::write(folder.join(format!("{name}.key")), &key).unwrap();
            key.lines().nth(1).unwrap().to_owned()
        });
        std::fs::write(folder.join("read"), "marker-read\n").unwrap();
        Self { folder, keys }
    }

    fn text(&self, back: &Upstream, more: &str) -> String {
        let at = |name: &str| self.folder.join(name);
        format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\n\
             [listen.secure]\nat = \"127.0.0.1:0\"\n\
             tls = {{ certificates = [{{ cert = {:?}, key = {:?} }}] }}\n\
             [listen.admin]\nat = \"127.0.0.1:0\"\ntoken = \"${{PLANTED_TOKEN}}\"\n\
             read_token = \"file:{}\"\n\
             [upstream.back]\nservers = \"{}\"\n\
             [upstream.hidden]\nservers = \"${{PLANTED_HOST}}\"\n\
             tls = {{ name = \"shop.example\", roots = {:?}, cert = {:?}, key = {:?} }}\n\
             [route.hidden]\npath = \"/hidden\"\nupstream = \"hidden\"\n\
             [upstream.plain]\nservers = \"${{PLANTED_HOST}}\"\n\
             [route.plain]\npath = \"/plain\"\nupstream = \"plain\"\n\
             [route.shop]\nupstream = \"back\"\nheader = {{ x-route = \"${{PLANTED_FIELD}}\" }}\n\
             breaker = true\n\
             rewrite = {{ request = {{ authorization = \"Bearer ${{PLANTED_FIELD}}\", x-own = \"${{PLANTED_FIELD}}\" }} }}\n\
             [log]\nfile = {:?}\n[drain]\nannounce = \"0s\"\n[reload]\nwatch = false\n{more}",
            at("own.pem"),
            at("own.key"),
            at("read").display(),
            back.address(),
            at("towards.pem"),
            at("towards.pem"),
            at("towards.key"),
            at("access.log"),
        )
    }

    /// Sets the variables that the configuration names.
    fn plant(&self, command: &mut Command) {
        command.env("PLANTED_TOKEN", "marker-token");
        command.env("PLANTED_HOST", "unix:/none/host");
        command.env("PLANTED_FIELD", "marker-field");
    }

    /// Runs the program to its end, with a token for reading, and returns what it prints.
    fn run(&self, arguments: &[&str], token: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        self.plant(&mut command);
        let output = output(command.args(arguments).env("TIDEGATE_TOKEN", token));
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Asserts that an output has no secret.
    fn is_clean(&self, what: &str, output: &str) {
        assert!(!output.contains(MARKER), "{what}\n{output}");
        for key in &self.keys {
            assert!(!output.contains(key), "{what}\n{output}");
        }
    }
}

/// Sends a request with secrets in all places, and returns the connection.
fn request(address: &str, path: &str) -> Peer {
    let mut client = connect_to(address);
    client.write(&format!(
        "GET {path}?q=marker-query HTTP/1.1\r\nHost: shop.example\r\nX-Route: marker-field\r\n\
         Authorization: Bearer marker-auth\r\nCookie: a=marker-cookie\r\n\r\n",
    ));
    client
}

/// Sends a request to the listener for operators.
fn operator(address: &str, line: &str, token: &str) -> Peer {
    let mut peer = connect_to(address);
    peer.write(&format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
    ));
    peer
}

#[test]
fn no_output_of_the_program_contains_a_secret() {
    let (planted, back) = (Planted::new("run"), Upstream::on_socket());
    let text = planted.text(&back, "");
    let mut program = Program::start_with("secrets", &text, |one| planted.plant(one));
    let http = program.address();
    let mut admin = program.line();
    while !admin.starts_with("admin listens on ") {
        planted.is_clean("standard error", &admin);
        admin = program.line();
    }
    let admin = admin.strip_prefix("admin listens on ").unwrap().to_owned();
    let ask = |line: &str, token: &str| {
        let response = operator(&admin, line, token).message();
        planted.is_clean(line, &format!("{response:?}"));
        response.status().to_owned()
    };
    // One request in flight.
    let mut client = request(&http, "/a");
    let mut server = back.accept();
    let head = server.message().head;
    assert!(
        head.contains("marker-field") && head.contains("marker-cookie"),
        "{head}"
    );
    for path in ["/hidden", "/plain"] {
        let failed = request(&http, path).message();
        assert_eq!(failed.status(), "502");
        planted.is_clean("the response to a client", &format!("{failed:?}"));
    }
    for path in ["snapshot", "settings", "events", "dump"] {
        assert_eq!(ask(&format!("GET /api/{path}"), "marker-read"), "200");
    }
    assert_eq!(ask("GET /metrics", "marker-token"), "200");
    let page = [
        "",
        "page/route?key=shop",
        "page/route?key=marker-query",
        "page/save",
    ];
    for (path, status) in page.into_iter().zip(["200", "200", "404", "200"]) {
        assert_eq!(
            ask(&format!("GET /{path}"), "marker-read"),
            status,
            "{path}"
        );
    }
    let streams = ["page/events", "hystrix.stream"];
    for stream in streams {
        let mut peer = operator(&admin, &format!("GET /{stream}"), "marker-read");
        let head = peer.head();
        begins(&head, "HTTP/1.1 200 ");
        planted.is_clean(stream, &(head + &event(&mut peer)));
    }
    // What is refused, and what fails.
    assert_eq!(
        ask("GET /api/snapshot?token=marker-query", "marker-wrong"),
        "401"
    );
    assert_eq!(ask("POST /api/breakers/shop/open", "marker-read"), "403");
    assert_eq!(ask("POST /api/breakers/shop/open", "marker-token"), "200");
    assert_eq!(
        ask("PUT /api/settings/route.shop.colour", "marker-token"),
        "422"
    );
    let broken = planted.text(
        &back,
        "[route.b]\npath = \"/b\"\nrespond = 200\ntimeout = \"${PLANTED_FIELD}\"\n",
    );
    std::fs::write(&program.file, broken).unwrap();
    assert_eq!(ask("POST /api/reload", "marker-token"), "422");
    std::fs::write(&program.file, &text).unwrap();
    std::fs::write(planted.folder.join("own.key"), "marker-key").unwrap();
    assert_eq!(ask("POST /api/reload", "marker-token"), "422");
    program.signal("HUP");
    let mut said = String::new();
    while !said.contains("not reloaded") {
        said = format!("{said}{}\n", program.any_line());
    }
    let top = planted.run(&["top", &admin, "--once"], "marker-read");
    assert!(top.contains("shop") && top.contains("in flight"), "{top}");
    planted.is_clean("top", &top);
    let top = planted.run(&["top", &admin, "--once"], "marker-wrong");
    has(&top, ["TIDEGATE_TOKEN"]);
    planted.is_clean("top with a wrong token", &top);
    server.answer(&mut client);
    said += &program.end();
    planted.is_clean("standard error", &said);
    has(&said, [" WARN upstream."]);
    let log = std::fs::read_to_string(planted.folder.join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
    has(&log, ["\"server\":\"unix:/none/host\""]);
    planted.is_clean("the access log", &log);
    let file = program.file.to_str().unwrap();
    let asked = [
        "GET",
        "http://shop.example/a",
        "-H",
        "X-ROUTE: marker-field",
    ];
    let explain = |asked: &[&'static str]| [&["explain", file][..], asked].concat();
    for (arguments, part) in [
        (vec!["check", file], "1 error, 0 warnings"),
        (explain(&asked), "upstream back"),
        (
            explain(&["GET", "http://shop.example/hidden"]),
            "upstream hidden",
        ),
        (
            explain(&["GET", "http://shop.example/plain"]),
            "upstream plain",
        ),
    ] {
        let text = planted.run(&arguments, "");
        has(&text, [part]);
        planted.is_clean(part, &text);
    }
}

/// Reads a stream to the end of its first event with data.
fn event(peer: &mut Peer) -> String {
    let mut event = String::new();
    while !(event.contains("data: ") && event.ends_with("\n\n")) {
        event += &peer.bytes(1);
    }
    event
}

#[test]
fn no_error_of_a_start_contains_a_secret() {
    let (planted, back) = (Planted::new("start"), Upstream::on_socket());
    let whole = planted.text(&back, "");
    let taken = back.address();
    let planted_http = whole.replacen("127.0.0.1:0", &taken, 1);
    let rows = [
        // Not a number, not an address, an unknown setting, an address in use.
        (
            format!(
                "{whole}[route.b]\npath = \"/b\"\nrespond = 200\ntimeout = \"${{PLANTED_FIELD}}\"\n"
            ),
            "timeout",
        ),
        (
            format!("{whole}[upstream.b]\nservers = \"${{PLANTED_FIELD}}\"\n"),
            "upstream.b",
        ),
        (
            format!(
                "{whole}[route.b]\npath = \"/b\"\nrespond = 200\nresponds = \"${{PLANTED_FIELD}}\"\n"
            ),
            "responds",
        ),
        (planted_http, "cannot listen"),
    ];
    let failed = |text: &str, part: &str| {
        let mut program = Program::start_with("secrets-start", text, |one| planted.plant(one));
        let said = program.rest();
        assert_eq!(program.status(), Some(1), "{said}");
        has(&said, [part]);
        planted.is_clean(part, &said);
    };
    for (text, part) in rows {
        failed(&text, part);
    }
    // A key that is none, a key that is another one, a token that is empty or is not a text.
    let at = |name: &str| planted.folder.join(name);
    for (file, contents, part) in [
        ("towards.key", &b"marker-key"[..], "upstream.hidden.tls.key"),
        ("own.key", b"marker-key", "listen.secure.tls"),
        (
            "read",
            b"marker-read\nmarker-more\xff",
            "listen.admin.read_token",
        ),
    ] {
        let before = std::fs::read(at(file)).unwrap();
        std::fs::write(at(file), contents).unwrap();
        failed(&whole, part);
        std::fs::write(at(file), before).unwrap();
    }
    let (own, other) = (at("own.key"), at("towards.key"));
    std::fs::copy(&own, &other).unwrap();
    failed(&whole, "upstream.hidden.tls");
}

/// Of each file the message has the path as it is in the configuration.
#[test]
fn a_reload_that_fails_shows_no_path_with_the_value_of_a_variable() {
    let folder = Folder::new("paths");
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["shop.example".to_owned()]).unwrap();
    let (own, own_key) = (folder.join("own.pem"), folder.join("own.key"));
    std::fs::write(&own, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&own_key, key.serialize_pem()).unwrap();
    let secret = "\"/none/${SECRET}\"";
    let listens = |cert: &str, key: &str, more: &str| {
        format!(
            "[listen.secure]\nat = \"127.0.0.1:0\"\n\
             tls = {{ certificates = [{{ cert = {cert}, key = {key} }}]{more} }}\n\
             [route.a]\nrespond = 200\n"
        )
    };
    let calls = |tls: &str| {
        format!(
            "[upstream.a]\nservers = \"127.0.0.1:1\"\ntls = {{ {tls} }}\n[route.a]\nupstream = \"a\"\n"
        )
    };
    let (own, own_key) = (format!("{own:?}"), format!("{own_key:?}"));
    let client = format!(", client = \"required\", client_roots = {secret}");
    let rows = [
        listens(secret, &own_key, ""),
        listens(&own, secret, ""),
        listens(&own, &own_key, &client),
        calls(&format!("roots = {secret}")),
        calls(&format!("roots = {own}, cert = {secret}, key = {own_key}")),
        calls(&format!("roots = {own}, cert = {own}, key = {secret}")),
        format!("[route.a]\nfiles = {{ root = {secret} }}\n"),
    ];
    let world = World::new("[route.r]\nrespond = 200\n");
    for row in rows {
        world.write(&operated(&row));
        let response = world.change("POST /api/reload", "");
        assert_eq!(response.status(), "422", "{row}");
        has(&response.body, ["/none/${SECRET}"]);
        assert!(!response.body.contains(MARKER), "{row}{response:?}");
    }
    let read = "[route.r]\nrespond = 200\n";
    let read = operated(read).replace("${TOKEN}", "file:/none/${SECRET}");
    world.write(&read);
    let response = world.change("POST /api/reload", "");
    assert_eq!(response.status(), "422");
    lacks(&response.body, [MARKER]);
}

#[test]
fn a_health_check_that_fails_shows_no_value_of_a_variable() {
    let world = World::new(
        "[upstream.a]\nservers = \"unix:/none/a\"\n\
         health = { path = \"/${SECRET}?${SECRET}\", down = 1 }\n\
         [route.a]\nupstream = \"a\"\n",
    );
    let change = tidegate_testkit::until_some("the server is down", || {
        world.clock.advance(Duration::from_millis(200));
        let changes = world.parts.reports.events.latest().into_iter();
        let mut down = changes.filter(|change| change.what.contains("is down"));
        down.next().map(|change| change.what)
    });
    let part = "GET http://localhost/${SECRET} failed";
    has(&change, [part]);
    lacks(&change, [MARKER]);
}
