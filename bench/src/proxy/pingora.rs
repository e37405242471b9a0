//! The peer pingora, a program of its own in `bench/pingora`: it needs a compiler of C++ and `cmake`,
//! which nothing else here does. It is built once, beside this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest time of the build.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns the program, which is built if it is missing, or why there is none.
pub(super) fn program() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| why.to_string())?;
    // target/PROFILE/tidegate-bench
    let target = own.ancestors().nth(2).ok_or("there is no target folder")?;
    let target = target.join("pingora");
    let program = target.join("release/pingora-proxy");
    if program.is_file() {
        return Ok(program);
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("pingora/Cargo.toml");
    eprintln!("  builds pingora, once");
    let mut build = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--quiet",
            "--locked",
            "--manifest-path",
        ])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("cargo cannot be started: {why}"))?;
    let began = Instant::now();
    while matches!(build.try_wait(), Ok(None)) {
        if began.elapsed() > PATIENCE {
            let _ = build.kill();
            let _ = build.wait();
            return Err(format!("it was not built within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    match program.is_file() {
        true => Ok(program),
        false => {
            Err("it cannot be built here; `.ci/peers --bench` installs what it needs".to_owned())
        }
    }
}
