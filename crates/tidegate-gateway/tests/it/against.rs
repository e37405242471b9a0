//! What `tidegate check --against` prints.

use tidegate_testkit::begins;

use crate::files::{run, says};
use crate::mistakes::GOOD;

/// Checks `new.toml` with this text against `old.toml` with that one.
fn compare(old: &str, new: &str) -> (String, u8) {
    let files = [("old.toml", old), ("new.toml", new)];
    run(&files, &["check", "new.toml", "--against", "old.toml"])
}

#[test]
fn what_a_reload_changes_is_one_line_each() {
    let new = GOOD.replace("10.0.0.1:80", "10.0.0.2:80");
    let new = format!("{new}limit = 7\n[route.more]\npath = \"/more\"\nupstream = \"a\"\n");
    let expected = "\
new.toml: can be used; routes: 2, upstreams: 1
compared with old.toml:
change  upstream     a
change  route        a
add     route        more
change  command      a
add     command      more
keep    sections: 3, listeners: 1
";
    assert_eq!(compare(GOOD, &new), (expected.to_owned(), 0));
    let (same, status) = compare(GOOD, GOOD);
    let kept = "keep    sections: 3, listeners: 1, upstreams: 1, routes: 1, commands: 1\n";
    assert!(same.ends_with(&format!(":\n{kept}")), "{same}");
    assert_eq!(status, 0);
}

#[test]
fn a_file_that_cannot_be_compared_is_a_message() {
    let wrong = GOOD.replace("[route.a]", "[rout.a]");
    let (output, status) = compare(GOOD, &wrong);
    begins(&output, "new.toml:");
    assert_eq!(status, 1, "{output}");
    let message = "old.toml:5:2: rout: the key is unknown";
    says("old", compare(&wrong, GOOD), 2, ["can be used", message]);
    let none = ["check", "new.toml", "--against", "none.toml"];
    let found = run(&[("new.toml", GOOD)], &none);
    says("none", found, 2, ["none.toml: cannot be read: "]);
}
