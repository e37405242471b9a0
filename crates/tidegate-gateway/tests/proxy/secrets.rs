//! No output of the running program contains a secret.

use std::process::Command;

use rcgen::{CertificateParams, KeyPair};

use crate::process::Program;
use crate::*;

/// Each secret contains this text.
const MARKER: &str = "marker";

/// What the test plants, and where the program reads it.
struct Planted {
    folder: std::path::PathBuf,
    /// A line of the private key.
    key: String,
}

impl Planted {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["shop.example".to_owned()]).unwrap();
        let own = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("own.pem"), own.pem()).unwrap();
        std::fs::write(folder.join("own.key"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("read"), "marker-read\n").unwrap();
        let key = key.serialize_pem().lines().nth(1).unwrap().to_owned();
        Self { folder, key }
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
             [route.hidden]\npath = \"/hidden\"\nupstream = \"hidden\"\n\
             [route.shop]\nupstream = \"back\"\nheader = {{ x-route = \"${{PLANTED_FIELD}}\" }}\n\
             breaker = true\n\
             rewrite = {{ request = {{ authorization = \"Bearer ${{PLANTED_FIELD}}\", x-own = \"${{PLANTED_FIELD}}\" }} }}\n\
             [log]\nfile = {:?}\n[drain]\nannounce = \"0s\"\n[reload]\nwatch = false\n{more}",
            at("own.pem"),
            at("own.key"),
            at("read").display(),
            back.address(),
            at("access.log"),
        )
    }

    /// Asserts that an output has no secret.
    fn is_clean(&self, what: &str, output: &str) {
        assert!(!output.contains(MARKER), "{what}\n{output}");
        assert!(!output.contains(&self.key), "{what}\n{output}");
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Sets the variables that the configuration names.
fn plant(command: &mut Command) {
    command.env("PLANTED_TOKEN", "marker-token");
    command.env("PLANTED_HOST", "unix:/none/marker-host");
    command.env("PLANTED_FIELD", "marker-field");
}

/// Sends a request with secrets in all places, and returns the connection.
fn request(address: &str, path: &str) -> Peer {
    let mut client = Peer::new(TcpStream::connect(address).unwrap());
    client.write(&format!(
        "GET {path}?q=marker-query HTTP/1.1\r\nHost: shop.example\r\nX-Route: marker-field\r\n\
         Authorization: Bearer marker-auth\r\nCookie: a=marker-cookie\r\n\r\n",
    ));
    client
}

/// Sends a request to the listener for operators.
fn operator(address: &str, line: &str, token: &str) -> Peer {
    let mut peer = Peer::new(TcpStream::connect(address).unwrap());
    peer.write(&format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
    ));
    peer
}

#[test]
fn no_output_of_the_program_contains_a_secret() {
    let (planted, back) = (Planted::new(), Upstream::new());
    let text = planted.text(&back, "");
    let mut program = Program::start_with("secrets", &text, plant);
    let http = program.address();
    let mut admin = program.line();
    while !admin.starts_with("admin listens on ") {
        admin = program.line();
    }
    let admin = admin.strip_prefix("admin listens on ").unwrap().to_owned();
    let ask = |line: &str, token: &str| {
        let response = operator(&admin, line, token).message();
        planted.is_clean(line, &format!("{response:?}"));
        response.status().to_owned()
    };
    // One request in flight, and one to the server whose address is a secret.
    let mut client = request(&http, "/a");
    let mut server = back.accept();
    let head = server.message().head;
    assert!(
        head.contains("marker-field") && head.contains("marker-cookie"),
        "{head}"
    );
    let failed = request(&http, "/hidden").message();
    assert_eq!(failed.status(), "502");
    planted.is_clean("the response to a client", &format!("{failed:?}"));
    for path in ["snapshot", "settings", "events", "dump"] {
        assert_eq!(ask(&format!("GET /api/{path}"), "marker-read"), "200");
    }
    assert_eq!(ask("GET /metrics", "marker-token"), "200");
    for stream in ["hystrix", "config", "utilization"] {
        let mut peer = operator(&admin, &format!("GET /{stream}.stream"), "marker-read");
        let head = peer.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        planted.is_clean(stream, &(head + &peer.bytes(300)));
    }
    // What is refused, and what fails.
    assert_eq!(
        ask("GET /api/snapshot?token=marker-query", "marker-wrong"),
        "401"
    );
    assert_eq!(ask("POST /api/breakers/shop/open", "marker-read"), "403");
    assert_eq!(ask("POST /api/breakers/shop/open", "marker-token"), "200");
    assert_eq!(
        ask(
            "PUT /api/properties/hystrix.command.shop.colour",
            "marker-token"
        ),
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
        said = format!("{said}{}\n", program.line());
    }
    server.write(OK);
    assert_eq!(client.message().body, "ok");
    said += &program.end();
    planted.is_clean("standard error", &said);
    let log = std::fs::read_to_string(planted.folder.join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("\"server\":\"${PLANTED_HOST}\""), "{log}");
    planted.is_clean("the access log", &log);
    for arguments in [&["check"][..], &["explain"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        plant(&mut command);
        command.args(arguments).arg(&program.file);
        if arguments == ["explain"] {
            command.args([
                "GET",
                "http://shop.example/a",
                "-H",
                "X-ROUTE: marker-field",
            ]);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!text.is_empty());
        planted.is_clean(arguments[0], &text);
    }
}
