//! Our gateway with one route, on one loop: as the program `tidegate run`, and within this process.
//!
//! The comparisons run the program, with all that it has beside its loop. Instructions are counted
//! within this process.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tidegate_gateway::config::{Disk, load};
use tidegate_gateway::serve::Gateway;
use tidegate_isolate::Isolation;

use super::built;
use super::process::{Process, free_address};
use crate::served::{Ours, Running};

/// The command of the route: a limit, a breaker that also judges slow requests, a timeout.
const GUARDED: &str = "limit = 1000\ntimeout = \"30s\"\n\
    breaker = { error_rate = 50, volume = 20, window = \"10s\", slow = \"5s\", slow_rate = 80 }\n";
/// Everything of it off that can be: the permits and the metrics stay.
const BARE: &str = "limit = 100000\ntimeout = false\nbreaker = false\n";

/// Starts the program on the first CPU, which gives it one loop. `folder` is for its file, `certificate`
/// the folder of its certificate.
pub(super) fn program(
    (kind, upstream): (&str, SocketAddr),
    certificate: Option<&Path>,
    folder: &Path,
) -> Result<Process, String> {
    let address = free_address();
    let command = command(kind).ok_or("there is no such command")?;
    let text = text(address, upstream, command, certificate);
    let file = folder.join(format!("ours-{kind}.toml"));
    std::fs::write(&file, text).map_err(|why| why.to_string())?;
    let mut program = Command::new(tidegate()?);
    Process::peer(program.arg("run").arg(file), address)
}

/// Returns the program, as users build it, after it was built once more.
fn tidegate() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let target = built::target()?;
        eprintln!("  builds tidegate, unless it is built");
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        built::build(&own.join("../crates/tidegate-gateway/Cargo.toml"), &target)?;
        Ok(target.join("release/tidegate"))
    };
    BUILT.get_or_init(build).clone()
}

/// Returns the settings of the command with this name.
fn command(kind: &str) -> Option<&'static str> {
    match kind {
        "guarded" => Some(GUARDED),
        "bare" => Some(BARE),
        _ => None,
    }
}

/// Returns the configuration. There is no access log, as for the peers.
fn text(
    address: SocketAddr,
    upstream: SocketAddr,
    command: &str,
    certificate: Option<&Path>,
) -> String {
    let tls = certificate.map(|folder| {
        let folder = folder.display();
        format!(
            "tls = {{ certificates = [{{ cert = \"{folder}/own.pem\", key = \"{folder}/own.key\" }}] }}\n"
        )
    });
    let tls = tls.unwrap_or_default();
    format!(
        "[listen.http]\nat = \"{address}\"\n{tls}[upstream.back]\nservers = [\"{upstream}\"]\n\
         [route.all]\nupstream = \"back\"\n{command}[log]\nfile = \"/dev/null\"\nsuccess = 0\n"
    )
}

/// Starts the gateway within this process, from `UPSTREAM guarded|bare`.
pub(super) fn start(what: &str) -> Option<Running> {
    let (upstream, kind) = what.split_once(' ')?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let text = text(any, upstream.parse().ok()?, command(kind)?, None);
    let loaded = load(Path::new("/tidegate.toml"), &OneFile(text), &|_| None).ok()?;
    let mistakes = loaded.mistakes.render(&loaded.sources);
    let config = loaded.config.unwrap_or_else(|| panic!("{mistakes}"));
    let group = tidegate_net::pinned("gateway", 1).expect("a poller");
    let isolation = Isolation::builder().build().expect("valid settings");
    let gateway = Gateway::start(config, &group, &isolation).expect("a free port");
    let address = gateway.addresses().first()?.1.parse().ok()?;
    // It serves until the process ends.
    std::mem::forget((gateway, isolation));
    Some(Running::ours(address, Ours::Pinned(group)))
}

/// The configuration.
struct OneFile(String);

impl Disk for OneFile {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.clone())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}
