//! Listeners with TLS and with the PROXY protocol.

use std::io::BufReader;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tidegate::tls::rustls::pki_types::pem::PemObject;
use tidegate::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tidegate::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use tidegate_testkit::{Folder, begins, has, lacks};

use crate::operation::{World, operated};
use crate::steps::{connect, no_forks, program};
use crate::*;

/// A directory with certificates, which is removed at the end.
pub(crate) struct Files(pub(crate) Folder);

impl Files {
    pub(crate) fn new(name: &str) -> Self {
        Self(Folder::new(name))
    }

    /// Writes a certificate for a name. Returns it.
    pub(crate) fn write(&self, file: &str, name: &str) -> CertificateDer<'static> {
        self.write_with(file, CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    pub(crate) fn write_with(
        &self,
        file: &str,
        params: CertificateParams,
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        std::fs::write(self.0.join(format!("{file}.pem")), own.pem()).unwrap();
        std::fs::write(self.0.join(format!("{file}.key")), key.serialize_pem()).unwrap();
        CertificateDer::from_pem_slice(own.pem().as_bytes()).unwrap()
    }

    fn listener(&self, files: &[&str]) -> String {
        let pair = |file: &&str| {
            let at = |end: &str| self.0.join(format!("{file}.{end}"));
            format!("{{ cert = {:?}, key = {:?} }}", at("pem"), at("key"))
        };
        let all: Vec<String> = files.iter().map(pair).collect();
        format!(
            "[listen.secure]\nat = \"127.0.0.1:0\"\ntls = {{ certificates = [{}] }}\n",
            all.join(", ")
        )
    }
}

/// Sends a request to a name and returns the response.
fn ask(fixture: &Fixture, name: &str, trusted: &CertificateDer<'static>) -> io::Result<String> {
    ask_as(fixture, name, trusted, None)
}

/// The same, as a client with this certificate and its key.
fn ask_as(
    fixture: &Fixture,
    name: &str,
    trusted: &CertificateDer<'static>,
    own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match own {
        Some((own, key)) => builder.with_client_auth_cert(vec![own], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, connect(fixture, "secure").0);
    stream.write_all(
        GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    )?;
    let mut text = String::new();
    BufReader::new(stream).read_to_string(&mut text)?;
    Ok(text)
}

const HELLO: &str = "[route.hello]\nrespond = { status = 200, body = \"hello\" }\n";

#[test]
fn the_name_that_a_client_asks_for_selects_the_certificate() {
    let files = Files::new("names");
    let (one, two) = (
        files.write("one", "one.example"),
        files.write("two", "*.two.example"),
    );
    let fixture = Fixture::on_sockets(&format!("{}{HELLO}", files.listener(&["one", "two"])));
    for (name, certificate) in [("one.example", &one), ("a.two.example", &two)] {
        let text = ask(&fixture, name, certificate).unwrap();
        begins(&text, "HTTP/1.1 200 ");
        assert!(text.ends_with("hello"), "{text}");
    }
    let other = ask(&fixture, "a.two.example", &one);
    assert!(other.is_err(), "not signed by it");
}

#[test]
fn certificates_are_read_again_with_the_configuration() {
    let files = Files::new("again");
    let old = files.write("one", "one.example");
    let text = format!("{}{HELLO}", files.listener(&["one"]));
    let fixture = Fixture::on_sockets(&text);
    ask(&fixture, "one.example", &old).unwrap();
    let new = files.write("one", "one.example");
    fixture.reload(&text);
    ask(&fixture, "one.example", &new).unwrap();
    assert!(ask(&fixture, "one.example", &old).is_err());
    // A key of another certificate changes nothing.
    files.write("other", "one.example");
    std::fs::copy(files.0.join("other.key"), files.0.join("one.key")).unwrap();
    let why = fixture.reload_fails(&text);
    assert!(
        why.starts_with("listen.secure.tls: ") && why.contains("one.pem"),
        "{why}"
    );
    ask(&fixture, "one.example", &new).unwrap();
}

/// A file that a shell passes by descriptor has its contents once.
#[test]
fn each_file_of_tls_is_read_once_at_the_start_and_by_a_reload() {
    let _alone = no_forks();
    let files = Files::new("once");
    files.write("one", "one.example");
    let passed = |file: &str| {
        let (read, mut write) = io::pipe().unwrap();
        let bytes = std::fs::read(files.0.join(file)).unwrap();
        write.write_all(&bytes).unwrap();
        read
    };
    let pass = || {
        let pipes = ["one.pem", "one.key", "one.pem"].map(passed);
        let [cert, key, roots] = pipes
            .each_ref()
            .map(|pipe| format!("/dev/fd/{}", pipe.as_raw_fd()));
        let text = operated(&format!(
            "[listen.secure]\nat = \"127.0.0.1:0\"\n\
             tls = {{ certificates = [{{ cert = {cert:?}, key = {key:?} }}] }}\n\
             [upstream.back]\nservers = [\"127.0.0.1:1\"]\ntls = {{ roots = {roots:?} }}\n\
             {HELLO}[route.more]\npath = \"/more\"\nupstream = \"back\"\n"
        ));
        (text, pipes)
    };
    let (text, _pipes) = pass();
    let world = World::with(text);
    let (text, _more) = pass();
    world.write(&text);
    assert_eq!(world.operation.reload("SIGHUP"), Ok(Vec::new()));
}

#[test]
fn the_certificate_of_a_client_is_asked_for_as_the_listener_says() {
    let files = Files::new("clients");
    let own = files.write("one", "one.example");
    for client in ["known", "unknown"] {
        files.write(client, "client.example");
    }
    let text = |client: &str| {
        let roots = files.0.join("known.pem");
        let tls = format!("], client = \"{client}\", client_roots = {roots:?} }}\n");
        format!("{}{HELLO}", files.listener(&["one"]).replace("] }\n", &tls))
    };
    // Without a certificate, with one that the roots know, with another one.
    let rows = [
        ("none", [true, true, true]),
        ("optional", [true, true, false]),
        ("required", [false, true, false]),
    ];
    let check = |fixture: &Fixture, mode: &str, expected: [bool; 3]| {
        let clients = [None, Some("known"), Some("unknown")];
        for (client, is_served) in clients.into_iter().zip(expected) {
            let pair = client.map(|file| {
                let path = |end: &str| files.0.join(format!("{file}.{end}"));
                let own = CertificateDer::from_pem_file(path("pem")).unwrap();
                (own, PrivateKeyDer::from_pem_file(path("key")).unwrap())
            });
            match ask_as(fixture, "one.example", &own, pair) {
                Ok(text) => assert!(is_served && text.ends_with("hello"), "{mode} {client:?}"),
                Err(why) => assert!(!is_served, "{mode} {client:?}: {why}"),
            }
        }
    };
    let mut reloaded = None;
    for (mode, expected) in rows {
        check(&Fixture::on_sockets(&text(mode)), mode, expected);
        // Also from the next reload on.
        let fixture = reloaded.get_or_insert_with(|| Fixture::on_sockets(&text(mode)));
        fixture.reload(&text(mode));
        check(fixture, mode, expected);
    }
}

#[test]
fn a_missing_certificate_is_an_error_at_the_start() {
    let files = Files::new("missing");
    let group = tidegate::net::pinned("gateway", 1).unwrap();
    let isolation = Isolation::builder().build().unwrap();
    let text = format!("{}{HELLO}", files.listener(&["none"]));
    let why = Gateway::start(config(&text), &group, &isolation)
        .unwrap_err()
        .to_string();
    has(&why, ["none.pem"]);
}

#[test]
fn the_server_sees_that_the_client_came_by_tls() {
    let files = Files::new("proto");
    let own = files.write("one", "one.example");
    let back = Upstream::on_socket();
    let fixture = Fixture::on_sockets(&format!(
        "{}{}",
        files.listener(&["one"]),
        route(&[&back], "")
    ));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&fixture, "one.example", &own).unwrap());
        let request = back.accept().serve(OK);
        assert_eq!(request.field("x-forwarded-proto"), Some("https"));
        assert!(asked.join().unwrap().ends_with("ok"));
    });
}

#[test]
fn the_address_of_a_client_comes_from_the_proxy_protocol_of_a_trusted_peer() {
    let back = Upstream::on_socket();
    let listener = |trust: &str| {
        format!(
            "[listen.behind]\nat = \"127.0.0.1:0\"\nproxy_protocol = true\ntrust = [\"{trust}\"]\n{}",
            route(&[&back], "")
        )
    };
    let fixture = Fixture::on_sockets(&listener("127.0.0.0/8"));
    let mut client = connect(&fixture, "behind");
    client.write(&format!("PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n{GET}"));
    let request = back.accept().serve(OK);
    assert_eq!(request.field("x-forwarded-for"), Some("192.0.2.1"));
    assert_eq!(client.message().body, "ok");
    let mut plain = connect(&fixture, "behind");
    plain.write(GET);
    assert_eq!(plain.rest(), "", "without the header");
    let fixture = Fixture::on_sockets(&listener("10.0.0.0/8"));
    let mut unknown = connect(&fixture, "behind");
    let _ = unknown
        .0
        .write_all(b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n");
    assert_eq!(unknown.rest(), "");
}

#[test]
fn a_proxy_header_comes_within_the_time_of_a_head() {
    let fixture = Fixture::new(
        "[listen.behind]\nat = \"127.0.0.1:0\"\nproxy_protocol = true\n\
         trust = [\"127.0.0.0/8\"]\nlimits = { head_time = \"5s\" }\n[route.r]\nrespond = 200\n",
    );
    let mut slow = connect(&fixture, "behind");
    slow.write("PROXY TCP4 192.");
    // It is accepted after the slow one.
    let mut other = connect(&fixture, "behind");
    other.write("PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n");
    for seconds in [4, 2] {
        other.write(GET);
        assert_eq!(other.message().status(), "200");
        fixture.clock.advance(Duration::from_secs(seconds));
    }
    assert_eq!(slow.0.read(&mut [0]).unwrap(), 0, "it is closed");
    other.write(GET);
    assert_eq!(other.message().status(), "200", "it has its header");
}

#[test]
fn a_certificate_that_a_reload_cannot_use_is_a_message_with_its_place() {
    let files = Files::new("place");
    files.write("one", "one.example");
    files.write("other", "other.example");
    let world = World::new(&format!("{}{HELLO}", files.listener(&["one"])));
    std::fs::copy(files.0.join("other.key"), files.0.join("one.key")).unwrap();
    let why = world.operation.reload("SIGHUP").unwrap_err();
    let start = "/tidegate.toml:8:";
    begins(&why, start);
    has(
        &why,
        [
            "listen.secure.tls.certificates[0].cert: ",
            "is the key another one?",
            "expected a certificate that is valid now",
            "1 error, 0 warnings",
        ],
    );
    lacks(&why, ["cannot listen"]);
}

/// A pipe, for example, may have no writer.
#[test]
fn a_certificate_that_is_not_a_regular_file_is_a_message() {
    let files = Files::new("regular");
    files.write("one", "one.example");
    let world = World::new(&format!("{}{HELLO}", files.listener(&["one"])));
    for file in ["one.key", "one.pem"] {
        let path = files.0.join(file);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let why = world.operation.reload("SIGHUP").unwrap_err();
        let expected = format!("{file}` cannot be used: it is not a regular file");
        has(&why, [&expected]);
    }
}

/// A certificate that cannot be used is a message with its place, at `check` and at the start.
#[test]
fn a_certificate_that_is_missing_expired_or_of_another_key_is_a_message() {
    let files = Files::new("wrong");
    files.write("one", "one.example");
    files.write("other", "other.example");
    let mut old = CertificateParams::new(vec!["old.example".to_owned()]).unwrap();
    old.not_before = rcgen::date_time_ymd(2001, 1, 1);
    old.not_after = rcgen::date_time_ymd(2002, 2, 3);
    files.write_with("old", old);
    std::fs::copy(files.0.join("other.key"), files.0.join("one.key")).unwrap();
    let rows = [
        ("none", "none.pem` cannot be used: No such file"),
        (
            "old",
            "old.pem` cannot be used: it has expired on 2002-02-03",
        ),
        ("one", "is the key another one?"),
    ];
    for (file, message) in rows {
        let text = format!("{}[route.r]\nrespond = 200\n", files.listener(&[file]));
        let path = files.0.join("t.toml");
        std::fs::write(&path, &text).unwrap();
        let checked = program("check", &path);
        has(&checked.0, [message, "t.toml:3:"]);
        assert_eq!(checked.1, Some(1));
        assert_eq!(program("run", &path), checked);
    }
}

/// Returns what was reported about certificates.
pub(crate) fn told(world: &World) -> Vec<String> {
    let all = world.parts.reports.events.latest().into_iter().rev();
    let own = all.filter(|change| change.origin == "certificates");
    own.map(|change| change.what).collect()
}

/// Advances time by days.
pub(crate) fn pass(world: &World, days: u32) {
    for _ in 0..24 * days {
        world.clock.advance(Duration::from_secs(3600));
        // Each look plans the next one.
        let home = world.parts.own.loops().next();
        home.submit(|| ()).unwrap().wait().unwrap();
    }
}

#[test]
fn a_certificate_that_expires_is_reported_before_and_after() {
    let files = Files::new("expires");
    let mut params = CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    params.not_after = rcgen::date_time_ymd(2025, 3, 1);
    files.write_with("one", params.clone());
    // 2025-02-01.
    let start = Duration::from_secs(20_120 * 86_400);
    let listeners = files.listener(&["one"]);
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n{listeners}{HELLO}");
    let world = World::starting_at(text, start);
    let told = || told(&world);
    let pass = |days: u32| pass(&world, days);
    pass(13);
    assert_eq!(told(), [""; 0]);
    pass(2);
    let soon =
        "listen.secure.tls.certificates[0]: the certificate expires on 2025-03-01, in 14 days";
    assert_eq!(told(), [soon]);
    pass(12);
    assert_eq!(told().len(), 1);
    pass(2);
    let late = "listen.secure.tls.certificates[0]: the certificate has expired on 2025-03-01";
    assert_eq!(told(), [soon, late]);
    // A new one is in use after a reload.
    params.not_after = rcgen::date_time_ymd(2026, 3, 1);
    files.write_with("one", params);
    world.operation.reload("test").unwrap();
    pass(1);
    assert_eq!(told().len(), 2);
}

/// A key and the roots of clients have places of their own, at `check`, at the start and in a reload.
#[test]
fn a_wrong_key_and_wrong_roots_of_clients_are_found_at_their_places() {
    let files = Files::new("places");
    files.write("one", "one.example");
    std::fs::write(files.0.join("empty"), "").unwrap();
    std::fs::write(files.0.join("garbage"), "garbage").unwrap();
    let text = |key: &str, roots: &str| {
        let at = |file: &str| files.0.join(file);
        format!(
            "[[listen.secure.tls.certificates]]\ncert = {:?}\nkey = {:?}\n[listen.secure.tls]\n\
             client = \"optional\"\nclient_roots = {:?}\n[listen.secure]\nat = \"127.0.0.1:0\"\n{HELLO}",
            at("one.pem"),
            at(key),
            at(roots)
        )
    };
    let key = ("certificates[0].key", "the private key of the certificate");
    let roots = ("client_roots", "roots that can be read");
    for (text, line, (setting, expected), why) in [
        (text("garbage", "one.pem"), 3, key, "it has no private key"),
        (text("one.key", "none"), 6, roots, "No such file"),
        (text("one.key", "empty"), 6, roots, "it has no certificate"),
        (
            text("one.key", "garbage"),
            6,
            roots,
            "it has no certificate",
        ),
        (text("one.key", ""), 6, roots, "it is not a regular file"),
    ] {
        let path = files.0.join("t.toml");
        std::fs::write(&path, &text).unwrap();
        for action in ["check", "run"] {
            let (said, status) = program(action, &path);
            let place = format!("t.toml:{line}:");
            let setting = format!("listen.secure.tls.{setting}: ");
            has(
                format!("{action}\n{said}"),
                [&*place, &setting, why, expected],
            );
            assert_eq!(status, Some(1), "{said}");
        }
    }
}
