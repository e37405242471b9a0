//! The workspace passes the tidy checks.

use xtask::tidy::{self, Tree};

#[test]
fn the_workspace_is_tidy() {
    let root = xtask::root::find().expect("tests run inside the workspace");
    let tree = Tree::read(&root).expect("the workspace can be read");
    let findings = tidy::check(&tree);
    let report: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(report.is_empty(), "tidy found:\n{}", report.join("\n"));
}
