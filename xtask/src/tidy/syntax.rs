//! Extracts what the checks need from Rust source: functions, tests, definitions.
//!
//! Works on tokens, without a parser: sufficient for code that compiles and is formatted.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::lexer::{Kind, Token};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`.
    pub(super) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(super) lines: usize,
}

/// Returns the functions that have a body, in order, including nested ones.
pub(super) fn functions(tokens: &[Token]) -> Vec<Function> {
    let code = code(tokens);
    let mut found = Vec::new();
    for (i, pair) in code.windows(2).enumerate() {
        if !pair[0].is_word("fn") || pair[1].kind != Kind::Word {
            continue;
        }
        if let Some(last) = body_end(&code[i..]) {
            let line = pair[0].line;
            let lines = last - line + 1;
            found.push(Function {
                name: pair[1].text.clone(),
                line,
                lines,
            });
        }
    }
    found
}

/// Returns the functions marked as tests, `#[test]`, each behind the modules of the file that hold it:
/// `tests::waits`.
pub(super) fn test_functions(tokens: &[Token]) -> HashSet<String> {
    let code = code(tokens);
    attributes(&code)
        .into_iter()
        .filter(|attribute| attribute.marks_test_function())
        .filter_map(|attribute| {
            let item = &code[attribute.end..];
            let at = item.iter().position(|t| t.is_word("fn"))?;
            let in_between = item[..at].iter().any(|t| t.is_mark('{') || t.is_mark(';'));
            let name = item.get(at + 1).filter(|_| !in_between)?;
            (name.kind == Kind::Word).then(|| match module_at(&code, attribute.end) {
                module if module.is_empty() => name.text.clone(),
                module => format!("{module}::{}", name.text),
            })
        })
        .collect()
}

/// Returns the path of the modules of this file that hold the token at `at`.
pub(super) fn module_at(code: &[&Token], at: usize) -> String {
    let mut open: Vec<Option<&str>> = Vec::new();
    for i in 0..at {
        if code[i].is_mark('{') {
            let is_module = i > 1 && code[i - 2].is_word("mod");
            open.push(is_module.then(|| code[i - 1].text.as_str()));
        } else if code[i].is_mark('}') {
            open.pop();
        }
    }
    let modules: Vec<&str> = open.into_iter().flatten().collect();
    modules.join("::")
}

/// Returns the line ranges of what only tests have: items under `#[cfg(test)]` or
/// `#[cfg(all(test, …))]`.
pub(super) fn cfg_test_lines(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let code = code(tokens);
    let for_tests = attributes(&code).into_iter().filter(|attribute| {
        let words = &attribute.words;
        words.starts_with(&["cfg", "all", "test"]) || *words == ["cfg", "test"]
    });
    for_tests
        .map(|attribute| {
            let (mut braces, mut others) = (0_isize, 0_isize);
            let end = code[attribute.end..].iter().position(|token| {
                match token.text.as_str() {
                    _ if token.kind != Kind::Mark => {}
                    "(" | "[" => others += 1,
                    ")" | "]" => others -= 1,
                    "{" => braces += 1,
                    "}" => {
                        braces -= 1;
                        return braces <= 0;
                    }
                    ";" | "," => return braces == 0 && others == 0,
                    _ => {}
                }
                false
            });
            let end = end.map_or(usize::MAX, |end| code[attribute.end + end].line);
            attribute.line..=end
        })
        .collect()
}

/// Returns the line ranges of test code in a file: items under `#[cfg(test)]` and test functions.
pub(super) fn test_lines(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let code = code(tokens);
    attributes(&code)
        .into_iter()
        .filter(|attribute| attribute.marks_test_function() || attribute.is_cfg_test())
        .filter_map(|attribute| {
            let item = skip_attributes(&code[attribute.end..]);
            Some(attribute.line..=body_end(item)?)
        })
        .collect()
}

/// Returns all defined names: items, macros and the variants of enums.
pub(super) fn definitions(tokens: &[Token]) -> HashSet<String> {
    const KEYWORDS: [&str; 9] = [
        "struct", "enum", "union", "trait", "fn", "type", "mod", "const", "static",
    ];
    let code = code(tokens);
    let mut found = HashSet::new();
    for (i, pair) in code.windows(2).enumerate() {
        let (keyword, name) = (pair[0], pair[1]);
        let is_pointer = i > 0 && code[i - 1].is_mark('*');
        if keyword.kind == Kind::Word
            && KEYWORDS.contains(&keyword.text.as_str())
            && name.kind == Kind::Word
            && !is_pointer
        {
            found.insert(name.text.clone());
            if keyword.text == "enum" {
                found.extend(variants(&code[i..]));
            }
        }
        if keyword.is_word("macro_rules") && name.is_mark('!') {
            found.extend(code.get(i + 2).map(|t| t.text.clone()));
        }
    }
    found
}

/// Returns the tokens without comments.
pub(super) fn code(tokens: &[Token]) -> Vec<&Token> {
    tokens.iter().filter(|t| t.kind != Kind::Comment).collect()
}

/// An attribute: its words, and the position after it.
struct Attribute<'a> {
    line: usize,
    words: Vec<&'a str>,
    /// Index of the token after the closing bracket.
    end: usize,
}

impl Attribute<'_> {
    /// Returns `true` for `#[test]` and `#[path::to::test]`.
    fn marks_test_function(&self) -> bool {
        self.words.last() == Some(&"test") && !self.words.contains(&"cfg")
    }

    /// Returns `true` for `#[cfg(test)]`, alone or in an `all` or `any`, also beside a `not` of
    /// another condition.
    fn is_cfg_test(&self) -> bool {
        let negated = self.words.windows(2).any(|pair| pair == ["not", "test"]);
        self.words.first() == Some(&"cfg") && self.words.contains(&"test") && !negated
    }
}

fn attributes<'a>(code: &[&'a Token]) -> Vec<Attribute<'a>> {
    let starts = (1..code.len()).filter(|&i| code[i - 1].is_mark('#') && code[i].is_mark('['));
    starts
        .filter_map(|open| {
            let length = matching(&code[open..], '[', ']')?;
            let inside = &code[open..open + length];
            let words = inside.iter().filter(|t| t.kind == Kind::Word);
            Some(Attribute {
                line: code[open].line,
                words: words.map(|t| t.text.as_str()).collect(),
                end: open + length + 1,
            })
        })
        .collect()
}

fn skip_attributes<'a, 'b>(mut code: &'b [&'a Token]) -> &'b [&'a Token] {
    while code.len() > 1 && code[0].is_mark('#') && code[1].is_mark('[') {
        match matching(&code[1..], '[', ']') {
            Some(length) => code = &code[length + 2..],
            None => break,
        }
    }
    code
}

/// Returns the line of the closing brace of the item at the start of `code`, or `None` if the item
/// has no braces.
fn body_end(code: &[&Token]) -> Option<usize> {
    let mut depth = 0;
    for (i, token) in code.iter().enumerate() {
        if token.is_mark('(') || token.is_mark('[') {
            depth += 1;
        } else if token.is_mark(')') || token.is_mark(']') {
            depth -= 1;
        } else if depth == 0 && token.is_mark(';') {
            return None;
        } else if depth == 0 && token.is_mark('{') {
            let length = matching(&code[i..], '{', '}')?;
            return Some(code[i + length].line);
        }
    }
    None
}

/// Returns the distance from the first token, an opening mark, to its closing mark.
pub(super) fn matching(code: &[&Token], open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, token) in code.iter().enumerate() {
        if token.is_mark(open) {
            depth += 1;
        } else if token.is_mark(close) {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(i);
            }
        }
    }
    None
}

/// Returns the variants of the enum at the start of `code`: the words that begin an entry of its
/// braces.
fn variants(code: &[&Token]) -> Vec<String> {
    let Some(open) = code.iter().position(|t| t.is_mark('{')) else {
        return Vec::new();
    };
    let Some(length) = matching(&code[open..], '{', '}') else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut depth = 0;
    let mut begins = true;
    for token in &code[open + 1..open + length] {
        if depth == 0 && begins && token.kind == Kind::Word {
            found.push(token.text.clone());
            begins = false;
        }
        if ['(', '[', '{'].iter().any(|&m| token.is_mark(m)) {
            depth += 1;
        } else if [')', ']', '}'].iter().any(|&m| token.is_mark(m)) {
            depth -= 1;
        } else if depth == 0 && token.is_mark(',') {
            begins = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    fn sorted(found: HashSet<String>) -> Vec<String> {
        let mut names: Vec<String> = found.into_iter().collect();
        names.sort();
        names
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let found = functions(&lex(
            "fn a() {\n  if x { y }\n}\ntrait T { fn b(x: [u8; 2]); }\n",
        ));
        assert_eq!(
            found,
            [Function {
                name: "a".into(),
                line: 1,
                lines: 3
            }]
        );
    }

    #[test]
    fn function_pointers_are_not_functions() {
        assert_eq!(functions(&lex("struct S { f: fn(u8) -> u8 }")), []);
    }

    #[test]
    fn test_functions_are_found_behind_other_attributes_and_in_macros() {
        let source = "#[test] #[should_panic(expected = \"x\")] fn a() {}
            proptest! { #[test] fn b(x in 0..9) {} }
            #[cfg(test)] mod tests { fn helper() {} mod x { #[test] fn d() {} } }
            fn c() {}";
        let found = sorted(test_functions(&lex(source)));
        assert_eq!(found, ["a", "b", "tests::x::d"]);
    }

    #[test]
    fn test_lines_cover_the_test_module() {
        let source =
            "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n}\n#[cfg(not(test))]\nfn b() {}\n";
        assert_eq!(test_lines(&lex(source)), [2..=5]);
    }

    #[test]
    fn definitions_include_variants_and_macros() {
        let source = "pub enum Blocking { Never, May(u8), #[doc(hidden)] Adapts { x: Y } }
            macro_rules! ready { () => {} }
            pub(crate) const fn make(p: *const Other) {}";
        let found = sorted(definitions(&lex(source)));
        for name in ["Blocking", "Never", "May", "Adapts", "ready", "make"] {
            assert!(found.contains(&name.to_string()), "{name} in {found:?}");
        }
        assert!(!found.contains(&"Other".to_string()));
        assert!(!found.contains(&"Y".to_string()));
    }
}
