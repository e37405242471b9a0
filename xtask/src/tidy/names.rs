//! Counts the public names, and keeps the hidden ones out of everything that users read.
//!
//! A *visible* name is one public item of the facade, `tidegate`: a type, trait, function, constant
//! or module, listed one by one. The contents of `prelude` do not count: they only repeat. The
//! module of a protocol is counted apart: only programs that speak the protocol read its names. A
//! *hidden* name is one item of the module `internal` of a library crate.
//!
//! All counts are lines of the ratchet. The visible names also have fixed limits.

use std::collections::BTreeSet;

use super::items::{self, Item, Used, What};
use super::ratchet::Sizes;
use super::tree::File;
use super::{Finding, Tree};

/// The root of the facade.
pub(super) const FACADE: &str = "crates/tidegate/src/lib.rs";

/// The module of the facade that only repeats names.
const PRELUDE: &str = "prelude";

/// The module of a library crate that holds its hidden names.
const INTERNAL: &str = "internal";

/// The most visible names outside of the modules of protocols.
const LIMIT: usize = 200;

/// The modules of protocols, and the most names in each. HTTP has a codec (25 names), a server (15),
/// and room for a router, static files, a client and the layers for `async`.
const PROTOCOLS: [(&str, usize); 1] = [("http", 65)];

/// Folders and files whose code users copy.
const FOR_USERS: [&str; 4] = [
    "README.md",
    "crates/tidegate/tests/",
    "docs/guide/",
    "examples/",
];

/// Checks the limit, how names are listed, and that no hidden name is used where users read.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (visible, hidden) = (visible(tree), hidden(tree));
    let mut findings = Vec::new();
    for (what, count, limit) in visible.counts() {
        if count > limit {
            let message = format!("{count} names ({what}) are more than {limit}: leave some out");
            findings.push(Finding::new(FACADE, 0, message));
        }
    }
    findings.extend(visible.findings);
    findings.extend(hidden.findings);
    for file in tree.files() {
        if FOR_USERS.iter().any(|place| file.path.starts_with(place)) {
            findings.extend(unlisted_uses(file));
        }
    }
    findings
}

/// Returns the counts as entries of the ratchet.
pub(super) fn counts(tree: &Tree) -> Sizes {
    let hidden = ("hidden", hidden(tree).names.len());
    let visible = visible(tree).counts();
    let counts = visible.map(|(what, count, _)| (what, count));
    let present = counts.chain([hidden]).filter(|(_, count)| *count > 0);
    present
        .map(|(what, count)| (format!("names {what}"), count))
        .collect()
}

/// Returns the line that `cargo xtask tidy` prints.
pub(super) fn summary(tree: &Tree) -> String {
    let visible = visible(tree).counts();
    let visible = visible.map(|(what, count, limit)| format!("{count} {what} (at most {limit})"));
    let visible: Vec<_> = visible.collect();
    let hidden = hidden(tree).names.len();
    format!(
        "names of the facade: {}; {hidden} hidden",
        visible.join(", ")
    )
}

/// The paths that were found, and what is wrong with their lists.
#[derive(Default)]
struct Names {
    names: BTreeSet<String>,
    findings: Vec<Finding>,
}

/// Returns the names that the facade lists.
fn visible(tree: &Tree) -> Names {
    let mut found = Names::default();
    if let Some(file) = tree.get(FACADE) {
        found.add(&items::items(&file.tokens), file, "tidegate");
    }
    found
}

/// Returns the names in the modules `internal` of the library crates.
fn hidden(tree: &Tree) -> Names {
    let mut found = Names::default();
    for (name, _) in tree.manifests() {
        let root = tree.get(&format!("crates/{name}/src/lib.rs"));
        let Some(file) = root.filter(|file| file.path != FACADE) else {
            continue;
        };
        for item in items::items(&file.tokens) {
            match &item.what {
                What::Module(module, Some(inside)) if item.hidden && module == INTERNAL => {
                    found.add(inside, file, &format!("{name}::{INTERNAL}"));
                }
                What::Module(module, _) if item.public && (item.hidden || module == INTERNAL) => {
                    let message = "hidden items belong in `#[doc(hidden)] pub mod internal { … }`";
                    found.refuse(file, &item, message);
                }
                _ => {}
            }
        }
    }
    found
}

impl Names {
    /// Returns what is counted, how many names it has, and how many it may have.
    fn counts(&self) -> impl Iterator<Item = (&'static str, usize, usize)> + use<> {
        let inside = |module: &str| {
            let start = format!("tidegate::{module}::");
            let names = self.names.iter();
            names.filter(|name| name.starts_with(&start)).count()
        };
        let apart = PROTOCOLS.map(|(module, limit)| (module, inside(module), limit));
        let rest = self.names.len() - apart.iter().map(|(_, count, _)| count).sum::<usize>();
        std::iter::once(("visible", rest, LIMIT)).chain(apart)
    }

    /// Adds the public names of a module.
    fn add(&mut self, items: &[Item], file: &File, path: &str) {
        for item in items.iter().filter(|item| item.public) {
            if item.hidden {
                self.refuse(file, item, "an item of a list is not hidden on its own");
            }
            match &item.what {
                What::Named(name) => self.name(path, name),
                What::Module(name, inside) => {
                    self.name(path, name);
                    match inside {
                        _ if name == PRELUDE => {}
                        Some(inside) => self.add(inside, file, &format!("{path}::{name}")),
                        None => self.refuse(file, item, "write the module in this file"),
                    }
                }
                What::Use(leaves) => {
                    for leaf in leaves {
                        match leaf {
                            Used::Name(name) => self.name(path, name),
                            Used::Crate | Used::Glob => {
                                self.refuse(file, item, "list the names one by one");
                            }
                        }
                    }
                }
                What::Other => {}
            }
        }
    }

    fn name(&mut self, path: &str, name: &str) {
        self.names.insert(format!("{path}::{name}"));
    }

    fn refuse(&mut self, file: &File, item: &Item, message: &str) {
        let message = format!("{message}: tidy counts the names");
        self.findings
            .push(Finding::new(&file.path, item.line, message));
    }
}

/// Finds names that the facade does not list: those of the other crates, and hidden ones.
fn unlisted_uses(file: &File) -> Vec<Finding> {
    let is_read = [".rs", ".md"].iter().any(|end| file.path.ends_with(end));
    let lines = file.lines().filter(|_| is_read);
    let found = lines.filter_map(|(line, text)| {
        let message = if words(text).any(|(_, word)| is_crate(word)) {
            "use the facade, `tidegate::…`, so that the code works when it is pasted"
        } else if words(text).any(|(at, word)| word == INTERNAL && is_segment(text, at, word)) {
            "`internal` is unstable: use the names that the facade lists"
        } else {
            return None;
        };
        Some(Finding::new(&file.path, line, message))
    });
    found.collect()
}

/// Returns `true` for the name of a library crate. Names of metrics have more underscores.
fn is_crate(word: &str) -> bool {
    word.strip_prefix("tidegate_")
        .is_some_and(|rest| !rest.contains('_'))
}

/// Returns `true` if the word at `at` is a segment of a path.
fn is_segment(text: &str, at: usize, word: &str) -> bool {
    text[..at].ends_with("::") || text[at + word.len()..].starts_with("::")
}

/// Returns the words of a line with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let parts = text
        .split(move |c| !is_word(c))
        .filter(|part| !part.is_empty());
    parts.map(|part| (part.as_ptr() as usize - text.as_ptr() as usize, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "crates/tidegate-core/src/lib.rs";

    fn tree(facade: &str, core: &str, rest: &[(&str, &str)]) -> Tree {
        let mut files = vec![
            ("crates/tidegate-core/Cargo.toml", ""),
            ("crates/tidegate/Cargo.toml", ""),
            (FACADE, facade),
            (CORE, core),
        ];
        files.extend(rest);
        Tree::of(&files)
    }

    fn count(facade: &str, core: &str) -> (usize, usize) {
        let tree = tree(facade, core, &[]);
        assert_eq!(check(&tree), []);
        (visible(&tree).names.len(), hidden(&tree).names.len())
    }

    fn findings(facade: &str, core: &str, rest: &[(&str, &str)]) -> usize {
        check(&tree(facade, core, rest)).len()
    }

    #[test]
    fn visible_names_are_items_and_modules_outside_of_the_prelude() {
        let facade = "mod error; pub use self::error::Error; pub type Result<T> = X<T>;
            pub mod net { pub use tidegate_net::{Bytes, Server}; pub mod handlers { pub use x::Idle; } }
            pub mod prelude { pub use std::time::Duration; pub use tidegate_net::{Bytes, Server}; }";
        assert_eq!(count(facade, ""), (8, 0));
    }

    #[test]
    fn a_path_counts_once() {
        let facade =
            "#[cfg(a)] pub use x::A; #[cfg(not(a))] pub use y::A; pub mod m { pub use x::A; }";
        assert_eq!(count(facade, ""), (3, 0));
    }

    #[test]
    fn hidden_names_are_those_of_internal() {
        let core =
            "pub use self::a::B; #[doc(hidden)] pub mod internal { pub use crate::c::{D, E}; }";
        assert_eq!(count("", core), (0, 2));
    }

    #[test]
    fn names_that_cannot_be_counted_are_refused() {
        assert_eq!(findings("pub use tidegate_core as core;", "", &[]), 1);
        assert_eq!(findings("pub use tidegate_core::*;", "", &[]), 1);
        assert_eq!(findings("pub mod net;", "", &[]), 1);
        assert_eq!(findings("pub mod prelude;", "", &[]), 0);
        assert_eq!(findings("#[doc(hidden)] pub use x::Y;", "", &[]), 1);
        assert_eq!(findings("", "pub mod internal {}", &[]), 1);
        assert_eq!(findings("", "#[doc(hidden)] pub mod prim;", &[]), 1);
        assert_eq!(findings("", "#[doc(hidden)] mod own;", &[]), 0);
    }

    #[test]
    fn there_is_a_limit() {
        let list = |n: usize| {
            (0..n)
                .map(|i| format!("pub struct S{i};"))
                .collect::<String>()
        };
        assert_eq!(findings(&list(LIMIT), "", &[]), 0);
        assert_eq!(findings(&list(LIMIT + 1), "", &[]), 1);
    }

    #[test]
    fn the_module_of_a_protocol_has_its_own_limit() {
        let (module, limit) = PROTOCOLS[0];
        let facade = |n: usize| {
            let list = (0..n).map(|i| format!("pub struct S{i};"));
            format!("pub mod {module} {{ {} }}", list.collect::<String>())
        };
        assert_eq!(findings(&facade(limit), "", &[]), 0);
        assert_eq!(findings(&facade(limit + 1), "", &[]), 1);
        let counts = counts(&tree(&facade(3), "", &[]));
        let counts: Vec<_> = counts.iter().map(|(what, n)| (&what[..], *n)).collect();
        assert_eq!(counts, [("names http", 3), ("names visible", 1)]);
    }

    #[test]
    fn what_users_read_names_only_the_facade() {
        let uses = |path: &str, text: &str| findings("", "", &[(path, text)]);
        for path in [
            "examples/a.rs",
            "docs/guide/a.md",
            "README.md",
            "crates/tidegate/tests/a.rs",
        ] {
            assert_eq!(
                uses(path, "use tidegate::net::Server; // an internal detail"),
                0
            );
            assert_eq!(uses(path, "use tidegate_net::Server;"), 1);
            assert_eq!(uses(path, "use tidegate_net as net;"), 1);
            assert_eq!(uses(path, "the metric tidegate_loop_busy"), 0);
            assert_eq!(uses(path, "use tidegate::net::internal::Poller;"), 1);
            assert_eq!(uses(path, "use tidegate::net::{internal::Poller};"), 1);
        }
        assert_eq!(
            uses("docs/conformance/a.md", "use tidegate_net::internal;"),
            0
        );
        assert_eq!(uses("examples/Cargo.toml", "tidegate_net::internal"), 0);
    }
}
