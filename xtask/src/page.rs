//! `cargo xtask page`: opens the page of the gateway in Chromium.
//!
//! `xtask/page/check.mjs` opens the pages of a simulated gateway (the example `page`), of the demo, and
//! of `tidegate run`, and checks what they show and do. Writes pictures into the build folder. The
//! programs are optimised, so that the demo looks as it does for its users; CI takes those that its
//! tests have built.

use std::path::Path;
use std::process::Command;

use crate::browser;
use crate::root;
use crate::step;

/// Time limit for the installation and for the check, in seconds each; and for the long check.
const LIMIT: u32 = 600;
const LONG_LIMIT: u32 = 1800;

/// Which programs are checked, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the tests have built them. Nobody looks at the pictures.
    Debug,
    /// Optimised.
    Release,
    /// Optimised. Also measures how long the tasks of a page take with many routes, and whether its
    /// memory stays flat.
    Long,
}

/// Opens the pages in Chromium and checks them.
///
/// Skips where npm or Chromium is not installed.
///
/// # Errors
///
/// Returns an error if the driver cannot be installed, or if a page does not do what it should.
pub fn run(root: &Path, form: Form) -> step::Result {
    if let Some(skipped) = browser::missing() {
        return Ok(skipped);
    }
    let folder = browser::install(root, "page", LIMIT)?;
    let target = root::target_dir(root, "");
    let mut build = Command::new("cargo");
    build
        .current_dir(root)
        .args(["build", "--quiet", "--bin", "tidegate", "--example", "page"])
        .env("CARGO_TARGET_DIR", &target);
    let profile = match form {
        // With the features of the tests, so that nothing is built again.
        Form::Debug => {
            build.arg("--workspace");
            "debug"
        }
        Form::Release | Form::Long => {
            build.args(["--release", "--package", "tidegate-gateway"]);
            "release"
        }
    };
    step::run(&mut build)?;
    let programs = target.join(profile);
    let (limit, length) = match form {
        Form::Long => (LONG_LIMIT, Some("--long")),
        Form::Release => (LIMIT, None),
        Form::Debug => (LIMIT, Some("--short")),
    };
    let mut check = browser::check(root, "page", &folder, limit);
    check
        .arg(programs.join("examples/page"))
        .args([&programs.join("tidegate"), &folder])
        .args(length);
    step::run(&mut check)
}
