//! `cargo xtask platforms`: checks the facade for systems on which no test runs.

use std::path::Path;
use std::process::Command;

use crate::features;
use crate::step::{self, Outcome};

/// A system, and programs of which one compiles C for it. The feature `tls` needs one; a system
/// without any is checked without that feature.
struct Platform {
    target: &'static str,
    c_compilers: &'static [&'static str],
}

const PLATFORMS: [Platform; 4] = [
    Platform {
        target: "x86_64-pc-windows-gnu",
        c_compilers: &["x86_64-w64-mingw32-gcc"],
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        c_compilers: &["x86_64-linux-musl-gcc", "musl-gcc"],
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        c_compilers: &["aarch64-linux-gnu-gcc"],
    },
    Platform {
        target: "aarch64-apple-darwin",
        c_compilers: &[],
    },
];

/// Runs clippy on the facade with all features, for each system whose standard library is
/// installed.
///
/// # Errors
///
/// Returns an error if the facade does not compile for one of them, or has warnings there.
pub fn run(root: &Path) -> step::Result {
    let mut missing = Vec::new();
    for platform in &PLATFORMS {
        let target = platform.target;
        if !is_installed(target) {
            println!("{target}: skipped, not installed (rustup target add {target})");
            missing.push(target);
            continue;
        }
        let with_tls = platform.has_c_compiler();
        if !with_tls {
            println!("{target}: without `tls`, for which there is no C compiler");
        }
        step::run(&mut clippy(root, target, &chosen(root, with_tls)?))?;
    }
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Skipped(format!(
        "not installed: {}",
        missing.join(", ")
    )))
}

impl Platform {
    /// Returns `true` if a C compiler for this system is named in the environment, as the crate
    /// `cc` reads it, or installed.
    fn has_c_compiler(&self) -> bool {
        let named = format!("CC_{}", self.target.replace('-', "_"));
        if self.c_compilers.is_empty() {
            return false;
        }
        std::env::var_os(named).is_some()
            || self
                .c_compilers
                .iter()
                .any(|program| step::works(Command::new(program).arg("--version")))
    }
}

/// Returns `true` if the compiler has the standard library for `target`.
fn is_installed(target: &str) -> bool {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    let folder = command.output().ok().filter(|out| out.status.success());
    folder.is_some_and(|out| {
        let path = String::from_utf8_lossy(&out.stdout);
        Path::new(path.trim()).is_dir()
    })
}

/// Returns the features of the facade, with or without `tls`.
fn chosen(root: &Path, with_tls: bool) -> Result<String, String> {
    let path = root.join("crates/tidegate/Cargo.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Ok(list(&text, with_tls))
}

fn list(manifest: &str, with_tls: bool) -> String {
    let mut features = features::features(manifest);
    features.retain(|feature| with_tls || feature != "tls");
    features.join(",")
}

fn clippy(root: &Path, target: &str, features: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["clippy", "--package", "tidegate", "--target", target])
        .args(["--no-default-features", "--features", features])
        .args(["--", "-D", "warnings"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_features_are_checked_and_tls_only_with_a_c_compiler() {
        let manifest = "[features]\ndefault = [\"net\"]\nnet = []\ntls = [\"net\"]\ntower = []\n";
        assert_eq!(list(manifest, true), "net,tls,tower");
        assert_eq!(list(manifest, false), "net,tower");
    }
}
