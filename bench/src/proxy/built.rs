//! Programs that cargo builds, beside this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time of a build.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns the folder `target` of this program.
pub(super) fn target() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| why.to_string())?;
    // target/PROFILE/tidegate-bench
    let target = own.ancestors().nth(2).ok_or("there is no target folder")?;
    Ok(target.to_path_buf())
}

/// Builds the package of a manifest into `target`, optimised.
pub(super) fn build(manifest: &Path, target: &Path) -> Result<(), String> {
    let mut build = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--locked"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("cargo cannot be started: {why}"))?;
    let began = Instant::now();
    loop {
        match build.try_wait() {
            Ok(None) if began.elapsed() <= PATIENCE => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err("it cannot be built here".to_owned()),
            _ => {
                let _ = build.kill();
                let _ = build.wait();
                return Err(format!("it was not built within {} s", PATIENCE.as_secs()));
            }
        }
    }
}
