//! Finds to-do marks without an issue.

use super::lexer::{Kind, Token};
use super::tree::File;
use super::{Finding, Tree};

/// Marks of unfinished work. Written in two parts so that this file does not contain them.
const MARKS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Runs the search over every file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files().flat_map(unowned_marks).collect()
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
}
