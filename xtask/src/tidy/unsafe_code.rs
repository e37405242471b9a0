//! Checks that unsafe code is only in modules with certain names.
//!
//! Every crate root forbids unsafe code, or denies it and has modules of these names that allow it.
//! The path decides, not the crate: each concept keeps its unsafe code next to itself.

use super::lexer::{Kind, Token};
use super::tree::File;
use super::{Finding, Tree};

/// Modules with these names, and their submodules, may contain unsafe code.
const HOMES: [&str; 4] = ["block", "lane", "raw", "sys"];

/// Crates without such modules: the isolation crate, and the crates that depend on it or only serve
/// tests.
const SAFE: [&str; 8] = [
    "tidegate",
    "tidegate-gateway",
    "tidegate-http",
    "tidegate-hyper",
    "tidegate-isolate",
    "tidegate-metrics",
    "tidegate-testkit",
    "tidegate-tower",
];

/// Checks the `unsafe_code` lint of every crate root, and that the code respects it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, _) in tree.manifests() {
        let source = format!("crates/{name}/src/");
        let mut homes = tree.rust_below(&source).filter(|file| is_home(&file.path));
        let lint = if !SAFE.contains(&name) && homes.any(|file| first_unsafe(file).is_some()) {
            "deny"
        } else {
            "forbid"
        };
        for root in roots(tree, name) {
            if !has_inner_attribute(&root.tokens, lint) {
                let message = format!("add `#![{lint}(unsafe_code)]` at the head of the crate");
                findings.push(Finding::new(&root.path, 0, message));
            }
        }
        for file in tree.rust_below(&source).filter(|file| !is_home(&file.path)) {
            if let Some(token) = first_unsafe(file) {
                let message = format!("unsafe code belongs in a module named {}", HOMES.join(", "));
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    findings
}

fn first_unsafe(file: &File) -> Option<&Token> {
    file.tokens.iter().find(|t| t.is_word("unsafe"))
}

/// Returns `true` if a file is, or is below, a module that may contain unsafe code.
fn is_home(path: &str) -> bool {
    let inside = path.split("/src/").nth(1).unwrap_or_default();
    let mut parts = inside.split('/').map(|part| part.trim_end_matches(".rs"));
    parts.any(|part| HOMES.contains(&part))
}

fn roots<'a>(tree: &'a Tree, name: &str) -> impl Iterator<Item = &'a File> {
    let paths = [
        format!("crates/{name}/src/lib.rs"),
        format!("crates/{name}/src/main.rs"),
    ];
    paths.into_iter().filter_map(|path| tree.get(&path))
}

/// Returns `true` if the tokens contain `#![lint(unsafe_code)]`, alone or in a list.
fn has_inner_attribute(tokens: &[Token], lint: &str) -> bool {
    let code: Vec<&Token> = tokens.iter().filter(|t| t.kind != Kind::Comment).collect();
    code.windows(4).enumerate().any(|(i, w)| {
        let opens =
            w[0].is_mark('#') && w[1].is_mark('!') && w[2].is_mark('[') && w[3].is_word(lint);
        let mut inside = code[i..].iter().take_while(|t| !t.is_mark(']'));
        opens && inside.any(|t| t.is_word("unsafe_code"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, files: &[(&str, &str)]) -> usize {
        let manifest = format!("crates/{name}/Cargo.toml");
        let mut all = vec![(manifest.as_str(), "")];
        all.extend(files);
        check(&Tree::of(&all)).len()
    }

    #[test]
    fn a_safe_crate_says_so() {
        let path = "crates/tidegate-loop/src/lib.rs";
        assert_eq!(
            findings(
                "tidegate-loop",
                &[(path, "//! Loops.\n#![forbid(unsafe_code)]\n")]
            ),
            0
        );
        assert_eq!(findings("tidegate-loop", &[(path, "//! Loops.\n")]), 1);
        assert_eq!(
            findings("tidegate-loop", &[(path, "// #![forbid(unsafe_code)]\n")]),
            1
        );
    }

    #[test]
    fn unsafe_code_stands_in_modules_named_for_it() {
        let lib = ("crates/tidegate-net/src/lib.rs", "#![deny(unsafe_code)]");
        let sys = ("crates/tidegate-net/src/sys/epoll.rs", "unsafe {}");
        let channel = ("crates/tidegate-net/src/channel.rs", "unsafe {}");
        assert_eq!(findings("tidegate-net", &[lib, sys]), 0);
        assert_eq!(findings("tidegate-net", &[lib, sys, channel]), 1);
    }

    #[test]
    fn isolation_and_what_stands_on_it_have_no_such_module() {
        let lib = (
            "crates/tidegate-isolate/src/lib.rs",
            "#![deny(unsafe_code)]",
        );
        let raw = ("crates/tidegate-isolate/src/raw.rs", "unsafe {}");
        assert_eq!(findings("tidegate-isolate", &[lib, raw]), 1);
    }
}
