//! The text files of the workspace, read once and shared by all checks.

use std::io;
use std::path::Path;

use super::lexer::{self, Token};

/// Files and folders to skip; in a linked worktree `.git` is a file.
const SKIPPED: [&str; 2] = [".git", "target"];

/// Every text file of the workspace.
#[derive(Debug)]
pub struct Tree {
    /// The files, sorted by path.
    files: Vec<File>,
}

/// One text file.
#[derive(Debug)]
pub(super) struct File {
    /// The path relative to the root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// The tokens; empty unless this is a Rust file.
    pub(super) tokens: Vec<Token>,
}

impl Tree {
    /// Reads every UTF-8 file below `root`, without build output and history.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder or file cannot be read.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut files = Vec::new();
        visit(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// Creates a tree of in-memory files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| File::new(path.to_string(), text.to_string()))
            .collect();
        Tree { files }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files().filter(|file| file.path.ends_with(".rs"))
    }

    /// Returns the Rust files below a folder, which is given with its trailing slash.
    pub(super) fn rust_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a File> {
        self.rust()
            .filter(move |file| file.path.starts_with(folder))
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files().find(|file| file.path == path)
    }

    /// Returns `true` if `path` is a file, or a folder that contains a file.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files()
            .any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// Returns the manifests of the crates, each with the name of its folder.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files().filter_map(|file| {
            let name = file
                .path
                .strip_prefix("crates/")?
                .strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some((name, file))
        })
    }
}

impl File {
    fn new(path: String, text: String) -> File {
        let tokens = match path.ends_with(".rs") {
            true => lexer::lex(&text),
            false => Vec::new(),
        };
        File { path, text, tokens }
    }

    /// Returns `true` if the whole file is test code, judged by its path.
    pub(super) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// Returns the lines with their numbers, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

fn visit(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            visit(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            // A file that is not UTF-8 is not text.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                files.push(File::new(path, text));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_those_directly_below_crates() {
        let tree = Tree::of(&[
            ("bench/Cargo.toml", ""),
            ("crates/tidegate-core/Cargo.toml", ""),
            ("crates/tidegate-core/fuzz/Cargo.toml", ""),
        ]);
        let names: Vec<&str> = tree.manifests().map(|(name, _)| name).collect();
        assert_eq!(names, ["tidegate-core"]);
    }

    #[test]
    fn a_folder_exists_when_a_file_is_in_it() {
        let tree = Tree::of(&[("crates/tidegate-core/src/lib.rs", "")]);
        assert!(tree.has("crates/tidegate-core"));
        assert!(tree.has("crates/tidegate-core/src/"));
        assert!(!tree.has("crates/tidegate"));
    }

    #[test]
    fn test_files_are_known_by_name() {
        let is_test = |path: &str| File::new(path.to_string(), String::new()).is_test();
        assert!(is_test("crates/a/tests/it/main.rs"));
        assert!(is_test("crates/a/src/wheel/tests.rs"));
        assert!(!is_test("crates/a/src/testing.rs"));
    }
}
