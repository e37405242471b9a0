//! Files and variables in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tidegate_gateway::cli::{self, Machine};
use tidegate_gateway::config::Disk;

/// Files in memory.
#[derive(Debug, Default)]
struct Files(BTreeMap<PathBuf, String>);

impl Disk for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let found = self.0.get(&resolved(path)).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        if directory.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let directory = resolved(directory);
        let inside = self.0.keys();
        let inside = inside.filter(|path| path.parent() == Some(directory.as_path()));
        let names = inside.filter_map(|path| path.file_name());
        Ok(names
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }
}

/// Follows `..`, as a disk without links does.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

/// Returns a machine with these files. The variable `TOKEN` is `marker`, `PORT` is `8081`.
pub(crate) fn machine(files: &[(&str, &str)]) -> Machine {
    let files = files
        .iter()
        .map(|(path, text)| (path.into(), text.to_string()));
    Machine {
        disk: Arc::new(Files(files.collect())),
        variables: Arc::new(|name| match name {
            "TOKEN" => Some("marker".to_owned()),
            "PORT" => Some("8081".to_owned()),
            _ => None,
        }),
    }
}

/// Runs `tidegate` with these files and returns its output and status.
pub(crate) fn run(files: &[(&str, &str)], arguments: &[&str]) -> (String, u8) {
    let mut out = Vec::new();
    let arguments = ["tidegate"].iter().chain(arguments);
    let status = cli::status(arguments, &machine(files), &mut out);
    (String::from_utf8(out).unwrap(), status)
}

/// Checks `t.toml` with this text.
pub(crate) fn check(text: &str) -> (String, u8) {
    run(&[("t.toml", text)], &["check", "t.toml"])
}

/// Returns the cases of a text, which has an empty line between them: lines of a file, and what its check
/// says, each part after `> `.
pub(crate) fn cases(text: &str) -> Vec<(String, Vec<&str>)> {
    let cases = text.trim_matches('\n').split("\n\n").map(|case| {
        let (said, lines): (Vec<&str>, Vec<&str>) =
            case.lines().partition(|line| line.starts_with("> "));
        let said = said.into_iter().map(|part| &part[2..]).collect();
        (lines.join("\n") + "\n", said)
    });
    cases.collect()
}

/// Checks each of the [`cases`], with its lines after `before`. Each is an error.
pub(crate) fn compare(before: &str, text: &str) {
    for (lines, said) in cases(text) {
        fails(&format!("{before}{lines}"), said);
    }
}

/// Asserts that this text is an error, and that its check says these parts. Returns what it says.
#[track_caller]
pub(crate) fn fails<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) -> String {
    says(text, check(text), 1, parts)
}

/// Asserts that a run has this status, and says these parts. `case` names it. Returns its output.
#[track_caller]
pub(crate) fn says<P: AsRef<str>>(
    case: &str,
    (output, found): (String, u8),
    status: u8,
    parts: impl IntoIterator<Item = P>,
) -> String {
    for part in parts {
        let part = part.as_ref();
        assert!(
            output.contains(part),
            "{case}\n`{part}` is missing in:\n{output}"
        );
    }
    assert_eq!(found, status, "{case}\n{output}");
    output
}
