//! Tables of HTTP fields: the names are tokens in lower case, and no value can end a line.

use std::collections::BTreeMap;

use super::hiding::names_secret;
use super::mistake::Mistake;
use super::setting::{Reading, Scope, Setting, joined};
use super::tree::{Entry, Value};

/// The fields by their names in lower case.
impl Setting for BTreeMap<String, String> {
    fn expected() -> String {
        "a table of fields with texts, such as `{ x-source = \"gateway\" }`".to_owned()
    }

    fn read(scope: &Scope<'_>, reading: &mut Reading) -> Option<Self> {
        let Some(node) = scope.chosen() else {
            return Some(Self::new());
        };
        let Some(entries) = node.table() else {
            // A text may be that of a field such as `Authorization`.
            let is_text = matches!(node.value, Value::Text(_));
            reading.secrets.extend(is_text.then_some(node.at));
            let subject = match is_text {
                true => "a text".to_owned(),
                false => node.shown(),
            };
            let what = format!("{subject} is not a table");
            let mistake = Mistake::new(node.at, scope.path(), what);
            reading.mistakes.add(mistake.expected(Self::expected()));
            return None;
        };
        let mut read = Self::new();
        let mut is_complete = true;
        for entry in entries {
            match field(scope, entry, &read, reading) {
                Some((name, value)) => {
                    read.insert(name, value);
                }
                None => is_complete = false,
            }
        }
        is_complete.then_some(read)
    }

    fn shown(&self) -> String {
        let shown = |name: &str, value: &str| match names_secret(name) {
            true => format!("{name} = (hidden)"),
            false => format!("{name} = {value:?}"),
        };
        let pairs = self.iter().map(|(name, value)| shown(name, value));
        format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    }
}

/// Reads a field. The value of a field whose name is that of a secret is not printed.
fn field(
    scope: &Scope<'_>,
    entry: &Entry,
    before: &BTreeMap<String, String>,
    reading: &mut Reading,
) -> Option<(String, String)> {
    if names_secret(&entry.key) {
        reading.secrets.push(entry.node.at);
    }
    let path = joined(scope.path(), &entry.key);
    let name = entry.key.to_ascii_lowercase();
    let what = match () {
        () if !is_token(&name) => Some("no field can have this name"),
        () if before.contains_key(&name) => Some("the field has two values"),
        () => None,
    };
    if let Some(what) = what {
        let mistake = Mistake::new(entry.key_at, path, what);
        reading
            .mistakes
            .add(mistake.expected("a name of letters, digits and `-`, once"));
        return None;
    }
    let value: String =
        reading.leaf(&Scope::new(path.clone(), Some(&entry.node), entry.node.at))?;
    if !is_value(&value) {
        let what = "no field can have this value";
        let mistake = Mistake::new(entry.node.at, path, what);
        let expected = "visible characters, with spaces only between them";
        reading.mistakes.add(mistake.expected(expected));
        return None;
    }
    Some((name, value))
}

/// Returns `true` if a text can be the name of a field.
fn is_token(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

/// Returns `true` if a text can be the value of a field.
pub(super) fn is_value(text: &str) -> bool {
    text.trim() == text && !text.chars().any(char::is_control)
}
