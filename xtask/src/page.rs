//! `cargo xtask page`: opens the page of the gateway in Chromium.
//!
//! npm installs the driver of the browser, `.ci/peers --browser` installs Chromium.
//! `xtask/page/check.mjs` starts a simulated gateway (the example `page`), opens its page, and checks
//! what it shows and does. Writes pictures into the build folder.

use std::path::Path;
use std::process::Command;

use crate::interop;
use crate::root;
use crate::step::{self, Outcome};

/// Time limit for the installation and for the check, in seconds each.
const LIMIT: &str = "400";

/// Opens the page in Chromium and checks it. `is_long` also measures how long its tasks take with
/// many routes, and whether its memory stays flat.
///
/// Skips where npm or Chromium is not installed.
///
/// # Errors
///
/// Returns an error if the driver cannot be installed, or if the page does not do what it should.
pub fn run(root: &Path, is_long: bool) -> step::Result {
    for program in ["npm", "chromium"] {
        if !step::works(Command::new("which").arg(program)) {
            let why = format!("{program} is not installed; see .ci/peers --browser");
            return Ok(Outcome::Skipped(why));
        }
    }
    let folder = root::target_dir(root, "page");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sources = root.join("xtask/page");
    std::fs::copy(sources.join("package.json"), folder.join("package.json"))
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut install = limited("npm");
    step::run(install.current_dir(&folder).args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]))?;
    let [program] = interop::build(root, &["tidegate-gateway"], ["page"])?;
    let mut check = limited("node");
    check
        .arg(sources.join("check.mjs"))
        .arg(folder.join("node_modules"))
        .arg("/usr/bin/chromium")
        .args([&program, &folder])
        .args(is_long.then_some("--long"));
    step::run(&mut check)
}

fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT, program]);
    command
}
