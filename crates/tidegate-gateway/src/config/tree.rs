//! The values of a configuration file as a tree in which each key and value has its place.
//!
//! The parser of the `toml` crate continues after a mistake, so that all mistakes of syntax are
//! found at once. Variables (`${NAME}`, `${NAME:-default}`) are replaced while the tree is made.
//! A text with a variable remembers its form in the file, and only that form is ever printed.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::hiding::{in_lines, names_secret};
use super::mistake::{Mistake, Mistakes};
use super::source::{FileId, Sources, Span};

/// Returns the value of an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A value and its place.
#[derive(Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The place of the value.
    pub at: Span,
    /// The text in the file, if the value contains variables.
    pub written: Option<String>,
    /// `true` if its key, or one above it, names a secret: no message shows it.
    pub is_secret: bool,
}

/// A value of TOML.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A string, with its variables replaced.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A date, which no setting accepts.
    Date,
    /// An array.
    List(Vec<Node>),
    /// A table, its entries in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_at: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Returns the entries of a table.
    pub fn table(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of a key, if this is a table that has the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let mut entries = self.table()?.iter();
        entries
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// Returns the value for a message. A text with variables is shown as it is in the file, and a secret
    /// is not.
    pub fn shown(&self) -> String {
        if self.is_secret {
            return "the value".to_owned();
        }
        if let Some(written) = &self.written {
            return format!("`{written}`");
        }
        match &self.value {
            Value::Text(text) => format!("`{}`", text.escape_debug()),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Date => "a date".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

impl Node {
    /// Returns `true` if a text of the value contains a variable.
    pub fn has_variables(&self) -> bool {
        let inside = match &self.value {
            Value::List(nodes) => nodes.iter().any(Self::has_variables),
            Value::Table(entries) => entries.iter().any(|entry| entry.node.has_variables()),
            _ => false,
        };
        inside || self.written.is_some()
    }

    /// Returns the value as it is in the file, with its variables.
    pub fn notation(&self) -> String {
        if self.is_secret {
            return "(hidden)".to_owned();
        }
        if let Some(written) = &self.written {
            return format!("\"{written}\"");
        }
        match &self.value {
            Value::Text(text) => format!("{text:?}"),
            Value::List(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(Self::notation).collect();
                format!("[{}]", nodes.join(", "))
            }
            Value::Table(entries) => {
                let pairs = entries.iter();
                let pairs = pairs.map(|e| format!("{} = {}", e.key, e.node.notation()));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
            _ => self.shown(),
        }
    }
}

/// Prints texts with variables as they are in the file.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.written, &self.value) {
            (Some(_), _) => f.write_str(&self.shown()),
            (None, value) => value.fmt(f),
        }
    }
}

/// Prints no text: it may be the value of a variable or a secret.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("a text"),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Date => f.write_str("a date"),
            Self::List(nodes) => f.debug_list().entries(nodes).finish(),
            Self::Table(entries) => f.debug_list().entries(entries).finish(),
        }
    }
}

/// The tables whose keys are names that users choose: a route may be called `token`.
const NAMED: [&str; 3] = ["listen", "upstream", "route"];

/// Parses a file. Mistakes are added to `mistakes`; what could be read is returned. What may be a secret is
/// hidden in `sources`, wherever it is.
pub(super) fn parse(
    file: FileId,
    sources: &mut Sources,
    variables: Variables<'_>,
    mistakes: &mut Mistakes,
) -> Node {
    let text = sources.text(file).to_owned();
    let (root, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        for range in in_lines(&text) {
            sources.hide(Span::new(file, range));
        }
    }
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        mistakes.add(Mistake::new(Span::new(file, range), "", error.message()));
    }
    let mut reader = Reader {
        file,
        text: &text,
        variables,
        sources,
        mistakes,
    };
    let at = root.span();
    reader.table(root.get_ref(), at, Place::Root)
}

/// Converts the values of one file.
struct Reader<'a> {
    file: FileId,
    text: &'a str,
    variables: Variables<'a>,
    sources: &'a mut Sources,
    mistakes: &'a mut Mistakes,
}

/// Where a value is, as far as it decides what is a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The file itself.
    Root,
    /// A table of sections with names.
    Named,
    /// Below a key that names a secret.
    Secret,
    /// Anywhere else.
    Other,
}

impl Place {
    /// Returns the place of the value of a key.
    fn below(self, key: &str, is_table: bool) -> Self {
        match self {
            Self::Secret => Self::Secret,
            Self::Root if NAMED.contains(&key) => Self::Named,
            Self::Named if is_table => Self::Other,
            _ if names_secret(key) => Self::Secret,
            _ => Self::Other,
        }
    }
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, at: std::ops::Range<usize>, place: Place) -> Node {
        let mut entries: Vec<Entry> = Vec::new();
        for (key, value) in table.iter() {
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            let place = place.below(key.get_ref(), is_table);
            entries.push(Entry {
                key: key.get_ref().to_string(),
                key_at: Span::new(self.file, key.span()),
                node: self.node(value, place),
            });
        }
        // The parser sorts by key.
        entries.sort_by_key(|entry| entry.key_at);
        self.plain(Value::Table(entries), at)
    }

    /// Reads a value. A secret is hidden: the values below it are, if it is a table, whose place may be that
    /// of its header.
    fn node(&mut self, value: &Spanned<DeValue<'_>>, place: Place) -> Node {
        let mut node = self.value(value, place);
        node.is_secret = place == Place::Secret;
        if node.is_secret && node.table().is_none() {
            self.sources.hide(node.at);
        }
        node
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, place: Place) -> Node {
        let at = value.span();
        match value.get_ref() {
            DeValue::String(text) => self.string(text, at, place),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                let value = parsed.unwrap_or_else(|_| {
                    let span = Span::new(self.file, at.clone());
                    let what = "the number does not fit into 64 bits";
                    let mistake = Mistake::new(span, "", what);
                    self.mistakes.add_broken(span, mistake);
                    0
                });
                self.plain(Value::Integer(value), at)
            }
            DeValue::Float(number) => {
                let value = number.as_str().parse().unwrap_or(f64::NAN);
                self.plain(Value::Float(value), at)
            }
            DeValue::Boolean(value) => self.plain(Value::Bool(*value), at),
            DeValue::Datetime(_) => self.plain(Value::Date, at),
            DeValue::Array(list) => {
                let nodes = list.iter().map(|value| self.node(value, place)).collect();
                self.plain(Value::List(nodes), at)
            }
            DeValue::Table(table) => self.table(table, at, place),
        }
    }

    fn plain(&self, value: Value, at: std::ops::Range<usize>) -> Node {
        Node {
            value,
            at: Span::new(self.file, at),
            written: None,
            is_secret: false,
        }
    }

    /// Replaces the variables of a string.
    fn string(&mut self, text: &str, at: std::ops::Range<usize>, place: Place) -> Node {
        if !text.contains("${") {
            return self.plain(Value::Text(text.to_owned()), at);
        }
        let expanded = expand(text, self.variables);
        for problem in expanded.problems {
            let span = self.place_of(problem.about, &at);
            // What is in the braces may be the secret itself.
            let what = match place == Place::Secret && problem.is_quoted {
                true => "the value has no valid name of a variable".to_owned(),
                false => problem.what,
            };
            let mistake = Mistake::new(span, "", what);
            let value = Span::new(self.file, at.clone());
            self.mistakes
                .add_broken(value, mistake.expected(problem.expected));
        }
        let mut node = self.plain(Value::Text(expanded.text), at);
        node.written = expanded.has_variables.then(|| text.to_owned());
        node
    }

    /// Returns the place of a variable within the string that contains it.
    fn place_of(&self, variable: &str, string: &std::ops::Range<usize>) -> Span {
        let found = self.text.get(string.clone()).and_then(|t| t.find(variable));
        let range = match found {
            Some(at) => string.start + at..string.start + at + variable.len(),
            None => string.clone(),
        };
        Span::new(self.file, range)
    }
}

/// A string after its variables were replaced.
struct Expanded<'a> {
    text: String,
    has_variables: bool,
    problems: Vec<Problem<'a>>,
}

/// A variable that cannot be replaced.
struct Problem<'a> {
    /// The text in the file.
    about: &'a str,
    what: String,
    /// `true` if `what` has what is in the braces, and that is no name.
    is_quoted: bool,
    expected: &'static str,
}

/// Replaces `${NAME}` and `${NAME:-default}`. `$${` stands for `${`.
fn expand<'a>(text: &'a str, variables: Variables<'_>) -> Expanded<'a> {
    let mut result = Expanded {
        text: String::with_capacity(text.len()),
        has_variables: false,
        problems: Vec::new(),
    };
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            result.text.push_str(before);
            result.text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        result.text.push_str(&rest[..at]);
        result.has_variables = true;
        let Some(end) = rest[at..].find('}') else {
            result.problems.push(Problem {
                about: &rest[at..],
                what: "the variable has no closing brace".to_owned(),
                is_quoted: false,
                expected: "`${NAME}`; `$${` stands for `${`",
            });
            return result;
        };
        let whole = &rest[at..=at + end];
        rest = &rest[at + end + 1..];
        match value_of(&whole[2..whole.len() - 1], variables) {
            Ok(value) => result.text.push_str(&value),
            Err((what, expected)) => result.problems.push(Problem {
                about: whole,
                is_quoted: what.ends_with(NO_NAME),
                what,
                expected,
            }),
        }
    }
    result.text.push_str(rest);
    result
}

/// The end of the message about what cannot be the name of a variable.
const NO_NAME: &str = " is not the name of a variable";

/// Returns the value of the inner part of `${…}`.
fn value_of(inner: &str, variables: Variables<'_>) -> Result<String, (String, &'static str)> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if name.is_empty() || !name.chars().all(is_part) {
        let what = format!("`{name}`{NO_NAME}");
        return Err((what, "letters, digits and `_`"));
    }
    let value = variables(name).filter(|value| !value.is_empty());
    match (value, default) {
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let what = format!("the variable `{name}` is not set");
            Err((what, "a variable of the environment, or `${NAME:-default}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the tree, its places and the variables.

    use super::{Node, Value, parse};
    use crate::config::mistake::Mistakes;
    use crate::config::source::Sources;

    fn read(text: &str) -> (Node, String) {
        let mut sources = Sources::default();
        let file = sources.add("t.toml", text);
        let mut mistakes = Mistakes::default();
        let variables = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        let node = parse(file, &mut sources, &variables, &mut mistakes);
        (node, mistakes.render(&sources))
    }

    fn text_of(text: &str) -> Option<String> {
        let (node, _) = read(text);
        match &node.get("a")?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_and_never_printed() {
        let (node, _) = read("a = \"host:${PORT}\"\n");
        let node = node.get("a").unwrap();
        assert_eq!(node.value, Value::Text("host:8080".into()));
        assert_eq!(node.shown(), "`host:${PORT}`");
        assert!(!format!("{node:?}").contains("8080"));
    }

    #[test]
    fn a_default_and_an_escape_are_understood() {
        assert_eq!(text_of("a = \"${NONE:-x}\"").as_deref(), Some("x"));
        assert_eq!(text_of("a = \"$${PORT}\"").as_deref(), Some("${PORT}"));
        assert_eq!(text_of("a = \"$5\"").as_deref(), Some("$5"));
    }

    #[test]
    fn a_variable_that_is_not_set_is_marked_within_its_string() {
        let (_, messages) = read("a = \"x ${NONE} ${ALSO}\"\n");
        assert!(messages.contains("t.toml:1:8: the variable `NONE` is not set"));
        assert!(messages.contains("t.toml:1:16: the variable `ALSO` is not set"));
    }

    #[test]
    fn all_mistakes_of_syntax_are_found_at_once() {
        let (_, messages) = read("a = \nb = 1\nc = = 2\n");
        assert!(messages.contains("t.toml:1:"), "{messages}");
        assert!(messages.contains("t.toml:3:"), "{messages}");
    }

    #[test]
    fn a_line_with_a_secret_is_hidden_when_its_syntax_is_wrong() {
        let (_, messages) = read("token = \"marker\n");
        assert!(!messages.contains("marker"), "{messages}");
    }

    #[test]
    fn entries_are_in_the_order_of_the_file() {
        let (node, _) = read("b = 1\na = 2\n");
        let keys: Vec<&str> = node
            .table()
            .unwrap()
            .iter()
            .map(|e| e.key.as_str())
            .collect();
        assert_eq!(keys, ["b", "a"]);
    }
}
