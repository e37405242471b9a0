//! What the checks of pages share: Chromium, its driver from npm, and a time limit.
//!
//! `.ci/peers --browser` installs Chromium. A check is a folder of `xtask` with a `check.mjs` and the
//! `package.json` of what it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const CHROMIUM: &str = "/usr/bin/chromium";

/// Returns why no check can run, if a program is missing.
pub(crate) fn missing() -> Option<Outcome> {
    let mut programs = ["npm", "chromium"].into_iter();
    let missing = programs.find(|program| !step::works(Command::new("which").arg(program)))?;
    let why = format!("{missing} is not installed; see .ci/peers --browser");
    Some(Outcome::Skipped(why))
}

/// Installs what the check with this name needs into its build folder, and returns the folder.
/// `seconds` is the time limit.
pub(crate) fn install(root: &Path, name: &str, seconds: u32) -> Result<PathBuf, String> {
    let folder = root::target_dir(root, name);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let packages = root.join("xtask").join(name).join("package.json");
    std::fs::copy(packages, folder.join("package.json"))
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut install = limited("npm", seconds);
    step::run(install.current_dir(&folder).args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]))?;
    Ok(folder)
}

/// Returns the command that runs the check with this name. Its first arguments are the folder of
/// its packages and the path of Chromium.
pub(crate) fn check(root: &Path, name: &str, folder: &Path, seconds: u32) -> Command {
    let mut check = limited("node", seconds);
    check
        .arg(root.join("xtask").join(name).join("check.mjs"))
        .arg(folder.join("node_modules"))
        .arg(CHROMIUM);
    check
}

fn limited(program: &str, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string(), program]);
    command
}
