//! `cargo xtask dashboard`: shows our stream in the original page of the Hystrix dashboard.
//!
//! npm installs the page and the driver of the browser, `.ci/peers --browser` installs Chromium.
//! `xtask/dashboard/check.mjs` opens the page and compares what it shows with what the example
//! `http_events` simulates: a fast dependency, a failing one, and a slow one. Then the same of a
//! gateway with three such upstreams, which `xtask/dashboard/traffic.mjs` serves and calls.

use std::path::Path;
use std::process::Command;

use crate::browser;
use crate::interop;
use crate::step;

/// Time limit for the installation and for the check, in seconds each.
const LIMIT: u32 = 180;

/// Opens the page in Chromium and checks it. Writes a picture of it into the build folder.
///
/// Skips where npm or Chromium is not installed.
///
/// # Errors
///
/// Returns an error if the page cannot be installed, reports an error, or does not show the state
/// of every command and pool.
pub fn run(root: &Path) -> step::Result {
    if let Some(skipped) = browser::missing() {
        return Ok(skipped);
    }
    let folder = browser::install(root, "dashboard", LIMIT)?;

    let [program] = interop::build(root, &["tidegate-examples"], ["http_events"])?;
    let mut addresses = Vec::new();
    let mut server = Command::new(program);
    let server = interop::start(server.arg("127.0.0.1:0"), "events", &mut addresses)?;
    let (_, stream) = addresses.pop().ok_or("http_events printed no address")?;
    check(root, &folder, &stream, 3, "dashboard.png")?;
    drop(server);

    let traffic = root.join("xtask/dashboard/traffic.mjs");
    let gateway = interop::dashboard_gateway(root, &folder, &traffic)?;
    check(root, &folder, &gateway.stream, 0, "gateway.png")
}

/// Opens the page with a stream, in which three commands and `pools` pools are expected.
fn check(root: &Path, folder: &Path, stream: &str, pools: u32, picture: &str) -> step::Result {
    let mut check = browser::check(root, "dashboard", folder, LIMIT);
    check
        .arg(stream)
        .arg(folder.join(picture))
        .arg(pools.to_string());
    step::run(&mut check)
}
