//! Checks the certificates that a configuration names: they exist, are valid and fit their keys. Also
//! the other files and folders that a start needs.

use std::path::Path;
use std::time::SystemTime;

use crate::admin::check_access;
use crate::config::{Config, Disk, Mistake, Mistakes, Source, Sources, Span};
use crate::tls::{Certificates, Trust};

/// Returns the mistakes of all certificates, each at its place in the configuration.
pub(crate) fn certificate_mistakes(config: &Config, now: SystemTime) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut add = |(path, section): (String, Span), why: String, expected: &str| {
        let at = place_of(config, &path).unwrap_or(section);
        mistakes.push(Mistake::new(at, path, why).expected(expected));
    };
    for listener in &config.listeners {
        let pairs = listener.value.tls.iter().flat_map(|tls| &tls.certificates);
        for (index, pair) in pairs.enumerate() {
            if let Err(why) = Certificates::check(pair, now) {
                let path = format!("listen.{}.tls.certificates[{index}].cert", listener.name);
                let expected = "a certificate that is valid now, and its key";
                add((path, listener.at), why, expected);
            }
        }
    }
    for upstream in &config.upstreams {
        let Some(tls) = &upstream.value.tls else {
            continue;
        };
        if let Err(wrong) = Trust::read(tls, None, now) {
            let setting = wrong.setting.map(|setting| format!(".{setting}"));
            let path = format!(
                "upstream.{}.tls{}",
                upstream.name,
                setting.unwrap_or_default()
            );
            let expected = match wrong.setting {
                Some("roots") => "roots that can be read",
                _ => "a certificate that is valid now, and its key",
            };
            add((path, upstream.at), wrong.why, expected);
        }
    }
    mistakes
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

/// Returns the mistakes about files and folders that a start needs: tokens, the folder of the log, the
/// folders of routes.
pub(crate) fn file_mistakes(config: &Config, disk: &dyn Disk) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut add = |path: &str, section: Option<Span>, why: String, expected: &str| {
        if let Some(at) = place_of(config, path).or(section) {
            mistakes.push(Mistake::new(at, path, why).expected(expected));
        }
    };
    let missing = |folder: &Path| {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let found = disk.list(folder);
        // One that cannot be listed can be used all the same.
        found.is_err_and(|why| matches!(why.kind(), NotFound | NotADirectory))
    };
    if let Some(admin) = &config.admin
        && let Err(why) = check_access(&admin.value, disk)
    {
        let (path, why) = why.split_once(": ").unwrap_or(("listen.admin", &why));
        let expected = "a file with a token, or a variable";
        add(path, Some(admin.at), why.to_owned(), expected);
    }
    if let Some(folder) = config.log.file.as_deref().and_then(Path::parent)
        && missing(folder)
    {
        let why = "the folder of the file does not exist";
        add(
            "log.file",
            None,
            why.to_owned(),
            "a file in a folder that exists",
        );
    }
    for route in &config.routes {
        if let Some(files) = &route.value.files
            && missing(&files.root)
        {
            let path = format!("route.{}.files.root", route.name);
            let why = "the directory does not exist".to_owned();
            add(&path, Some(route.at), why, "a directory that exists");
        }
    }
    mistakes
}

/// Returns where a setting is in the configuration.
pub(super) fn place_of(config: &Config, path: &str) -> Option<Span> {
    let origin = config.origins.iter().find(|origin| origin.path == path)?;
    match origin.source {
        Source::Own(at) | Source::Inherited(at) => Some(at),
        _ => None,
    }
}
