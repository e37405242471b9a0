//! Finds words that do not belong in the tree: to-do marks without an issue, unfinished code,
//! sleeping.

use super::lexer::{Kind, Token};
use super::tree::File;
use super::{Finding, Tree};

/// Marks of unfinished work. Written in two parts so that this file does not contain them.
const MARKS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];

/// Runs the three searches over the files that each applies to.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        findings.extend(unowned_marks(file));
    }
    for file in tree.rust() {
        findings.extend(unfinished(file));
    }
    for file in tree.rust_below("crates/") {
        findings.extend(sleeping(file));
    }
    findings
}

/// Finds marks of unfinished work without an issue number. In Rust files, only comments count.
fn unowned_marks(file: &File) -> Vec<Finding> {
    let lines: Vec<(usize, &str)> = match file.path.ends_with(".rs") {
        true => comments(file).flat_map(Token::lines).collect(),
        false => file.lines().collect(),
    };
    let unowned = lines.into_iter().filter_map(|(line, text)| {
        let mark = MARKS.into_iter().find(|mark| has_word(text, mark))?;
        let message = format!("{mark} without an issue: write `{mark}(#12)` with its number");
        (!names_issue(text)).then(|| Finding::new(&file.path, line, message))
    });
    unowned.collect()
}

fn unfinished(file: &File) -> Vec<Finding> {
    let code: Vec<&Token> = file
        .tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .collect();
    let calls = code.windows(2).filter(|pair| {
        let word = pair[0].kind == Kind::Word && UNFINISHED.contains(&pair[0].text.as_str());
        word && pair[1].is_mark('!')
    });
    calls
        .map(|pair| {
            let message = format!("`{}!` is unfinished code", pair[0].text);
            Finding::new(&file.path, pair[0].line, message)
        })
        .collect()
}

/// Finds sleeps in code and doc examples: neither may wait for real time.
fn sleeping(file: &File) -> Vec<Finding> {
    let code: Vec<&Token> = file
        .tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .collect();
    let in_code = code.windows(4).filter(|w| {
        w[0].is_word("thread") && w[1].is_mark(':') && w[2].is_mark(':') && w[3].is_word("sleep")
    });
    let in_docs = comments(file)
        .flat_map(Token::lines)
        .filter(|(_, text)| text.contains("thread::sleep("));
    let lines = in_code
        .map(|w| w[0].line)
        .chain(in_docs.map(|(line, _)| line));
    let message = "no sleeping: wait for a Completion, or turn a ManualClock";
    lines
        .map(|line| Finding::new(&file.path, line, message))
        .collect()
}

fn comments(file: &File) -> impl Iterator<Item = &Token> {
    file.tokens.iter().filter(|t| t.kind == Kind::Comment)
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    text.split(|c| !is_part(c)).any(|part| part == word)
}

fn names_issue(text: &str) -> bool {
    text.split('#')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn a_mark_needs_an_issue() {
        let path = "crates/a/src/lib.rs";
        assert_eq!(findings(path, "// TODO: later\n"), [1]);
        assert_eq!(findings(path, "/* x\n FIXME */\n"), [2]);
        assert_eq!(findings(path, "// TODO(#12): later\n"), []);
        assert_eq!(findings(path, "let x = \"TODO\"; // METODO\n"), []);
        assert_eq!(findings("README.md", "XXX\n"), [1]);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(findings("bench/src/main.rs", "fn f() { todo!() }\n"), [1]);
        assert_eq!(
            findings("bench/src/main.rs", "fn todo() {} // todo!()\n"),
            []
        );
    }

    #[test]
    fn sleeping_is_found_in_code_tests_and_doc_examples() {
        assert_eq!(
            findings("crates/a/tests/it/main.rs", "std::thread::sleep(d);\n"),
            [1]
        );
        assert_eq!(
            findings("crates/a/src/lib.rs", "/// std::thread::sleep(d);\n"),
            [1]
        );
        assert_eq!(
            findings("crates/a/src/lib.rs", "/// Never calls `thread::sleep`.\n"),
            []
        );
        assert_eq!(
            findings("bench/src/main.rs", "std::thread::sleep(d);\n"),
            []
        );
    }
}
