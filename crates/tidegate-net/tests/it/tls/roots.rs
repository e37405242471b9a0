//! The root certificates of the platform. The environment replaces them, so the tests run in
//! processes of their own.

use std::path::Path;
use std::process::Command;
use tidegate_testkit::has;

use tidegate_net::tls::{TlsClient, TlsError};

use super::{Authority, Pair};

/// Set in the processes that this file starts.
const CHILD: &str = "TIDEGATE_TEST_ROOTS";

/// Runs the test `name` of this file again, in a process whose roots are in the file `roots`.
fn again(name: &str, roots: &Path) {
    let test = format!("tls::roots::{name}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&*test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", roots)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn certificates_of_the_platforms_roots_are_trusted() {
    let file = std::env::temp_dir().join(format!("tidegate-roots-{}.pem", std::process::id()));
    if !is_child() {
        // The child replaces the content by the root of its own authority.
        std::fs::write(&file, "").unwrap();
        again("certificates_of_the_platforms_roots_are_trusted", &file);
        return std::fs::remove_file(&file).unwrap();
    }
    let file = std::env::var("SSL_CERT_FILE").unwrap();
    let authority = Authority::new();
    std::fs::write(&file, authority.roots()).unwrap();
    let client = TlsClient::with_native_roots().unwrap();
    let mut pair = Pair::new(&authority.server("a.test"), &client, "a.test");
    pair.run();
    assert!(pair.handshakes().iter().all(Option::is_some));
    let other = Authority::new();
    let mut pair = Pair::new(&other.server("a.test"), &client, "a.test");
    pair.run();
    assert!(!pair.client.is_open(), "another authority is not trusted");
}

#[test]
fn a_platform_without_roots_is_an_error() {
    if !is_child() {
        let missing = std::env::temp_dir().join("tidegate-no-such-roots.pem");
        return again("a_platform_without_roots_is_an_error", &missing);
    }
    let why = TlsClient::with_native_roots().unwrap_err();
    assert!(matches!(why, TlsError::InvalidRoots(_)));
    let text = why.to_string();
    has(&text, ["ca-certificates", "SSL_CERT_FILE"]);
}
