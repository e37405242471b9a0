//! `cargo xtask dashboard`: shows our stream in the original page of the Hystrix dashboard.
//!
//! npm installs the page and the driver of the browser, `.ci/peers --browser` installs Chromium.
//! `xtask/dashboard/check.mjs` opens the page and compares what it shows with what the example
//! `http_events` simulates: a fast dependency, a failing one, and a slow one. Then the same of a
//! gateway with three such upstreams, which `xtask/dashboard/traffic.mjs` serves and calls.

use std::path::Path;
use std::process::Command;

use crate::interop;
use crate::root;
use crate::step::{self, Outcome};

/// Time limit for the installation and for the check, in seconds each.
const LIMIT: &str = "180";

/// Opens the page in Chromium and checks it. Writes a picture of it into the build folder.
///
/// Skips where npm or Chromium is not installed.
///
/// # Errors
///
/// Returns an error if the page cannot be installed, reports an error, or does not show the state
/// of every command and pool.
pub fn run(root: &Path) -> step::Result {
    for program in ["npm", "chromium"] {
        if !step::works(Command::new("which").arg(program)) {
            let why = format!("{program} is not installed; see .ci/peers --browser");
            return Ok(Outcome::Skipped(why));
        }
    }
    let folder = root::target_dir(root, "dashboard");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sources = root.join("xtask/dashboard");
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

    let [program] = interop::build(root, &["tidegate-examples"], ["http_events"])?;
    let mut addresses = Vec::new();
    let mut server = Command::new(program);
    let server = interop::start(server.arg("127.0.0.1:0"), "events", &mut addresses)?;
    let (_, stream) = addresses.pop().ok_or("http_events printed no address")?;
    check(&sources, &folder, &stream, 3, "dashboard.png")?;
    drop(server);

    let gateway = interop::dashboard_gateway(root, &folder, &sources.join("traffic.mjs"))?;
    check(&sources, &folder, &gateway.stream, 0, "gateway.png")
}

/// Opens the page with a stream, in which three commands and `pools` pools are expected.
fn check(sources: &Path, folder: &Path, stream: &str, pools: u32, picture: &str) -> step::Result {
    let mut check = limited("node");
    check
        .arg(sources.join("check.mjs"))
        .arg(folder.join("node_modules"))
        .args(["/usr/bin/chromium", stream])
        .arg(folder.join(picture))
        .arg(pools.to_string());
    step::run(&mut check)
}

fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT, program]);
    command
}
