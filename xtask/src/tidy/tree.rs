//! The text files of the workspace, read once and shared by all checks.

use std::io;
use std::path::Path;

use super::lexer::{self, Token};

/// What holds no text of ours; in a second work tree `.git` is a file.
const SKIPPED: [&str; 2] = [".git", "target"];

/// Every text file of the workspace.
#[derive(Debug)]
pub struct Tree {
    /// In order of path.
    files: Vec<File>,
}

/// One text file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// Empty unless this is Rust.
    pub(super) tokens: Vec<Token>,
}

impl Tree {
    /// Reads every UTF-8 file below `root`, build output and history left out.
    ///
    /// # Errors
    ///
    /// When a folder or file cannot be read.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut files = Vec::new();
        visit(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// Makes a tree of files that exist only in memory.
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

    /// The Rust files below a folder, given with its trailing slash.
    pub(super) fn rust_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a File> {
        self.rust()
            .filter(move |file| file.path.starts_with(folder))
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files().find(|file| file.path == path)
    }

    /// Says whether `path` is a file or a folder with a file in it.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files()
            .any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The manifests of the crates, each with the name of its folder.
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

    /// Says whether the whole file is test code, by its name.
    pub(super) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// The lines with their numbers, counted from one.
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
            // What is not UTF-8 is not text.
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
