//! Our gateway with one route, on one loop.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tidegate_gateway::config::{Disk, load};
use tidegate_gateway::serve::Gateway;
use tidegate_isolate::Isolation;

use crate::served::{Ours, Running};

/// The command of the route: a limit, a breaker that also judges slow requests, a timeout.
const GUARDED: &str = "limit = 1000\ntimeout = \"30s\"\n\
    breaker = { error_rate = 50, volume = 20, window = \"10s\", slow = \"5s\", slow_rate = 80 }\n";
/// Everything of it off that can be: the permits and the metrics stay.
const BARE: &str = "limit = 100000\ntimeout = false\nbreaker = false\n";

/// Starts the gateway from `UPSTREAM guarded|bare [FOLDER OF THE CERTIFICATE]`.
pub(super) fn start(what: &str) -> Option<Running> {
    let mut words = what.splitn(3, ' ');
    let upstream: SocketAddr = words.next()?.parse().ok()?;
    let command = match words.next()? {
        "guarded" => GUARDED,
        "bare" => BARE,
        _ => return None,
    };
    let tls = match words.next().filter(|folder| !folder.is_empty()) {
        None => String::new(),
        Some(folder) => format!(
            "tls = {{ certificates = [{{ cert = \"{folder}/own.pem\", key = \"{folder}/own.key\" }}] }}\n"
        ),
    };
    let text = format!(
        "[listen.http]\nat = \"127.0.0.1:0\"\n{tls}[upstream.back]\nservers = [\"{upstream}\"]\n\
         [route.all]\nupstream = \"back\"\n{command}[log]\nfile = \"/dev/null\"\nsuccess = 0\n\
         [reload]\nwatch = false\n"
    );
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
