//! Keeps the types of other crates out of the API of `tidegate-net`: no type of mio in a public
//! signature, and rustls only in the module `tls`.
//!
//! Works on tokens: a `pub` item counts as public even if its module is private, so an item of a
//! private module is `pub(crate)`.

use std::collections::HashSet;

use super::lexer::{Kind, Token};
use super::names::FACADE;
use super::{Finding, Tree, syntax};

/// The crate whose API is checked for mio.
const NET: &str = "crates/tidegate-net/src/";

/// Checks both crates.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = tls_outside_of_its_module(tree);
    for file in tree.rust_below(NET).filter(|file| !file.is_test()) {
        let tests = syntax::test_lines(&file.tokens);
        for line in mio_in_signatures(&file.tokens) {
            if !tests.iter().any(|test| test.contains(&line)) {
                let message = "a type of mio in a public signature: make the item `pub(crate)`, or \
                               take a type of the standard library";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Finds types of rustls outside of the modules named `tls`, so that programs without encryption
/// never use them.
fn tls_outside_of_its_module(tree: &Tree) -> Vec<Finding> {
    let files = tree.rust_below("crates/").filter(|file| {
        let inside = file.path.split("/src/").nth(1).unwrap_or_default();
        file.path != FACADE && !file.is_test() && !inside.is_empty() && !inside.starts_with("tls")
    });
    let uses = files.filter_map(|file| {
        let token = file.tokens.iter().find(|t| t.is_word("rustls"))?;
        let message = "rustls belongs in the module `tls`";
        Some(Finding::new(&file.path, token.line, message))
    });
    uses.collect()
}

/// Returns the lines on which a public signature names a type of mio.
fn mio_in_signatures(tokens: &[Token]) -> Vec<usize> {
    let code = syntax::code(tokens);
    let imported = imported_from_mio(&code);
    let is_public = |i: usize| code[i].is_word("pub") && !is_mark(&code, i + 1, '(');
    let public = (0..code.len()).filter(|i| is_public(*i));
    let found = public.filter_map(|start| {
        let end = signature_end(&code, start);
        let is_foreign = |i: &usize| match i.checked_sub(1) {
            Some(before)
                if code[before].is_mark(':') && is_mark(&code, i.saturating_sub(2), ':') =>
            {
                false
            }
            _ => code[*i].is_word("mio") || imported.contains(code[*i].text.as_str()),
        };
        (start..end).find(is_foreign).map(|i| code[i].line)
    });
    found.collect()
}

fn is_mark(code: &[&Token], at: usize, mark: char) -> bool {
    code.get(at).is_some_and(|token| token.is_mark(mark))
}

/// Returns the types that the file imports from mio.
fn imported_from_mio<'a>(code: &[&'a Token]) -> HashSet<&'a str> {
    let mut found = HashSet::new();
    for (i, pair) in code.windows(2).enumerate() {
        if pair[0].is_word("use") && pair[1].is_word("mio") {
            let list = code[i..].iter().take_while(|token| !token.is_mark(';'));
            let is_type = |token: &&&Token| {
                token.kind == Kind::Word && token.text.starts_with(char::is_uppercase)
            };
            found.extend(list.filter(is_type).map(|token| token.text.as_str()));
        }
    }
    found
}

/// Returns the index behind the public part of the item or field that starts at `start`: the whole
/// item for an enum, a trait, a type alias or an import, and everything before the body or the value
/// otherwise. The fields of a struct have a `pub` of their own.
fn signature_end(code: &[&Token], start: usize) -> usize {
    let is = |word: &str| code.get(start + 1).is_some_and(|t| t.is_word(word));
    let has_public_body = is("enum") || is("trait");
    let (is_struct, is_use, is_alias) = (is("struct"), is("use"), is("type"));
    let mut depth = 0_usize;
    for (i, token) in code.iter().enumerate().skip(start) {
        let is_arrow = token.is_mark('>') && is_mark(code, i - 1, '-');
        match token.text.as_str() {
            "(" if is_struct && depth == 0 => return i,
            "{" if depth == 0 && !has_public_body && !is_use => return i,
            "(" | "[" | "<" | "{" => depth += 1,
            ")" | "]" | ">" | "}" if !is_arrow => match depth {
                // The end of the fields, or of the body.
                0 => return i,
                1 if has_public_body && token.is_mark('}') => return i,
                _ => depth -= 1,
            },
            "=" if depth == 0 && !is_alias => return i,
            ";" | "," if depth == 0 => return i,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, source: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, source)]);
        check(&tree).iter().map(|f| f.line).collect()
    }

    fn net(source: &str) -> Vec<usize> {
        findings("crates/tidegate-net/src/client/mod.rs", source)
    }

    #[test]
    fn rustls_stays_in_the_module_for_it() {
        let uses = |path: &str| findings(path, "use rustls::ServerConfig;").len();
        assert_eq!(uses("crates/tidegate-net/src/tls/config.rs"), 0);
        assert_eq!(uses("crates/tidegate-net/tests/it/tls.rs"), 0);
        assert_eq!(uses("crates/tidegate-net/src/server/builder.rs"), 1);
    }

    #[test]
    fn mio_in_a_public_signature_is_found() {
        assert_eq!(net("pub fn f(socket: mio::net::TcpStream) {}"), [1]);
        assert_eq!(net("pub fn f() -> io::Result<mio::Token>;"), [1]);
        assert_eq!(net("pub use mio::event::Source;"), [1]);
        assert_eq!(net("pub use mio::{Interest, Token};"), [1]);
        assert_eq!(net("pub type Stream = mio::net::TcpStream;"), [1]);
        assert_eq!(net("pub enum E {\n A(Vec<u8>),\n B(mio::Token),\n}"), [3]);
        assert_eq!(net("pub struct S {\n a: u8,\n pub b: mio::Token,\n}"), [3]);
        assert_eq!(net("pub struct S(pub mio::Token);"), [1]);
        assert_eq!(net("pub trait T: mio::event::Source {}"), [1]);
        assert_eq!(net("pub trait T {\n fn f(t: mio::Token);\n}"), [2]);
    }

    #[test]
    fn imported_names_are_known() {
        let import = "use mio::net::{TcpStream, UdpSocket};\n";
        assert_eq!(
            net(&format!("{import}pub fn f(socket: TcpStream) {{}}")),
            [2]
        );
        assert_eq!(
            net(&format!(
                "{import}pub fn f(socket: std::net::TcpStream) {{}}"
            )),
            []
        );
        assert_eq!(net("pub fn f(socket: TcpStream) {}"), []);
    }

    #[test]
    fn bodies_private_items_and_other_crates_are_free() {
        assert_eq!(net("pub fn f() { mio::net::TcpStream::connect(); }"), []);
        assert_eq!(net("pub(crate) fn f(socket: mio::net::TcpStream) {}"), []);
        assert_eq!(net("pub struct S { a: mio::Token, pub b: u8 }"), []);
        assert_eq!(net("pub struct S(mio::Token);"), []);
        assert_eq!(net("pub const A: u8 = 1 << 3;\nfn f(t: mio::Token) {}"), []);
        let source = "#[cfg(test)]\nmod tests {\n pub fn f(t: mio::Token) {}\n}";
        assert_eq!(net(source), []);
        let source = "pub fn f(t: mio::Token) {}";
        assert_eq!(
            findings("crates/tidegate-net/src/reactor/tests.rs", source),
            []
        );
        assert_eq!(findings("bench/src/echo/mod.rs", source), []);
    }
}
