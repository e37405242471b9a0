//! What a whole file has: a listener for requests, and a route. A file without them is empty, or was cut
//! off while it was written.

use super::mistake::{Mistake, Mistakes};
use super::source::Sources;
use super::tree::Node;

/// Reports that there is no listener for requests, also none that is wrong, and that there is no route.
/// `mistakes` are those of syntax: a section is not missing if it may be in what could not be read.
pub(super) fn check(root: &Node, sources: &Sources, mistakes: &mut Mistakes) {
    let unread = Unread::of(sources, mistakes);
    if has_no(root, "listen", "admin") && !unread.may_have(root, "listen") {
        let at = root.get("listen").map_or(root.at, |listen| listen.at);
        let mistake = Mistake::new(at, "listen", "no listener: nothing to serve");
        let expected = "an address below `[listen]`, such as `http = \"0.0.0.0:80\"`";
        mistakes.add(mistake.expected(expected));
    } else if has_no(root, "route", "") && !unread.may_have(root, "route") {
        let at = root.get("route").map_or(root.at, |route| route.at);
        let mistake = Mistake::new(at, "route", "no route: each request gets status 404");
        let expected = "a route, such as `[route.all]` with `upstream` or `respond`";
        mistakes.add(mistake.expected(expected).warning());
    }
}

/// Returns `true` if a table has no entry but `other`, or is missing. A value that is no table is
/// another mistake.
fn has_no(root: &Node, key: &str, other: &str) -> bool {
    let Some(node) = root.get(key) else {
        return true;
    };
    let entries = node.table();
    entries.is_some_and(|entries| entries.iter().all(|entry| entry.key == other))
}

/// What could not be read, or may not have been.
struct Unread<'a> {
    /// A whole file is missing.
    a_file: bool,
    /// Of each file with a mistake, all of it, and what follows from the section of the first one on.
    texts: Vec<(&'a str, &'a str)>,
}

impl<'a> Unread<'a> {
    fn of(sources: &'a Sources, mistakes: &Mistakes) -> Self {
        let mut unread = Self {
            a_file: false,
            texts: Vec::new(),
        };
        let mut last = None;
        for mistake in mistakes.in_order() {
            unread.a_file |= mistake.path == "include";
            // What follows the first mistake of a file includes what follows the others.
            let file = Some(mistake.at.file());
            if std::mem::replace(&mut last, file) == file {
                continue;
            }
            let text = sources.text(mistake.at.file());
            let before = text.get(..mistake.at.range().start).unwrap_or(text);
            let section = before.rfind("\n[").unwrap_or(0);
            unread.texts.push((text, &text[section..]));
        }
        unread
    }

    /// Returns `true` if the section may be there: where it was not found, anywhere; otherwise the
    /// rest of it, behind the mistake. Comments do not count.
    fn may_have(&self, root: &Node, section: &str) -> bool {
        let is_found = root.get(section).is_some();
        let texts = self.texts.iter().map(|(all, rest)| match is_found {
            true => rest,
            false => all,
        });
        let lines = texts.flat_map(|text| text.lines());
        let mut read = lines.map(|line| line.split('#').next().unwrap_or_default());
        self.a_file || read.any(|line| line.contains(section))
    }
}
