//! Checks the conformance tables: every rule of a specification names its tests, or a reason why
//! not.
//!
//! A row of a table in `docs/conformance/*.md` is `| spec:RULE | sentence | answer |`. The sentence
//! states the rule in 3 to 20 words, ends with a period, and belongs to only one rule. A row has at
//! most 250 bytes. The answer is
//!
//! * one or more tests, each in backticks, separated by commas:
//!   `loop::any::path::test_name`, where `loop` is `tidegate-loop`, or `doc:Type::method` for an
//!   example in the docs; a rule
//!   of another row may stand beside them or alone;
//! * or a sentence that begins with `differs:`, `later:` or `n/a:`. Functions that it names in
//!   backticks exist.
//!
//! `README.md` in that folder is not a table.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use super::tree::File;
use super::{Finding, Tree, markdown, syntax};

const FOLDER: &str = "docs/conformance/";
const SPECS: [&str; 6] = ["loops", "strategies", "isolation", "seeds", "http", "field"];
const REASONS: [&str; 3] = ["differs:", "later:", "n/a:"];
/// The allowed number of words in a sentence.
const WORDS: RangeInclusive<usize> = 3..=20;
/// The most bytes of a row.
const BYTES: usize = 250;

/// Checks every row, that each rule has only one row, and that no two rules share a sentence.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let code = Code::of(tree);
    let mut findings = Vec::new();
    let mut rules: HashMap<String, String> = HashMap::new();
    let mut sentences: HashMap<String, String> = HashMap::new();
    let mut references = Vec::new();
    let tables = tree.files().filter(|file| is_table(file));
    for (file, line, row) in tables.flat_map(rows) {
        let rule = row[0].trim_matches('`');
        let mut find = |message| findings.push(Finding::new(&file.path, line, message));
        if !is_rule(rule) {
            find(format!(
                "`{rule}` is not a rule: write for example `loops:FU12`"
            ));
            continue;
        }
        if let Some(first) = rules.insert(rule.to_string(), format!("{}:{line}", file.path)) {
            find(format!("{rule} has a row already, at {first}"));
        }
        let [_, sentence, answer] = row.as_slice() else {
            let cells = row.len();
            find(format!(
                "{rule}: {cells} cells instead of rule, sentence, answer"
            ));
            continue;
        };
        if let Err(why) = check_sentence(sentence) {
            find(format!("{rule}: {why}"));
        } else if let Some(first) = sentences.insert(sentence.to_lowercase(), rule.to_string()) {
            find(format!(
                "{rule} has the sentence of {first}: say what tells them apart"
            ));
        }
        let bytes = row
            .iter()
            .map(|cell| cell.len() + " | ".len())
            .sum::<usize>()
            + 1;
        if bytes > BYTES {
            find(format!("{rule}: a row of {bytes} bytes: at most {BYTES}"));
        }
        if let Err(why) = code.check(answer) {
            find(format!("{rule}: {why}"));
        }
        let named = answer.split(',').map(|part| part.trim().to_string());
        references.extend(
            named
                .filter(|part| is_rule(part))
                .map(|to| (file, line, to)),
        );
    }
    for (file, line, to) in references {
        if !rules.contains_key(&to) {
            let message = format!("no row is for the rule {to}");
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings
}

fn check_sentence(sentence: &str) -> Result<(), String> {
    let words = sentence.split_whitespace().count();
    if !WORDS.contains(&words) {
        let (least, most) = (WORDS.start(), WORDS.end());
        return Err(format!(
            "a sentence of {words} words: state the rule in {least} to {most}"
        ));
    }
    if !sentence.ends_with('.') {
        return Err("the sentence does not end with a period".to_string());
    }
    Ok(())
}

fn is_table(file: &File) -> bool {
    let name = file.path.strip_prefix(FOLDER);
    name.is_some_and(|name| name.ends_with(".md") && name != "README.md")
}

/// Returns the rows of every table in a file, without headers and rulers.
fn rows(file: &File) -> Vec<(&File, usize, Vec<String>)> {
    let rows = markdown::prose(&file.text).filter_map(|(line, text)| {
        let cells = markdown::cells(text)?;
        let first = cells.first()?;
        let is_ruler = first.chars().all(|c| matches!(c, '-' | ':'));
        (!is_ruler && first != "rule").then_some((file, line, cells))
    });
    rows.collect()
}

/// Returns `true` for `spec:LETTERSn` with a known spec.
fn is_rule(text: &str) -> bool {
    let Some((spec, rule)) = text.split_once(':') else {
        return false;
    };
    let digits = rule.trim_start_matches(|c: char| c.is_ascii_uppercase());
    SPECS.contains(&spec)
        && digits.len() < rule.len()
        && !digits.is_empty()
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// The names that the crates define.
struct Code {
    /// The paths of tests, without the crate, by crate folder.
    tests: HashMap<String, HashSet<String>>,
    definitions: HashSet<String>,
}

impl Code {
    fn of(tree: &Tree) -> Code {
        let mut tests: HashMap<String, HashSet<String>> = HashMap::new();
        let mut definitions = HashSet::new();
        for file in tree.rust_below("crates/") {
            let folder = file.path.split('/').nth(1).unwrap_or_default();
            let own = tests.entry(folder.to_string()).or_default();
            let names = syntax::test_functions(&file.tokens);
            for module in modules(&file.path) {
                own.extend(names.iter().map(|name| format!("{module}{name}")));
            }
            definitions.extend(syntax::definitions(&file.tokens));
        }
        Code { tests, definitions }
    }

    fn check(&self, answer: &str) -> Result<(), String> {
        if let Some(reason) = REASONS
            .into_iter()
            .find(|reason| answer.starts_with(reason))
        {
            return match answer[reason.len()..].trim() {
                "" => Err(format!("`{reason}` needs a sentence")),
                why => self.check_functions(why),
            };
        }
        for part in answer.split(',').map(str::trim) {
            if is_rule(part) {
                continue;
            }
            let name = part.strip_prefix('`').and_then(|p| p.strip_suffix('`'));
            match name {
                Some(name) if !name.contains(['`', ' ']) => self.check_name(name)?,
                _ => {
                    let reasons = REASONS.join("`, `");
                    return Err(format!(
                        "neither tests in backticks, nor rules, nor one of `{reasons}`"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the functions named in a reason exist: every code span in lower case with an
    /// underscore.
    fn check_functions(&self, reason: &str) -> Result<(), String> {
        let is_function = |name: &&str| {
            let mut chars = name.chars();
            name.contains('_') && chars.all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | ':'))
        };
        for name in markdown::code_spans(reason).filter(is_function) {
            let last = name.rsplit(':').next().unwrap_or(name);
            if !self.definitions.contains(last) {
                return Err(format!("nothing named `{last}` is defined"));
            }
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), String> {
        let last = name.rsplit([':']).next().unwrap_or(name);
        if name.starts_with("doc:") {
            let exists = self.definitions.contains(last) || self.tests.contains_key(&folder(last));
            return exists
                .then_some(())
                .ok_or(format!("nothing named `{last}` is defined"));
        }
        let (krate, path) = name.split_once("::").unwrap_or((name, ""));
        let Some(tests) = self.tests.get(&folder(krate)) else {
            return Err(format!("`{name}` does not begin with the name of a crate"));
        };
        if tests.contains(path) {
            return Ok(());
        }
        let same = tests
            .iter()
            .filter(|test| test.rsplit("::").next() == Some(last));
        match same.max_by_key(|test| std::cmp::Reverse((test.len(), *test))) {
            Some(other) => Err(format!("there is no test `{name}`, but `{krate}::{other}`")),
            None => Err(format!("{krate} has no test named `{last}`")),
        }
    }
}

/// Returns the path of the module of a file, with `::` at its end: `wheel::tests::` for
/// `src/wheel/tests.rs`. That of an integration test may begin with its program: `it::timers::` or
/// `timers::` for `tests/it/timers.rs`.
fn modules(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let mut parts: Vec<&str> = path.split('/').skip(2).collect();
    if let Some("mod" | "main" | "lib") = parts.last().copied() {
        parts.pop();
    }
    let below = |at: usize| parts.iter().skip(at).map(|part| format!("{part}::"));
    match parts.first() {
        Some(&"tests") => vec![below(1).collect(), below(2).collect()],
        _ => vec![below(1).collect()],
    }
}

/// Returns the folder of a crate, given its name with or without `tidegate`.
fn folder(krate: &str) -> String {
    let name = krate.replace('_', "-");
    if name.starts_with("tidegate") {
        name
    } else {
        format!("tidegate-{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Completion; impl Completion { pub fn wait(self) {} }
        fn helper() {}
        #[test] fn waits() {} #[test] fn cancels() {}";

    /// Returns the findings for rows of three cells.
    fn findings(rows: &str) -> Vec<String> {
        let table =
            format!("# Loops\n\n| rule | what it says | test or reason |\n|---|---|---|\n{rows}\n");
        let tree = Tree::of(&[
            ("crates/tidegate-promise/src/lib.rs", CODE),
            ("docs/conformance/README.md", "| example | of a row |\n"),
            ("docs/conformance/loops.md", &table),
        ]);
        check(&tree).into_iter().map(|f| f.message).collect()
    }

    /// Returns the findings for a valid row with this answer.
    fn answered(answer: &str) -> Vec<String> {
        findings(&format!("| loops:FU1 | A wait ends. | {answer} |"))
    }

    #[test]
    fn a_row_names_tests_doc_tests_or_a_reason() {
        let rows = "| loops:FU1 | A wait ends. | `promise::waits`, `promise::cancels` |
            | loops:FU2 | The `wait` returns. | `doc:Completion::wait`, `doc:tidegate_promise` |
            | loops:FU3 | A wait is refused. | differs: on any pinned loop (`it::waits`, `Loop`). |
            | strategies:PC1 | A producer is alone. | later: strategies come with the worker pool. |
            | isolation:K3 | A key has a name. | n/a: Rust has no interrupt flag. |
            | seeds:P1 | A wait has an end. | loops:FU1, `promise::waits`, loops:FU2 |";
        assert_eq!(findings(rows), Vec::<String>::new());
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        for answer in [
            "`promise::gone`",
            "`promise::helper`",
            "`promise::it::waits`",
            "`other::waits`",
            "`doc:Completion::gone`",
            "loops:FU9",
            "differs: otherwise, as `it::test_of_old` shows.",
        ] {
            assert_eq!(answered(answer).len(), 1, "{answer}");
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_found() {
        for answer in [
            "",
            "differs:",
            "`promise::waits` and more",
            "`promise::waits`; or else `promise::cancels`",
            "promise::waits",
        ] {
            assert_eq!(answered(answer).len(), 1, "{answer}");
        }
    }

    #[test]
    fn a_row_has_at_most_250_bytes() {
        assert_eq!(answered(&format!("n/a: {}", "x".repeat(201))).len(), 0);
        assert_eq!(answered(&format!("n/a: {}", "x".repeat(260))).len(), 1);
    }

    #[test]
    fn a_module_has_the_path_below_its_program() {
        assert_eq!(modules("crates/a/src/wheel/mod.rs"), ["wheel::"]);
        let both = ["it::timers::late::", "timers::late::"];
        assert_eq!(modules("crates/a/tests/it/timers/late.rs"), both);
        assert_eq!(modules("crates/a/tests/signals.rs"), ["signals::", ""]);
        assert_eq!(modules("crates/a/src/lib.rs"), [""]);
    }

    #[test]
    fn a_row_has_a_rule_a_sentence_and_an_answer() {
        for row in [
            "| loops:FU1 |",
            "| loops:FU1 | n/a: no sentence here. |",
            "| loops:FU1 | A wait ends. | n/a: x | and a note |",
        ] {
            assert_eq!(findings(row).len(), 1, "{row}");
        }
    }

    #[test]
    fn a_sentence_has_three_to_twenty_words_and_a_period() {
        let long = format!("{}end.", "word ".repeat(20));
        for sentence in ["", "Waits.", "It waits.", "A wait ends", &long] {
            let row = format!("| loops:FU1 | {sentence} | n/a: x |");
            assert_eq!(findings(&row).len(), 1, "{sentence}");
        }
        let fits = format!("| loops:FU1 | {}end. | n/a: x |", "word ".repeat(19));
        assert_eq!(findings(&fits), Vec::<String>::new());
    }

    #[test]
    fn two_rules_do_not_share_a_sentence() {
        let rows = "| loops:FU1 | A wait ends. | n/a: x |
            | strategies:PC1 | A Wait ends. | n/a: x |
            | loops:FU2 | A wait ends late. | n/a: x |";
        let found = findings(rows);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("strategies:PC1 has the sentence of loops:FU1"));
    }

    #[test]
    fn a_rule_has_one_row_and_a_known_spec() {
        let twice = "| loops:FU1 | A wait ends. | n/a: x |
            | loops:FU1 | A wait ends late. | n/a: x |";
        assert_eq!(findings(twice).len(), 1);
        for rule in ["FU1", "loops:FU", "loops:12", "loops:FU1a", "netty:FU1"] {
            let row = format!("| {rule} | A wait ends. | n/a: x |");
            assert_eq!(findings(&row).len(), 1, "{rule}");
        }
    }
}
