//! The pages of the guide that solve a task show a program of the folder `guide`, and what it
//! prints.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const BLESS: &str = "TIDEGATE_BLESS=1 cargo test -p tidegate-examples";

/// Checks that a page has the text of the program with this name, and then its output.
fn check(page: &str, name: &str) {
    check_section(page, "# ", name);
}

/// Checks the program after the first line that begins with `heading`.
fn check_section(page: &str, heading: &str, name: &str) {
    let path = Path::new(ROOT).join(format!("../docs/guide/{page}.md"));
    let text = read(&path);
    let start = text.find(heading).expect("the page has such a heading");
    let (before, text) = text.split_at(start);
    let source = read(&Path::new(ROOT).join(format!("guide/{name}.rs")));
    let program = source
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.is_empty());
    let program: String = program.map(|line| format!("{line}\n")).collect();
    let current = replaced(text, "```rust\n", &program);
    let current = replaced(&current, "```text\n", &printed(name));
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{current}")).expect("the page can be written");
        return;
    }
    for (shown, real) in text.lines().zip(current.lines()) {
        assert_eq!(shown, real, "{page}.md is out of date: run `{BLESS}`");
    }
    assert!(text == current, "{page}.md is out of date: run `{BLESS}`");
}

/// Replaces the content of the first block that begins with `fence`.
fn replaced(page: &str, fence: &str, content: &str) -> String {
    let (head, rest) = page.split_once(fence).expect("the page has such a block");
    let end = rest.find("```\n").expect("the block ends");
    format!("{head}{fence}{content}{}", &rest[end..])
}

/// Runs an example and returns what it prints.
fn printed(name: &str) -> String {
    let output = Command::new(example(name)).output();
    let output = output.expect("cargo has built it");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Returns the built example, which stands in a folder beside that of the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("it is in target/…/deps");
    folder.join("examples").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn protect_a_database() {
    check("protect-a-database", "protect_a_database");
}

#[test]
fn serve_a_protocol() {
    check("serve-a-protocol", "serve_a_protocol");
}

#[test]
fn test_time() {
    check("test-time", "test_time");
}

#[test]
fn shut_down_cleanly() {
    check("shutdown", "shut_down_cleanly");
}

#[test]
fn see_what_it_does() {
    check("see-what-it-does", "see_what_it_does");
    check_section("see-what-it-does", "## In your logs", "trace_a_request");
}
