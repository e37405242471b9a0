//! Finds files of a library crate that import each other in a circle.
//!
//! A file depends on the file that defines an item it uses. Paths that begin with `crate`, `self`,
//! `super` or a submodule of the file are followed through re-exports. A `pub use` of an item that
//! the file itself does not use is not a dependency; tests do not count either. A circle is a set
//! of files each of which reaches every other one; none of them can be understood or moved alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lexer::{Kind, Token};
use super::tree::File;
use super::{Finding, Tree, syntax};

/// The maximum number of files in a circle.
const MOST_FILES: usize = 4;

/// Finds the circles that exceed the limit.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, manifest) in tree.manifests() {
        let circles = circles(tree, &format!("crates/{name}/src"));
        for circle in circles.iter().filter(|circle| circle.len() > MOST_FILES) {
            let message = format!(
                "files import each other in a circle; let each know only what is below it: {}",
                circle.join(", ")
            );
            findings.push(Finding::new(&manifest.path, 0, message));
        }
    }
    findings
}

/// Returns the circles of at least two files, each in alphabetical order.
fn circles(tree: &Tree, root: &str) -> Vec<Vec<String>> {
    let graph = Crate::read(tree, root).graph();
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|file| (file.as_str(), reachable(&graph, file)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for file in graph.keys() {
        let back = |other: &&&str| reach[**other].contains(file.as_str());
        let circle: Vec<String> = reach[file.as_str()]
            .iter()
            .filter(back)
            .map(|other| (*other).to_string())
            .collect();
        if circle.len() > 1 && circle.iter().all(|member| seen.insert(member.clone())) {
            found.push(circle);
        }
    }
    found
}

/// Returns the files that `from` depends on, directly or indirectly; `from` itself only if it is in
/// a circle.
fn reachable<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(file) = next.pop() {
        for on in graph.get(file).into_iter().flatten() {
            if found.insert(on.as_str()) {
                next.push(on);
            }
        }
    }
    found
}

/// A path as module segments from the crate root.
type Segments = Vec<String>;

/// The file modules of a crate, by their segments joined with `::`; the root is empty.
struct Crate {
    modules: BTreeMap<String, Module>,
}

#[derive(Default)]
struct Module {
    /// Names imported by `use`, with the full path of each.
    imports: HashMap<String, Segments>,
    /// The paths that the code depends on.
    needs: Vec<Segments>,
}

impl Crate {
    fn read(tree: &Tree, root: &str) -> Self {
        let folder = format!("{root}/");
        let files = tree.rust_below(&folder).filter(|file| !file.is_test());
        let files: BTreeMap<String, &File> = files
            .map(|file| (module_name(&file.path[folder.len()..]), file))
            .collect();
        let names: BTreeSet<String> = files.keys().cloned().collect();
        let modules = files
            .into_iter()
            .map(|(name, file)| {
                let module = Module::read(file, &name, &names);
                (name, module)
            })
            .collect();
        Self { modules }
    }

    /// Returns the dependencies of each module. The crate root is left out: it only lists the
    /// modules.
    fn graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        let edges = self.modules.iter().filter(|(name, _)| !name.is_empty());
        edges
            .map(|(name, module)| {
                let on = module.needs.iter().filter_map(|path| self.defines(path, 0));
                let on = on.filter(|on| !on.is_empty() && on != name);
                (name.clone(), on.collect())
            })
            .collect()
    }

    /// Returns the file that defines the item at `path`, following at most eight re-exports.
    fn defines(&self, path: &[String], depth: usize) -> Option<String> {
        let modules = (0..=path.len()).rev();
        let (name, module, rest) = modules
            .map(|n| (path[..n].join("::"), &path[n..]))
            .find_map(|(name, rest)| Some((name.clone(), self.modules.get(&name)?, rest)))?;
        let import = rest.first().and_then(|first| module.imports.get(first));
        match import {
            Some(from) if depth < 8 && from.as_slice() != path => {
                let full: Segments = from.iter().chain(&rest[1..]).cloned().collect();
                self.defines(&full, depth + 1)
            }
            _ => Some(name),
        }
    }
}

impl Module {
    fn read(file: &File, name: &str, modules: &BTreeSet<String>) -> Self {
        let tests = syntax::test_lines(&file.tokens);
        let is_code = |token: &&Token| {
            token.kind != Kind::Comment && !tests.iter().any(|test| test.contains(&token.line))
        };
        let code: Vec<&Token> = file.tokens.iter().filter(is_code).collect();
        let mut module = Self::default();
        let mut exported = Vec::new();
        let mut words: BTreeSet<&str> = BTreeSet::new();
        let mut at = 0;
        while at < code.len() {
            if code[at].is_word("use") {
                let end = (at..code.len())
                    .find(|&i| code[i].is_mark(';'))
                    .unwrap_or(code.len());
                let is_public =
                    at > 0 && (code[at - 1].is_word("pub") || code[at - 1].is_mark(')'));
                for (path, alias) in leaves(&code[at + 1..end]) {
                    let Some(path) = absolute(&path, name, modules) else {
                        continue;
                    };
                    if is_public {
                        exported.push((alias.clone(), path.clone()));
                    } else {
                        module.needs.push(path.clone());
                    }
                    module.imports.insert(alias, path);
                }
                at = end;
            } else if code[at].is_word("pub") && code.get(at + 1).is_some_and(|t| t.is_mark('(')) {
                // `pub(super)` is a visibility, not a path.
                at = (at..code.len())
                    .find(|&i| code[i].is_mark(')'))
                    .unwrap_or(code.len());
            } else if code[at].kind == Kind::Word {
                let path = path_at(&code[at..]);
                words.extend((0..path.len()).map(|i| code[at + 3 * i].text.as_str()));
                at += 3 * (path.len() - 1);
                module.needs.extend(absolute(&path, name, modules));
            }
            at += 1;
        }
        let used = exported
            .into_iter()
            .filter(|(name, _)| words.contains(name.as_str()));
        module.needs.extend(used.map(|(_, path)| path));
        module
    }
}

/// Returns the module of a file: `channel` for `channel/mod.rs`, `channel::core` for
/// `channel/core.rs`.
fn module_name(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path
        .strip_suffix("mod")
        .map_or(path, |p| p.trim_end_matches('/'));
    match path {
        "lib" | "main" => String::new(),
        path => path.replace('/', "::"),
    }
}

/// Returns the path that begins at the first token, a word: `a::b::c`.
fn path_at(code: &[&Token]) -> Segments {
    let mut path = vec![code[0].text.clone()];
    let mut rest = &code[1..];
    while let [a, b, word, ..] = rest
        && a.is_mark(':')
        && b.is_mark(':')
        && word.kind == Kind::Word
    {
        path.push(word.text.clone());
        rest = &rest[3..];
    }
    path
}

/// Returns the path from the crate root, or `None` if it is not a path of this crate.
fn absolute(path: &[String], module: &str, modules: &BTreeSet<String>) -> Option<Segments> {
    let mut here: Segments = module.split("::").map(String::from).collect();
    here.retain(|part| !part.is_empty());
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => return Some(rest[1..].to_vec()),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                here.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child: Segments = here.iter().cloned().chain([first.to_string()]).collect();
            if path.len() < 2 || !modules.contains(&child.join("::")) {
                return None;
            }
        }
    }
    here.extend(rest.iter().cloned());
    Some(here)
}

/// Returns the leaves of a use tree, each with its imported name.
fn leaves(code: &[&Token]) -> Vec<(Segments, String)> {
    let mut found = Vec::new();
    let mut stack: Vec<Segments> = Vec::new();
    let mut path = Segments::new();
    let mut alias = None;
    let mut at = 0;
    let mut end = |path: &mut Segments, alias: &mut Option<String>| {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last() {
            let name = alias.take().unwrap_or_else(|| last.clone());
            found.push((path.clone(), name));
        }
        path.clear();
    };
    while at < code.len() {
        let token = code[at];
        if token.is_word("as") {
            alias = code.get(at + 1).map(|t| t.text.clone());
            at += 1;
        } else if token.kind == Kind::Word {
            if path.is_empty() {
                path = stack.last().cloned().unwrap_or_default();
            }
            path.push(token.text.clone());
        } else if token.is_mark('{') {
            stack.push(std::mem::take(&mut path));
        } else if token.is_mark(',') {
            end(&mut path, &mut alias);
        } else if token.is_mark('}') {
            end(&mut path, &mut alias);
            stack.pop();
        }
        at += 1;
    }
    end(&mut path, &mut alias);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&Tree::of(files), "crates/a/src")
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let a = ("crates/a/src/a.rs", "use crate::b::B;\nstruct A;");
        let b = ("crates/a/src/b/mod.rs", "struct B; fn f() { crate::a::A; }");
        assert_eq!(found(&[a, b]), [["a", "b"]]);
        assert!(found(&[a, ("crates/a/src/b/mod.rs", "struct B;")]).is_empty());
    }

    #[test]
    fn an_edge_goes_to_the_file_that_defines_the_item() {
        let lib = ("crates/a/src/lib.rs", "pub use self::b::C;");
        let b = (
            "crates/a/src/b/mod.rs",
            "mod c;\npub(crate) use self::c::{C, D as E};\nuse crate::a::A;",
        );
        let c = ("crates/a/src/b/c.rs", "pub struct C; pub struct D;");
        let a = ("crates/a/src/a.rs", "use crate::{C, b::E};");
        assert!(found(&[lib, a, b, c]).is_empty());
        let c = (
            "crates/a/src/b/c.rs",
            "use super::super::a; pub struct C; pub struct D;",
        );
        assert_eq!(found(&[lib, a, b, c]), [["a", "b::c"]]);
    }

    #[test]
    fn an_export_that_the_file_uses_is_a_dependency() {
        let b = ("crates/a/src/b/c.rs", "use super::B; pub struct C;");
        let unused = ("crates/a/src/b/mod.rs", "pub use self::c::C;\nstruct B;");
        let used = ("crates/a/src/b/mod.rs", "pub use self::c::C;\nstruct B(C);");
        assert!(found(&[unused, b]).is_empty());
        assert_eq!(found(&[used, b]), [["b", "b::c"]]);
    }

    #[test]
    fn a_path_that_begins_with_a_module_of_the_file_counts() {
        let c = ("crates/a/src/b/c.rs", "use super::B; pub struct C;");
        for text in ["mod c;\nuse c::C;\nstruct B;", "mod c;\nstruct B(c::C);"] {
            assert_eq!(
                found(&[("crates/a/src/b/mod.rs", text), c]),
                [["b", "b::c"]]
            );
        }
    }

    #[test]
    fn a_visibility_path_is_no_dependency() {
        let b = ("crates/a/src/b/mod.rs", "mod c;\nstruct B(c::C);");
        let c = ("crates/a/src/b/c.rs", "pub(super) struct C;");
        assert!(found(&[b, c]).is_empty());
    }

    #[test]
    fn tests_do_not_count() {
        let a = (
            "crates/a/src/a.rs",
            "#[cfg(all(test, not(loom)))]\nmod tests { use crate::b::B; }",
        );
        let b = ("crates/a/src/b.rs", "use crate::a::A;");
        let tests = ("crates/a/src/a/tests.rs", "use crate::b::B;");
        assert!(found(&[a, b, tests]).is_empty());
    }

    #[test]
    fn a_circle_of_more_than_four_files_is_too_large() {
        let ring = |n: usize| -> Vec<(String, String)> {
            let file = |i: usize| {
                let next = (i + 1) % n;
                (
                    format!("crates/a/src/m{i}.rs"),
                    format!("use crate::m{next}::X;"),
                )
            };
            (0..n).map(file).collect()
        };
        for (files, expected) in [(4, 0), (5, 1)] {
            let ring = ring(files);
            let mut all = vec![("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", "")];
            all.extend(
                ring.iter()
                    .map(|(path, text)| (path.as_str(), text.as_str())),
            );
            let tree = Tree::of(&all);
            assert_eq!(check(&tree).len(), expected);
        }
    }
}
