//! Unsafe code has two homes: `tidegate-core`, and `sys` in `tidegate-net`.

use super::lexer::{Kind, Token};
use super::tree::File;
use super::{Finding, Tree};

/// The crate whose purpose is unsafe code.
const HOME: &str = "tidegate-core";
/// The crate that has unsafe code in one module.
const PARTLY: &str = "tidegate-net";
const PARTLY_MODULE: &str = "crates/tidegate-net/src/sys";

/// Every crate root forbids unsafe code, except where it lives.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, _) in tree.manifests().filter(|(name, _)| *name != HOME) {
        let lint = if name == PARTLY { "deny" } else { "forbid" };
        for root in roots(tree, name) {
            if !has_inner_attribute(&root.tokens, lint) {
                let message = format!("add `#![{lint}(unsafe_code)]` at the head of the crate");
                findings.push(Finding::new(&root.path, 0, message));
            }
        }
    }
    for file in tree.rust_below("crates/tidegate-net/src/") {
        let unsafe_word = file.tokens.iter().find(|t| t.is_word("unsafe"));
        if let Some(token) = unsafe_word.filter(|_| !file.path.starts_with(PARTLY_MODULE)) {
            let message = format!("unsafe code belongs in {PARTLY_MODULE}");
            findings.push(Finding::new(&file.path, token.line, message));
        }
    }
    findings
}

fn roots<'a>(tree: &'a Tree, name: &str) -> impl Iterator<Item = &'a File> {
    let paths = [
        format!("crates/{name}/src/lib.rs"),
        format!("crates/{name}/src/main.rs"),
    ];
    paths.into_iter().filter_map(|path| tree.get(&path))
}

/// Looks for `#![lint(unsafe_code)]`, alone or in a list.
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
        let path = "crates/tidegate-exec/src/lib.rs";
        assert_eq!(
            findings(
                "tidegate-exec",
                &[(path, "//! Loops.\n#![forbid(unsafe_code)]\n")]
            ),
            0
        );
        assert_eq!(findings("tidegate-exec", &[(path, "//! Loops.\n")]), 1);
        assert_eq!(
            findings("tidegate-exec", &[(path, "// #![forbid(unsafe_code)]\n")]),
            1
        );
    }

    #[test]
    fn the_home_of_unsafe_code_is_free() {
        assert_eq!(
            findings(
                "tidegate-core",
                &[("crates/tidegate-core/src/lib.rs", "unsafe {}")]
            ),
            0
        );
    }

    #[test]
    fn net_has_unsafe_code_only_in_sys() {
        let lib = ("crates/tidegate-net/src/lib.rs", "#![deny(unsafe_code)]");
        let sys = ("crates/tidegate-net/src/sys/epoll.rs", "unsafe {}");
        let channel = ("crates/tidegate-net/src/channel.rs", "unsafe {}");
        assert_eq!(findings("tidegate-net", &[lib, sys]), 0);
        assert_eq!(findings("tidegate-net", &[lib, channel]), 1);
    }
}
