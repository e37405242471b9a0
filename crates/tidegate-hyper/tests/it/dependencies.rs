//! What this crate builds.

use std::process::Command;

/// tokio comes with hyper, for its channels and codecs. Its runtime, its sockets and its timers must
/// not.
#[test]
fn no_runtime_of_tokio_is_built() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--offline", "--package", "tidegate-hyper"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p} [{f}]"])
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let tokio = tree.lines().filter(|line| line.starts_with("tokio v"));
    let mut seen = false;
    for line in tokio {
        seen = true;
        let (_, features) = line.split_once('[').unwrap();
        let features = features.split(']').next().unwrap();
        for feature in features.split(',') {
            let runtime = feature.starts_with("rt") || ["net", "time", "full"].contains(&feature);
            assert!(!runtime, "{line}");
        }
    }
    assert!(seen, "hyper has channels of tokio:\n{tree}");
    for package in ["hyper-util", "tokio-macros"] {
        assert!(!tree.contains(&format!("{package} v")), "{tree}");
    }
}
