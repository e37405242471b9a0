//! Counts the public names, and keeps the hidden ones out of everything that users read.
//!
//! A *visible* name is one that the facade, `tidegate`, re-exports, outside of its prelude; those of
//! the module of a protocol, and those of the ready-made handlers, are counted apart. A *hidden* name is one that the module `internal` of
//! a crate re-exports. The counts are lines of the file of sizes.

use std::collections::BTreeSet;

use super::tree::File;
use super::{Finding, Tree, syntax};

/// The root of the facade.
const FACADE: &str = "crates/tidegate/src/lib.rs";

/// The module of a crate that holds its hidden names.
const INTERNAL: &str = "internal";

/// The module of a protocol: only programs that speak it read its names.
const PROTOCOL: &str = "http";

/// The module of the ready-made handlers: a program reads those that it puts into a pipeline.
const HANDLERS: &str = "net::handlers";

/// Folders and files whose code users copy.
const FOR_USERS: [&str; 4] = [
    "README.md",
    "crates/tidegate/tests/",
    "docs/guide/",
    "examples/",
];

/// Checks that no hidden name is used where users read.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let read = |file: &&File| FOR_USERS.iter().any(|place| file.path.starts_with(place));
    tree.files().filter(read).flat_map(unlisted_uses).collect()
}

/// Returns the counts: handlers, hidden, those of the protocol, and visible.
pub(super) fn counts(tree: &Tree) -> [(&'static str, usize); 4] {
    let facade = tree.get(FACADE).map(exports).unwrap_or_default();
    let below = |module: &str| {
        facade
            .iter()
            .filter(|name| name.0.starts_with(module))
            .count()
    };
    let (handlers, protocol) = (below(HANDLERS), below(PROTOCOL));
    let roots = tree
        .rust_below("crates/")
        .filter(|file| file.path.ends_with("/src/lib.rs"));
    let hidden = roots.map(|file| {
        let names = exports(file).into_iter();
        names.filter(|(module, _)| module == INTERNAL).count()
    });
    [
        ("handlers", handlers),
        ("hidden", hidden.sum()),
        ("http", protocol),
        ("visible", facade.len() - handlers - protocol),
    ]
}

/// Returns the names that the `pub use` of a file export, each behind its module.
fn exports(file: &File) -> BTreeSet<(String, String)> {
    let code = syntax::code(&file.tokens);
    let mut found = BTreeSet::new();
    for (at, pair) in code.windows(2).enumerate() {
        if !(pair[0].is_word("pub") && pair[1].is_word("use")) {
            continue;
        }
        let module = syntax::module_at(&code, at);
        let end = code[at..].iter().position(|token| token.is_mark(';'));
        let list = &code[at..at + end.unwrap_or(0) + 1];
        let leaves = list.windows(2).filter(|pair| {
            let ends = [',', '}', ';'].iter().any(|mark| pair[1].is_mark(*mark));
            ends && !pair[0].is_mark('}') && !pair[0].is_mark(',')
        });
        found.extend(leaves.map(|pair| (module.clone(), pair[0].text.clone())));
    }
    found
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

    #[test]
    fn exported_names_count_once_by_module() {
        let facade =
            "#[cfg(a)] pub use x::A; #[cfg(not(a))] pub use y::A; pub use z::{B, c::{D, E as F},};
            pub mod net { pub use x::A; } pub mod http { pub mod codec { pub use x::G; } }";
        let core = "pub use self::a::B; #[doc(hidden)] pub mod internal { pub use c::{D, E}; }";
        let tree = Tree::of(&[(FACADE, facade), ("crates/tidegate-core/src/lib.rs", core)]);
        let expected = [("handlers", 0), ("hidden", 2), ("http", 1), ("visible", 5)];
        assert_eq!(counts(&tree), expected);
    }

    #[test]
    fn what_users_read_names_only_the_facade() {
        let uses = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
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
