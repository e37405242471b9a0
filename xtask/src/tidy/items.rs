//! Reads the items of a module: what it declares, what it re-exports, and what is public.
//!
//! Works on tokens, without a parser: sufficient for code that compiles and is formatted.

use super::lexer::{Kind, Token};
use super::syntax;

/// An item of a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) line: usize,
    /// `true` for `pub`, not for `pub(crate)` and the like.
    pub(super) public: bool,
    /// `true` if `#[doc(hidden)]` is above it.
    pub(super) hidden: bool,
    pub(super) what: What,
}

/// What an item is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A type, trait, function, constant or static.
    Named(String),
    /// A module, with its items if they are written in the same file.
    Module(String, Option<Vec<Item>>),
    /// A `use`, with the names that it brings.
    Use(Vec<Used>),
    /// An item without a name, or with one that is not counted.
    Other,
}

/// One name of a `use`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Used {
    Name(String),
    /// A whole crate, under its own name or another.
    Crate,
    Glob,
}

/// Returns the items of a file in order.
pub(super) fn items(tokens: &[Token]) -> Vec<Item> {
    module(&syntax::code(tokens))
}

fn module(mut code: &[&Token]) -> Vec<Item> {
    let mut found = Vec::new();
    while !code.is_empty() {
        let (item, length) = item(code);
        found.push(item);
        code = &code[length.clamp(1, code.len())..];
    }
    found
}

/// Returns the item at the start of `code`, and the number of its tokens.
fn item(code: &[&Token]) -> (Item, usize) {
    let (hidden, mut at) = attributes(code);
    let public = code.get(at).is_some_and(|t| t.is_word("pub"));
    let line = code.get(at).or(code.last()).map_or(0, |t| t.line);
    at += usize::from(public);
    let restricted = public && code.get(at).is_some_and(|t| t.is_mark('('));
    if restricted {
        at += syntax::matching(&code[at..], '(', ')').map_or(1, |length| length + 1);
    }
    let rest = &code[at.min(code.len())..];
    let (what, length) = what(rest);
    let item = Item {
        line,
        public: public && !restricted,
        hidden,
        what,
    };
    (item, at + length)
}

/// Returns whether the attributes at the start of `code` hide the item, and the number of their
/// tokens.
fn attributes(code: &[&Token]) -> (bool, usize) {
    let mut hidden = false;
    let mut at = 0;
    while code.get(at).is_some_and(|t| t.is_mark('#')) {
        let inner = code.get(at + 1).is_some_and(|t| t.is_mark('!'));
        let open = at + 1 + usize::from(inner);
        let Some(length) = syntax::matching(&code[open.min(code.len())..], '[', ']') else {
            break;
        };
        let inside = &code[open..open + length];
        let has = |word: &str| inside.iter().any(|t| t.is_word(word));
        hidden |= has("doc") && has("hidden");
        at = open + length + 1;
    }
    (hidden, at)
}

/// Returns what the item at the start of `code` is, without attributes and visibility, and the
/// number of its tokens.
fn what(code: &[&Token]) -> (What, usize) {
    const QUALIFIERS: [&str; 4] = ["async", "const", "extern", "unsafe"];
    const NAMED: [&str; 8] = [
        "struct", "enum", "union", "trait", "fn", "type", "const", "static",
    ];
    let Some(first) = code.first() else {
        return (What::Other, 0);
    };
    let name = |at: usize| code.get(at).map(|t| t.text.clone()).unwrap_or_default();
    if first.is_word("use") {
        let end = code
            .iter()
            .position(|t| t.is_mark(';'))
            .unwrap_or(code.len());
        return (What::Use(used(&code[1..end], 0)), end + 1);
    }
    let (block, length) = extent(code);
    if first.is_word("mod") {
        let inside = block.map(|range| module(&code[range]));
        return (What::Module(name(1), inside), length);
    }
    let is_qualifier = |t: &&&Token| QUALIFIERS.iter().any(|word| t.is_word(word));
    let qualified = code.iter().take_while(is_qualifier).count();
    let keyword = match code.get(qualified) {
        Some(t) if t.is_word("fn") || t.is_word("trait") => qualified,
        _ => 0,
    };
    let is_named = NAMED.iter().any(|word| code[keyword].is_word(word));
    let has_name = code.get(keyword + 1).is_some_and(|t| t.kind == Kind::Word);
    match is_named && has_name {
        true => (What::Named(name(keyword + 1)), length),
        false => (What::Other, length),
    }
}

/// Returns the tokens between the braces of the item at the start of `code`, if it ends with
/// braces, and the number of its tokens.
fn extent(code: &[&Token]) -> (Option<std::ops::Range<usize>>, usize) {
    // The value of a constant may contain braces; the semicolon ends it.
    let value = ["const", "static", "type"]
        .iter()
        .any(|word| code[0].is_word(word));
    let value = value
        && !code
            .get(1)
            .is_some_and(|t| t.is_word("fn") || t.is_word("unsafe"));
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate() {
        if depth == 0 && !value && token.is_mark('{') {
            let length = syntax::matching(&code[at..], '{', '}').unwrap_or(code.len() - at);
            return (Some(at + 1..at + length), at + length + 1);
        }
        if ['(', '[', '{'].iter().any(|&mark| token.is_mark(mark)) {
            depth += 1;
        } else if [')', ']', '}'].iter().any(|&mark| token.is_mark(mark)) {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is_mark(';') {
            return (None, at + 1);
        }
    }
    (None, code.len())
}

/// Returns the names of a `use` tree; `before` is the number of path segments in front of it.
fn used(code: &[&Token], before: usize) -> Vec<Used> {
    if let Some(open) = code.iter().position(|t| t.is_mark('{')) {
        let length = syntax::matching(&code[open..], '{', '}').unwrap_or(code.len() - open);
        let segments = before + words(&code[..open]).count();
        let branches = branches(&code[open + 1..open + length]);
        return branches
            .iter()
            .flat_map(|branch| used(branch, segments))
            .collect();
    }
    let Some(last) = code.last() else {
        return Vec::new();
    };
    let renamed = code.iter().position(|t| t.is_word("as"));
    let path = &code[..renamed.unwrap_or(code.len())];
    if last.is_mark('*') {
        return vec![Used::Glob];
    }
    match before + words(path).count() {
        0 | 1 => vec![Used::Crate],
        _ => vec![Used::Name(last.text.clone())],
    }
}

fn words<'a>(code: &'a [&'a Token]) -> impl Iterator<Item = &'a &'a Token> {
    code.iter().filter(|t| t.kind == Kind::Word)
}

/// Splits the contents of the braces of a `use` at the commas of the outermost level.
fn branches<'a, 'b>(code: &'b [&'a Token]) -> Vec<&'b [&'a Token]> {
    let mut depth = 0_usize;
    code.split(|token| {
        if token.is_mark('{') {
            depth += 1;
        } else if token.is_mark('}') {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && token.is_mark(',')
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    fn public(source: &str) -> Vec<What> {
        let found = items(&lex(source)).into_iter();
        found
            .filter(|item| item.public)
            .map(|item| item.what)
            .collect()
    }

    fn named(name: &str) -> What {
        What::Named(name.to_string())
    }

    #[test]
    fn every_kind_of_item_has_its_name() {
        let source = "#![forbid(unsafe_code)]
            pub struct A; pub struct B(u8); pub struct C { x: u8 }
            pub enum D { X } pub trait E { fn f(); } pub unsafe trait F {}
            pub fn g() { struct Inner; } pub const fn h() {} pub async unsafe fn i() {}
            pub const J: X = X { y: 1 }; pub static K: [u8; 2] = [0; 2]; pub type L = u8;
            impl A { pub fn method() {} }
            fn own() {} pub(crate) fn near() {} pub(in crate::x) struct Near;";
        let names = ["A", "B", "C", "D", "E", "F", "g", "h", "i", "J", "K", "L"];
        assert_eq!(public(source), names.map(named));
    }

    #[test]
    fn the_names_of_a_use_are_its_leaves() {
        let source =
            "pub use a::{B, c::{D, E as F}, G as _H,}; pub use a::b::*; pub use a as b; pub use c;";
        let name = |name: &str| Used::Name(name.to_string());
        let expected = [
            What::Use(vec![name("B"), name("D"), name("F"), name("_H")]),
            What::Use(vec![Used::Glob]),
            What::Use(vec![Used::Crate]),
            What::Use(vec![Used::Crate]),
        ];
        assert_eq!(public(source), expected);
    }

    #[test]
    fn a_module_holds_its_items() {
        let source = "pub mod a { pub struct B; mod c { pub struct D; } } pub mod e;";
        let found = public(source);
        let What::Module(name, Some(inside)) = &found[0] else {
            panic!("{found:?}");
        };
        assert_eq!((name.as_str(), inside.len()), ("a", 2));
        assert_eq!(found[1], What::Module("e".to_string(), None));
    }

    #[test]
    fn a_hidden_item_says_so() {
        let found = items(&lex(
            "#[cfg(x)] #[doc(hidden)] pub mod a {} #[doc(inline)] pub use b::C;",
        ));
        let hidden: Vec<bool> = found.iter().map(|item| item.hidden).collect();
        assert_eq!(hidden, [true, false]);
    }
}
