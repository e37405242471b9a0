//! Checks the files that a configuration names. Certificates exist, are valid and fit their keys; so do
//! roots, tokens, the file of the log, Unix sockets and the folders of routes, as far as a start needs them.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use crate::admin::Tokens;
use crate::config::{
    Address, Config, Disk, Loaded, Mistake, Mistakes, Places, Severity, Sources, Span,
};
use crate::tls::TlsFiles;

/// What a certificate and its key are expected to be.
const PAIR: &str = "a certificate that is valid now, and its key";
/// The errors of the system when there are no more descriptors.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
/// What the path of a Unix socket is expected to be.
const SHORT: &str = "a short path, such as `unix:/run/a.sock`";
/// What roots are expected to be.
const ROOTS: &str = "roots that can be read";

/// Returns the mistakes of all files that a configuration names, each at its place in it. `tls` has those of
/// TLS.
pub(super) fn start_mistakes(config: &Config, tls: &TlsFiles, disk: &dyn Disk) -> Vec<Mistake> {
    found(config, BTreeSet::new(), tls, disk)
}

/// Adds the mistakes of the files that a configuration names, also if it has others: those of the parts
/// that have none.
pub(crate) fn add_start_mistakes(loaded: &mut Loaded, disk: &dyn Disk, now: SystemTime) {
    let Some(config) = loaded.config.as_ref().or(loaded.readable.as_ref()) else {
        return;
    };
    let all = loaded.mistakes.in_order();
    let errors = all.iter().filter(|m| m.severity == Severity::Error);
    let paths = errors.map(|mistake| mistake.path.clone());
    let wrong: BTreeSet<String> = paths.chain(loaded.wrong.iter().cloned()).collect();
    // A line with a mistake of syntax is not what it was meant to be.
    let line = |at: Span| (loaded.sources.line(at), at.file());
    let syntax = all.iter().filter(|mistake| mistake.path.is_empty());
    let broken: HashSet<_> = syntax.map(|mistake| line(mistake.at)).collect();
    let tls = TlsFiles::read(config, |_| None, now);
    let mut more = found(config, wrong, &tls, disk);
    more.retain(|mistake| !broken.contains(&line(mistake.at)));
    more.into_iter()
        .for_each(|mistake| loaded.mistakes.add(mistake));
}

/// Returns the mistakes of the files. Parts of which a setting is in `wrong` are left out.
fn found(
    config: &Config,
    wrong: BTreeSet<String>,
    tls: &TlsFiles,
    disk: &dyn Disk,
) -> Vec<Mistake> {
    let mut found = Found {
        config,
        places: Places::new(&config.origins, wrong),
        disk,
        mistakes: Vec::new(),
    };
    found.listeners(tls);
    found.upstreams(tls);
    found.tokens();
    found.log();
    found.sockets();
    found.servers();
    found.folders();
    found.mistakes
}

/// Returns the messages of `mistakes` as `check` has them, or `otherwise` if there are none.
pub(super) fn messages(mistakes: Vec<Mistake>, sources: &Sources, otherwise: String) -> String {
    if mistakes.is_empty() {
        return otherwise;
    }
    let mut all = Mistakes::default();
    mistakes.into_iter().for_each(|mistake| all.add(mistake));
    all.render(sources)
}

/// The mistakes so far.
struct Found<'a> {
    config: &'a Config,
    places: Places<'a>,
    disk: &'a dyn Disk,
    mistakes: Vec<Mistake>,
}

impl Found<'_> {
    /// Adds a mistake at the place of a setting, or of its section.
    fn add(&mut self, path: &str, section: Option<Span>, why: impl Into<String>, expected: &str) {
        if self.places.is_wrong(path) {
            return;
        }
        if let Some(at) = self.places.at(path).or(section) {
            let mistake = Mistake::new(at, path, why);
            self.mistakes.push(mistake.expected(expected));
        }
    }

    /// The certificates of listeners, and the roots of those of clients.
    fn listeners(&mut self, tls: &TlsFiles) {
        let config = self.config;
        for listener in &config.listeners {
            let own = listener.value.tls.as_ref();
            let has_roots = own.is_some_and(|tls| tls.client_roots.is_some());
            let read = tls.listeners.get(&listener.name);
            for wrong in read
                .and_then(|read| read.as_ref().err())
                .into_iter()
                .flatten()
            {
                let setting = wrong.setting.as_deref().unwrap_or_default();
                let (part, expected) = match setting.rsplit_once('.') {
                    Some((pair, "key")) => (pair, "the private key of the certificate, in PEM"),
                    Some((pair, _)) => (pair, PAIR),
                    None if has_roots => (setting, ROOTS),
                    None => continue,
                };
                let path = format!("listen.{}.tls", listener.name);
                if !self.places.is_wrong(&format!("{path}.{part}")) {
                    let path = format!("{path}.{setting}");
                    self.add(&path, Some(listener.at), &*wrong.why, expected);
                }
            }
        }
    }

    /// The certificates and roots towards servers.
    fn upstreams(&mut self, tls: &TlsFiles) {
        let config = self.config;
        for upstream in &config.upstreams {
            let path = format!("upstream.{}.tls", upstream.name);
            // They belong together: one that is wrong says nothing about the others.
            if !self.places.is_wrong(&path)
                && let Some(Err(wrong)) = tls.upstreams.get(&upstream.name)
            {
                let (path, expected) = match wrong.setting.as_deref() {
                    Some("roots") => (format!("{path}.roots"), ROOTS),
                    Some(setting) => (format!("{path}.{setting}"), PAIR),
                    None => (path, PAIR),
                };
                self.add(&path, Some(upstream.at), &*wrong.why, expected);
            }
        }
    }

    /// The tokens of operators.
    fn tokens(&mut self) {
        let Some(admin) = &self.config.admin else {
            return;
        };
        for why in Tokens::mistakes(&admin.value, self.disk) {
            let (path, why) = why.split_once(": ").unwrap_or(("listen.admin", &why));
            let expected = "a file with a token, or a variable";
            self.add(path, Some(admin.at), why, expected);
        }
    }

    /// The file of the access log. It is not opened: that would make it.
    fn log(&mut self) {
        let Some(file) = &self.config.log.file else {
            return;
        };
        let expected = "a file in a folder that exists";
        let names_folder = file.as_os_str().as_encoded_bytes().ends_with(b"/");
        match fs::metadata(file) {
            Ok(found) if found.is_dir() => {
                self.add("log.file", None, "it is a directory", expected)
            }
            _ if names_folder => {
                let why = "a path that ends with `/` is that of a directory";
                self.add("log.file", None, why, expected);
            }
            Err(why) if is_final(&why) => {
                let why = format!("it cannot be opened: {why}");
                self.add("log.file", None, why, expected);
            }
            _ => {
                if let Some(why) = file.parent().and_then(|folder| self.problem(folder)) {
                    let why = format!("the folder of the file {why}");
                    self.add("log.file", None, why, expected);
                }
            }
        }
    }

    /// The paths of Unix sockets that listen.
    fn sockets(&mut self) {
        let config = self.config;
        let listeners = config
            .listeners
            .iter()
            .map(|l| (&l.name, l.at, &l.value.at));
        let admin = config.admin.iter().map(|a| (&a.name, a.at, &a.value.at));
        for (name, section, at) in listeners.chain(admin) {
            let Address::Unix(path) = at else { continue };
            let setting = format!("listen.{name}.at");
            let folder = path.parent().and_then(|folder| self.problem(folder));
            let found = fs::symlink_metadata(path);
            let (why, expected) = if let Some(why) = no_socket(path) {
                (why, SHORT)
            } else if let Some(why) = folder {
                let why = format!("the folder of the socket {why}");
                (why, "a path in a folder that exists")
            } else if found.is_ok_and(|found| !found.file_type().is_socket()) {
                let why = "something else than a socket is there".to_owned();
                (why, "a path at which nothing is, or a socket")
            } else {
                continue;
            };
            self.add(&setting, Some(section), why, expected);
        }
    }

    /// The paths of Unix sockets of servers. Their folders may come later.
    fn servers(&mut self) {
        let config = self.config;
        for upstream in &config.upstreams {
            for (index, server) in upstream.value.servers.iter().enumerate() {
                if let Address::Unix(path) = &server.at
                    && let Some(why) = no_socket(path)
                {
                    let setting = format!("upstream.{}.servers[{index}].at", upstream.name);
                    self.add(&setting, Some(upstream.at), why, SHORT);
                }
            }
        }
    }

    /// The directories of files.
    fn folders(&mut self) {
        for route in &self.config.routes {
            if let Some(files) = &route.value.files
                && let Some(why) = self.problem(&files.root)
            {
                let path = format!("route.{}.files.root", route.name);
                let why = format!("the directory {why}");
                self.add(&path, Some(route.at), why, "a directory that exists");
            }
        }
    }

    /// Returns why a folder cannot be used, as the end of a sentence.
    fn problem(&self, folder: &Path) -> Option<String> {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        // Its names are not read: there may be many.
        let why = fs::read_dir(folder).err()?;
        match why.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Some("does not exist".to_owned()),
            _ => is_final(&why).then(|| format!("cannot be opened: {why}")),
        }
    }
}

/// Returns why no socket can have a path.
fn no_socket(path: &Path) -> Option<String> {
    let why = SocketAddr::from_pathname(path).err()?;
    Some(format!("no socket can have this path: {why}"))
}

/// Returns `true` if a path with this error cannot be opened. One that does not exist can be made, and
/// one that may not be looked at can be used all the same. A lack of descriptors says nothing about it.
fn is_final(why: &io::Error) -> bool {
    use ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let is_open = matches!(why.kind(), NotFound | NotADirectory | PermissionDenied);
    !is_open && !matches!(why.raw_os_error(), Some(ENFILE | EMFILE))
}
