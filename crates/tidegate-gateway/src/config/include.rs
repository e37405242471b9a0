//! Reads a file and the files that it includes into one tree.
//!
//! `include = "routes/*.toml"` adds files. A path is relative to the file that names it; `*` in
//! the last part stands for any text. The tables of all files are joined; a key that two files
//! have is a mistake, which names both places. So is a file that is included twice: each is read once.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use super::mistake::{Mistake, Mistakes};
use super::source::{Sources, Span};
use super::tree::{Entry, Node, Value, Variables, parse};

/// The deepest nesting of includes.
const DEEPEST: usize = 16;

/// The largest file.
const LARGEST: u64 = 16 << 20;

/// The depth of tables that files share: `route.NAME` is defined in one file.
const SHARED: usize = 2;

/// Where files come from: the disk, or a test.
pub trait Disk: Send + Sync {
    /// Returns the text of a file.
    ///
    /// # Errors
    ///
    /// The error of the system.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Returns the bytes of a file, which may be no text.
    ///
    /// # Errors
    ///
    /// The error of the system.
    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }

    /// Returns the path of a file by which it is known, however it is written.
    fn real(&self, path: &Path) -> PathBuf {
        plain(path)
    }

    /// Returns the names of the files in a directory; without it, there are none.
    ///
    /// # Errors
    ///
    /// The error of the system.
    fn list(&self, _directory: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The files of the machine.
#[derive(Clone, Copy, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = self.bytes(path)?;
        String::from_utf8(bytes).map_err(|why| {
            let (text, rest) = why.as_bytes().split_at(why.utf8_error().valid_up_to());
            let text = String::from_utf8_lossy(text);
            let line = text.matches('\n').count() + 1;
            let column = text.chars().rev().take_while(|c| *c != '\n').count() + 1;
            let byte = rest.first().copied().unwrap_or_default();
            let what = format!("line {line}, column {column}: the byte {byte:#04x} is not UTF-8");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        contents(path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| plain(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }
}

/// Returns `true` for a pipe of a shell, which passes it by descriptor. Its contents can be read once.
pub(crate) fn is_passed(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd")
}

/// Returns the bytes of a regular file, or of a pipe of a shell. Others may have no end, or wait for a
/// writer.
pub(crate) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    if !is_passed(path) && !std::fs::metadata(path)?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(invalid("it is larger than 16 MiB")),
        false => Ok(bytes),
    }
}

/// Reads files into one tree.
pub(super) struct Includes<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) variables: Variables<'a>,
    pub(super) sources: &'a mut Sources,
    pub(super) mistakes: &'a mut Mistakes,
    /// The files that are being read, the outermost first.
    open: Vec<PathBuf>,
    /// The files that were included, and where. Each is read once.
    included: BTreeMap<PathBuf, Span>,
}

impl<'a> Includes<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        variables: Variables<'a>,
        sources: &'a mut Sources,
        mistakes: &'a mut Mistakes,
    ) -> Self {
        Self {
            disk,
            variables,
            sources,
            mistakes,
            open: Vec::new(),
            included: BTreeMap::new(),
        }
    }

    /// Reads a file and all files that it includes.
    ///
    /// # Errors
    ///
    /// The file cannot be read. Mistakes in it are added to the mistakes.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<Node> {
        let bytes = self.disk.bytes(path)?;
        let (file, bad) = self.sources.add_bytes(path.display().to_string(), bytes);
        if let Some((byte, at)) = bad {
            let what = format!("the byte {byte:#04x} is not UTF-8");
            let mistake = Mistake::new(at, "", what);
            self.mistakes.add(mistake.expected("a text in UTF-8"));
        }
        let mut root = parse(file, self.sources, self.variables, self.mistakes);
        let Value::Table(entries) = &mut root.value else {
            return Ok(root);
        };
        let at = entries.iter().position(|entry| entry.key == "include");
        let Some(include) = at.map(|at| entries.remove(at)) else {
            return Ok(root);
        };
        self.open.push(self.disk.real(path));
        for (pattern, at) in self.patterns(&include) {
            let mut twice = false;
            for found in self.files(path, &pattern, at) {
                self.join(&mut root, &found, at, &mut twice);
            }
        }
        self.open.pop();
        Ok(root)
    }

    /// Returns the paths that an `include` names.
    fn patterns(&mut self, include: &Entry) -> Vec<(String, Span)> {
        let nodes = match &include.node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&include.node),
        };
        let mut patterns = Vec::new();
        for node in nodes {
            match &node.value {
                Value::Text(text) if node.written.is_none() => {
                    patterns.push((text.clone(), node.at));
                }
                _ => {
                    // The names of files are printed, the values of variables are not.
                    let what = format!("{} is not a path without variables", node.shown());
                    let mistake = Mistake::new(node.at, "include", what);
                    let expected =
                        "a path in quotes, such as `\"routes/*.toml\"`; or a list of them";
                    self.mistakes.add(mistake.expected(expected));
                }
            }
        }
        patterns
    }

    /// Returns the files of a pattern, in the order of their names.
    fn files(&mut self, from: &Path, pattern: &str, at: Span) -> Vec<PathBuf> {
        let path = from.parent().unwrap_or(Path::new("")).join(pattern);
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let Some((before, after)) = name.as_deref().and_then(|name| name.split_once('*')) else {
            return vec![path];
        };
        // A bare name has an empty parent, which no system can list.
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        self.sources.add_folder(directory);
        let names = match self.disk.list(directory) {
            Ok(names) => names,
            Err(error) => {
                let what = format!("the directory cannot be read: {error}");
                self.mistakes.add(Mistake::new(at, "include", what));
                return Vec::new();
            }
        };
        let fits = |name: &String| {
            let inner = name
                .strip_prefix(before)
                .and_then(|n| n.strip_suffix(after));
            inner.is_some() && !name.starts_with('.')
        };
        let mut files: Vec<PathBuf> = names
            .iter()
            .filter(|name| fits(name))
            .map(|name| path.with_file_name(name))
            .collect();
        files.sort();
        if files.is_empty() {
            let what = "no file has such a name";
            let mistake = Mistake::new(at, "include", what);
            self.mistakes.add(mistake.warning());
        }
        files
    }

    /// Reads an included file and joins it with the tree. A pattern may have many files that were read
    /// already: `twice` is set by the first one, which is reported.
    fn join(&mut self, root: &mut Node, path: &Path, at: Span, twice: &mut bool) {
        let real = self.disk.real(path);
        let problem = match self.included.get(&real) {
            _ if self.open.contains(&real) => Some("the file includes itself".to_owned()),
            Some(first) => {
                if !std::mem::replace(twice, true) {
                    let what = format!("`{}` is included already", path.display());
                    let mistake = Mistake::new(at, "include", what);
                    self.mistakes.add(mistake.related(*first, "the first time"));
                }
                return;
            }
            None if self.open.len() >= DEEPEST => Some("the includes are too deep".to_owned()),
            None => None,
        };
        let read = match problem {
            Some(what) => Err(what),
            None => {
                self.included.insert(real, at);
                self.read(path)
                    .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))
            }
        };
        match read {
            Ok(node) => join(root, node, "", SHARED, self.mistakes),
            Err(what) => self.mistakes.add(Mistake::new(at, "include", what)),
        }
    }
}

/// Returns a path without `.` and without `..` behind a name, so that two ways of writing the same
/// path are equal.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Joins a tree with another one. Tables are joined down to `depth`.
fn join(into: &mut Node, from: Node, path: &str, depth: usize, mistakes: &mut Mistakes) {
    let (Value::Table(entries), Value::Table(added)) = (&mut into.value, from.value) else {
        return;
    };
    let names = entries.iter().enumerate();
    let mut known: HashMap<String, usize> = names.map(|(at, e)| (e.key.clone(), at)).collect();
    for new in added {
        let path = match path {
            "" => new.key.clone(),
            path => format!("{path}.{}", new.key),
        };
        let Some(old) = known.get(&new.key).map(|at| &mut entries[*at]) else {
            known.insert(new.key.clone(), entries.len());
            entries.push(new);
            continue;
        };
        let are_tables = old.node.table().is_some() && new.node.table().is_some();
        match are_tables && depth > 1 {
            true => join(&mut old.node, new.node, &path, depth - 1, mistakes),
            false => mistakes.add(
                Mistake::new(new.key_at, path, "the key is defined twice")
                    .related(old.key_at, "the other definition"),
            ),
        }
    }
}
