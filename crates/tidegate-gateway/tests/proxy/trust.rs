//! TLS to the servers: roots and our own certificate, read again with each reload.

use std::sync::Arc;

use rcgen::CertificateParams;
use tidegate::tls::rustls::pki_types::pem::PemObject;
use tidegate::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidegate::tls::rustls::server::WebPkiClientVerifier;
use tidegate::tls::rustls::server::danger::ClientCertVerifier;
use tidegate::tls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use tidegate_testkit::{begins, has};

use crate::operation::World;
use crate::process::Program;
use crate::secure::{Files, pass, told};
use crate::steps::program;
use crate::*;

type Stream = StreamOwned<ServerConnection, crate::Stream>;

/// The settings of an upstream with TLS, to one server.
fn upstream(files: &Files, back: &Upstream) -> String {
    let at = |file: &str| files.0.join(file);
    format!(
        "[upstream.back]\nservers = [\"{}\"]\nmax_in_flight = 2\n\
         tls = {{ name = \"back.example\", roots = {:?}, cert = {:?}, key = {:?} }}\n\
         [route.shop]\nupstream = \"back\"\n",
        back.address(),
        at("back.pem"),
        at("own.pem"),
        at("own.key"),
    )
}

/// Accepts a connection with the certificate `back`, from a client with one of these certificates.
fn accept(back: &Upstream, files: &Files, known: &[&CertificateDer<'static>]) -> Stream {
    let mut roots = RootCertStore::empty();
    for one in known {
        roots.add((*one).clone()).unwrap();
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    accept_by(back, files, verifier.build().unwrap())
}

/// Accepts a connection with the certificate `back`, from a client that this verifies.
fn accept_by(back: &Upstream, files: &Files, verifier: Arc<dyn ClientCertVerifier>) -> Stream {
    let chain = CertificateDer::pem_file_iter(files.0.join("back.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(files.0.join("back.key")).unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let config = config.with_single_cert(chain, key).unwrap();
    let own = ServerConnection::new(Arc::new(config)).unwrap();
    StreamOwned::new(own, back.accept().0)
}

/// Reads a request without a body.
fn request(stream: &mut Stream) {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
}

fn respond(stream: &mut Stream) {
    stream.write_all(OK.as_bytes()).unwrap();
    stream.flush().unwrap();
}

fn identity(stream: &Stream) -> &CertificateDer<'static> {
    &stream.conn.peer_certificates().unwrap()[0]
}

#[test]
fn a_new_identity_is_used_by_new_connections_and_requests_in_flight_finish() {
    let (files, back) = (Files::new("identity"), Upstream::on_socket());
    files.write("back", "back.example");
    let old = files.write("own", "gateway.example");
    let text = upstream(&files, &back);
    let fixture = Fixture::on_sockets(&text);
    let mut client = fixture.send(GET);
    let mut first = accept(&back, &files, &[&old]);
    request(&mut first);
    assert_eq!(identity(&first), &old);
    // The same contents: the connection stays.
    fixture.reload(&text);
    respond(&mut first);
    assert_eq!(client.message().body, "ok");
    client.write(GET);
    request(&mut first);
    let new = files.write("own", "gateway.example");
    fixture.reload(&text);
    let mut other = fixture.send(GET);
    let mut second = accept(&back, &files, &[&new]);
    request(&mut second);
    assert_eq!(identity(&second), &new);
    // Both are in flight to the same server, whose limit counts both.
    let servers = || fixture.gateway.upstreams().remove(0).servers;
    assert_eq!((servers()[0].in_flight, servers()[0].calls), (2, 3));
    fixture.responds("503");
    respond(&mut first);
    respond(&mut second);
    assert_eq!(client.message().body, "ok");
    assert_eq!(other.message().body, "ok");
    assert_eq!(first.read(&mut [0]).unwrap_or(0), 0, "it is not used again");
    // A key of another certificate changes nothing.
    files.write("other", "other.example");
    std::fs::copy(files.0.join("other.key"), files.0.join("own.key")).unwrap();
    let why = fixture.reload_fails(&text);
    begins(&why, "upstream.back: ");
    has(&why, ["is the key another one?"]);
    client.write(GET);
    request(&mut second);
    respond(&mut second);
    assert_eq!(client.message().body, "ok");
}

#[test]
fn new_roots_count_after_a_reload() {
    let (files, back) = (Files::new("roots"), Upstream::on_socket());
    files.write("back", "back.example");
    let own = files.write("own", "gateway.example");
    let text = upstream(&files, &back);
    let fixture = Fixture::on_sockets(&text);
    files.write("back", "back.example");
    let mut client = fixture.send(GET);
    let mut refused = accept(&back, &files, &[&own]);
    let _ = refused.read(&mut [0]);
    client.failure("connect shop");
    fixture.reload(&text);
    client.write(GET);
    let mut stream = accept(&back, &files, &[&own]);
    request(&mut stream);
    respond(&mut stream);
    assert_eq!(client.message().body, "ok");
}

/// Certificates between two days, in the years 2024 and later.
fn until(year: i32) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["back.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 3, 1);
    params
}

#[test]
fn certificates_towards_servers_are_reported_before_they_expire() {
    let (files, back) = (Files::new("trusted"), Upstream::on_socket());
    files.write_with("back", until(2025));
    files.write_with("own", until(2025));
    // 2025-02-01.
    let start = Duration::from_secs(20_120 * 86_400);
    let text = upstream(&files, &back);
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n{text}");
    let world = World::starting_at(text, start);
    pass(&world, 15);
    let soon = |what: &str| {
        format!("upstream.back.tls.{what}: the certificate expires on 2025-03-01, in 14 days")
    };
    assert_eq!(told(&world), [soon("roots[0]"), soon("cert")]);
    // New ones are in use after a reload.
    files.write_with("back", until(2026));
    files.write_with("own", until(2026));
    world.operation.reload("test").unwrap();
    pass(&world, 20);
    assert_eq!(told(&world).len(), 2);
}

#[test]
fn a_certificate_towards_servers_that_cannot_be_used_is_a_mistake_with_its_place() {
    let (files, back) = (Files::new("untrusted"), Upstream::on_socket());
    files.write("back", "back.example");
    files.write("other", "other.example");
    let text = upstream(&files, &back);
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n{text}");
    let path = files.0.join("t.toml");
    std::fs::write(&path, &text).unwrap();
    let check = || program("check", &path);
    let says = |setting: &str, message: &str| {
        let (said, status) = check();
        assert_eq!(status, Some(1), "{said}");
        let place = format!("t.toml:6:{}: ", column(&text, setting));
        let setting = format!("upstream.back.tls.{setting}: ");
        has(&said, [&*place, &*setting, message]);
    };
    says("cert", "own.pem` cannot be used: No such file");
    files.write("own", "gateway.example");
    assert_eq!(check().1, Some(0));
    let key = std::fs::read(files.0.join("own.key")).unwrap();
    std::fs::copy(files.0.join("other.key"), files.0.join("own.key")).unwrap();
    says("cert", "is the key another one?");
    std::fs::write(files.0.join("own.key"), "no key").unwrap();
    says("key", "own.key` cannot be used: it has no private key");
    std::fs::write(files.0.join("own.key"), key).unwrap();
    let mut old = until(2025);
    old.not_before = rcgen::date_time_ymd(2001, 1, 1);
    old.not_after = rcgen::date_time_ymd(2002, 2, 3);
    files.write_with("own", old);
    says(
        "cert",
        "own.pem` cannot be used: it has expired on 2002-02-03",
    );
    std::fs::write(files.0.join("back.pem"), "nothing").unwrap();
    says("roots", "back.pem` cannot be used: it has no certificate");
}

/// Returns the column of the value of a setting of TLS.
fn column(text: &str, setting: &str) -> usize {
    let line = text
        .lines()
        .find(|line| line.starts_with("tls = "))
        .unwrap();
    let start = format!("{setting} = ");
    line.find(&start).unwrap() + start.len() + 1
}

#[test]
fn a_server_that_is_silent_in_the_handshake_is_left_after_the_time_for_a_connection() {
    let (files, back) = (Files::new("silent"), Upstream::new());
    files.write("back", "back.example");
    files.write("own", "gateway.example");
    let text = upstream(&files, &back);
    let text = text.replace("max_in_flight", "connect_timeout = \"2s\"\nmax_in_flight");
    let fixture = Fixture::new(&text);
    let (mut client, mut server) = fixture.reach(GET, &back);
    // The handshake has begun.
    server.0.read_exact(&mut [0]).unwrap();
    fixture.clock.advance(Duration::from_millis(2500));
    assert_eq!(client.message().status(), "504");
    fixture.wait_idle();
}

/// Without `roots`, the servers are checked with those of the platform, which a variable replaces.
#[test]
fn the_roots_of_the_platform_are_trusted_towards_servers() {
    let files = Files::new("platform");
    files.write("back", "back.example");
    files.write("other", "back.example");
    let back = Upstream::on_socket();
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[drain]\nannounce = \"0s\"\n\
         [upstream.back]\nservers = \"{}\"\ntls = {{ name = \"back.example\" }}\n\
         [route.shop]\nupstream = \"back\"\n",
        back.address(),
    );
    for (roots, status) in [("back.pem", "200"), ("other.pem", "502")] {
        let mut program = Program::start_with("platform", &text, |command| {
            command.env("SSL_CERT_FILE", files.0.join(roots));
            command.env_remove("SSL_CERT_DIR");
        });
        let mut client = program.send(GET);
        let mut server = accept_by(&back, &files, WebPkiClientVerifier::no_client_auth());
        if status == "200" {
            request(&mut server);
            respond(&mut server);
        } else {
            // The client does not trust it, and says so.
            server.read(&mut [0]).unwrap_err();
        }
        let response = client.message();
        let failed = response.field("tidegate-failed");
        let expected = (status, (status == "502").then_some("connect shop"));
        assert_eq!((response.status(), failed), expected, "{roots}");
        program.end();
    }
}
