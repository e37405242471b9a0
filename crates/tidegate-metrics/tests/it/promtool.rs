//! The checks of `promtool`, the tool of Prometheus, if it is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::export::everything;

#[test]
fn promtool_has_no_complaint() {
    check(&everything().exporter.encode_plain());
}

/// Passes a text to `promtool`, if it is installed.
pub(crate) fn check(text: &str) {
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut check) = check else {
        println!("skipped: `promtool` is not installed (Debian package `prometheus`)");
        return;
    };
    let mut input = check.stdin.take().expect("it is piped");
    input
        .write_all(text.as_bytes())
        .expect("promtool reads its input");
    drop(input);
    let output = check.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}
