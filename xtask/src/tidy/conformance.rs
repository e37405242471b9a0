//! Conformance tables: every rule of a specification names its tests, or says why not.
//!
//! A row of a table in `docs/conformance/*.md` is `| spec:RULE | answer |`, where the answer is
//!
//! * one or more tests, each in backticks, separated by commas:
//!   `crate_name::any::path::test_name`, or `doc:Type::method` for an example in the docs;
//! * or a sentence that begins with `differs:`, `later:` or `n/a:`.
//!
//! Cells between the two are for people. `README.md` in that folder is not a table.

use std::collections::{HashMap, HashSet};

use super::tree::File;
use super::{Finding, Tree, markdown, syntax};

const FOLDER: &str = "docs/conformance/";
const SPECS: [&str; 3] = ["loops", "strategies", "isolation"];
const REASONS: [&str; 3] = ["differs:", "later:", "n/a:"];

/// Checks every row, and that no rule has two.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let code = Code::of(tree);
    let mut findings = Vec::new();
    let mut seen: HashMap<String, String> = HashMap::new();
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
        if let Some(first) = seen.insert(rule.to_string(), format!("{}:{line}", file.path)) {
            find(format!("{rule} has a row already, at {first}"));
        }
        let answer = row[1..].last().map_or("", String::as_str);
        if let Err(why) = code.check(answer) {
            find(format!("{rule}: {why}"));
        }
    }
    findings
}

fn is_table(file: &File) -> bool {
    let name = file.path.strip_prefix(FOLDER);
    name.is_some_and(|name| name.ends_with(".md") && name != "README.md")
}

/// The rows of every table in a file, headers and rulers left out.
fn rows(file: &File) -> Vec<(&File, usize, Vec<String>)> {
    let rows = markdown::prose(&file.text).filter_map(|(line, text)| {
        let cells = markdown::cells(text)?;
        let first = cells.first()?;
        let is_ruler = first.chars().all(|c| matches!(c, '-' | ':'));
        (!is_ruler && first != "rule").then_some((file, line, cells))
    });
    rows.collect()
}

/// `spec:LETTERSn`, the spec being one of ours.
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

/// What the crates contain, by name.
struct Code {
    /// Tests by crate folder.
    tests: HashMap<String, HashSet<String>>,
    definitions: HashSet<String>,
}

impl Code {
    fn of(tree: &Tree) -> Code {
        let mut tests: HashMap<String, HashSet<String>> = HashMap::new();
        let mut definitions = HashSet::new();
        for file in tree.rust_below("crates/") {
            let folder = file.path.split('/').nth(1).unwrap_or_default();
            let names = syntax::test_functions(&file.tokens);
            tests.entry(folder.to_string()).or_default().extend(names);
            definitions.extend(syntax::definitions(&file.tokens));
        }
        Code { tests, definitions }
    }

    fn check(&self, answer: &str) -> Result<(), String> {
        if let Some(reason) = REASONS
            .into_iter()
            .find(|reason| answer.starts_with(reason))
        {
            let empty = answer[reason.len()..].trim().is_empty();
            return if empty {
                Err(format!("`{reason}` needs a sentence"))
            } else {
                Ok(())
            };
        }
        for part in answer.split(',').map(str::trim) {
            let name = part.strip_prefix('`').and_then(|p| p.strip_suffix('`'));
            match name {
                Some(name) => self.check_name(name)?,
                None => {
                    let reasons = REASONS.join("`, `");
                    return Err(format!("neither tests in backticks nor one of `{reasons}`"));
                }
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
        let krate = name.split("::").next().unwrap_or(name);
        match self.tests.get(&folder(krate)) {
            None => Err(format!("`{name}` does not begin with the name of a crate")),
            Some(tests) if tests.contains(last) => Ok(()),
            Some(_) => Err(format!("{krate} has no test named `{last}`")),
        }
    }
}

/// The folder of a crate, given as it is written in code or in a manifest.
fn folder(krate: &str) -> String {
    krate.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Completion; impl Completion { pub fn wait(self) {} }
        fn helper() {}
        #[test] fn waits() {} #[test] fn cancels() {}";

    fn findings(rows: &str) -> Vec<String> {
        let table = format!("# Loops\n\n| rule | test or reason |\n|---|---|\n{rows}\n");
        let tree = Tree::of(&[
            ("crates/tidegate-promise/src/lib.rs", CODE),
            ("docs/conformance/README.md", "| example | of a row |\n"),
            ("docs/conformance/loops.md", &table),
        ]);
        check(&tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn a_row_names_tests_doc_tests_or_a_reason() {
        let rows = "| loops:FU1 | `tidegate_promise::waits`, `tidegate_promise::it::cancels` |
            | loops:FU2 | note | `doc:Completion::wait`, `doc:tidegate_promise` |
            | loops:FU3 | differs: waiting on any pinned loop is refused. |
            | strategies:PC1 | later: strategies come with the worker pool. |
            | isolation:K3 | n/a: Rust has no interrupt flag. |";
        assert_eq!(findings(rows), Vec::<String>::new());
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        assert_eq!(
            findings("| loops:FU1 | `tidegate_promise::gone` |").len(),
            1
        );
        assert_eq!(
            findings("| loops:FU1 | `tidegate_promise::helper` |").len(),
            1
        );
        assert_eq!(findings("| loops:FU1 | `other::waits` |").len(), 1);
        assert_eq!(findings("| loops:FU1 | `doc:Completion::gone` |").len(), 1);
    }

    #[test]
    fn an_answer_of_another_shape_is_found() {
        for answer in [
            "",
            "differs:",
            "`tidegate_promise::waits` and more",
            "tidegate_promise::waits",
        ] {
            assert_eq!(
                findings(&format!("| loops:FU1 | {answer} |")).len(),
                1,
                "{answer}"
            );
        }
    }

    #[test]
    fn a_rule_has_one_row_and_a_known_spec() {
        assert_eq!(
            findings("| loops:FU1 | n/a: x |\n| loops:FU1 | n/a: x |").len(),
            1
        );
        for rule in ["FU1", "loops:FU", "loops:12", "loops:FU1a", "netty:FU1"] {
            assert_eq!(findings(&format!("| {rule} | n/a: x |")).len(), 1, "{rule}");
        }
    }
}
