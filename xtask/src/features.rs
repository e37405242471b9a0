//! `cargo xtask features`: the facade without features, and with each of its large features alone,
//! which turn on those of the libraries. `--long`: each library without its default features, and with
//! each feature alone. The links in the documentation are checked without features: an item that a
//! feature adds is not there then.
//!
//! Crates without features are left out, because the other steps build them.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};
use crate::tidy::manifest;

const FACADE: &str = "tidegate";
/// Large features of the facade, and the packages that a program with this feature alone does not build
/// for Linux.
const NOT_BUILT: [(&str, &str); 6] = [
    (
        "isolate",
        "backtrace mio ring rustix rustls syn tidegate-loop tidegate-macros tidegate-net \
         tower-layer tracing",
    ),
    (
        "net",
        "backtrace ring rustls syn tidegate-isolate tidegate-macros tokio tracing",
    ),
    (
        "tracing",
        "backtrace mio rustls tidegate-isolate tidegate-loop tidegate-net tokio \
         tracing-attributes",
    ),
    (
        "tower",
        "hyper mio ring rustls tidegate-loop tidegate-net tokio tower",
    ),
    (
        "http",
        "http hyper ring rustls tidegate-isolate tokio tower",
    ),
    (
        "hyper",
        "hyper-util ring rustls tidegate-isolate tokio-macros tower",
    ),
];
/// The parts of tokio that no feature of the facade builds: its runtime, sockets and timers.
const TOKIO_RUNTIME: [&str; 5] = ["full", "net", "rt", "rt-multi-thread", "time"];

/// Checks the facade, or with `long` each library crate that has features, with warnings as errors,
/// and what some features alone do not build.
///
/// # Errors
///
/// Returns an error if a crate does not compile with one of these feature sets, if a link in its
/// documentation leads nowhere, or if a feature alone builds what it does not need: the network, TLS
/// or a runtime.
pub fn run(root: &Path, long: bool) -> step::Result {
    let libraries = root::libraries(root)?.into_iter();
    for name in libraries.filter(|name| long || name == FACADE) {
        let path = root.join("crates").join(&name).join("Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let features = features(&text);
        if features.is_empty() {
            continue;
        }
        step::run(&mut command(root, &name, None))?;
        step::run(&mut docs(root, &name, None))?;
        let is_large = |feature: &str| NOT_BUILT.iter().any(|(large, _)| *large == feature);
        for feature in features.iter().filter(|one| long || is_large(one)) {
            step::run(&mut command(root, &name, Some(feature)))?;
        }
    }
    step::run(&mut docs(root, FACADE, Some("isolate")))?;
    for (feature, packages) in NOT_BUILT {
        feature_alone(root, feature, packages)?;
    }
    Ok(Outcome::Passed)
}

/// Checks that the facade with one feature alone builds none of these packages, and no runtime of
/// tokio.
fn feature_alone(root: &Path, feature: &str, packages: &str) -> step::Result {
    let mut tree = Command::new("cargo");
    tree.current_dir(root)
        .args(["tree", "--package", FACADE, "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p} [{f}]"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .args(["--no-default-features", "--features", feature]);
    let output = tree
        .output()
        .map_err(|e| format!("cannot start cargo tree: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree: {}", why.trim()));
    }
    let built = String::from_utf8_lossy(&output.stdout);
    if let Some(package) = unwanted(&built, packages) {
        return Err(format!("the feature `{feature}` alone builds `{package}`"));
    }
    match runtime_part(&built) {
        Some(part) => Err(format!(
            "the feature `{feature}` alone builds tokio with `{part}`"
        )),
        None => Ok(Outcome::Passed),
    }
}

/// Returns the first part of tokio's runtime that is built.
fn runtime_part(built: &str) -> Option<&'static str> {
    let mut tokio = built.lines().filter(|line| line.starts_with("tokio v"));
    tokio.find_map(|line| {
        let (_, features) = line.split_once('[')?;
        let (features, _) = features.split_once(']')?;
        let is_built = |part: &&str| features.split(',').any(|one| one == *part);
        TOKIO_RUNTIME.into_iter().find(is_built)
    })
}

/// Returns the first of the built packages that should not be built.
fn unwanted<'a>(built: &'a str, packages: &str) -> Option<&'a str> {
    let mut names = built.lines().filter_map(|line| line.split(' ').next());
    names.find(|name| packages.split(' ').any(|package| package == *name))
}

fn command(root: &Path, name: &str, feature: Option<&str>) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["clippy", "--package", name]);
    command.arg("--no-default-features");
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    command.args(["--", "-D", "warnings"]);
    command
}

fn docs(root: &Path, name: &str, feature: Option<&str>) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(["doc", "--no-deps", "--package", name])
        .arg("--no-default-features");
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    command
}

/// Returns the features of a manifest except `default`: the listed ones, and the optional
/// dependencies that have no `dep:`.
pub(crate) fn features(text: &str) -> Vec<String> {
    let entries = manifest::entries(text);
    let listed = entries
        .iter()
        .filter(|entry| entry.section == "features" && entry.key != "default");
    let implied = entries.iter().filter(|entry| {
        let optional = entry.value.contains("optional = true");
        entry.is_dependency() && optional && !text.contains(&format!("\"dep:{}\"", entry.key))
    });
    listed
        .chain(implied)
        .map(|entry| entry.key.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_those_listed_and_those_implied() {
        let manifest = "[features]\ndefault = [\"tls\"]\ntls = [\n  \"dep:rustls\",\n]\n\
             [dependencies]\nrustls = { version = \"1\", optional = true }\n\
             log = { version = \"1\", optional = true }\nbytes = \"1\"\n";
        assert_eq!(features(manifest), ["tls", "log"]);
        assert!(features("[dependencies]\nbytes = \"1\"\n").is_empty());
    }

    #[test]
    fn a_package_that_a_feature_does_not_need_is_found() {
        let built = "tidegate v0.1.0 (x)\ntidegate-core v0.1.0\n";
        assert_eq!(unwanted(built, "rustls"), None);
        let built = "tidegate v0.1.0\nrustls v0.23.46\n";
        assert_eq!(unwanted(built, "tokio rustls"), Some("rustls"));
    }

    #[test]
    fn a_runtime_of_tokio_is_found() {
        let built = "hyper v1.12.0 [http1,server]\ntokio v1.54.1 [bytes,io-util,sync] (*)\n";
        assert_eq!(runtime_part(built), None);
        assert_eq!(runtime_part("tokio v1.54.1 [net,sync]\n"), Some("net"));
        assert_eq!(runtime_part("tokio-util v0.7.20 [rt]\n"), None);
    }
}
