//! The reference of all settings, made from the types.

use std::fmt::Write as _;

use super::load::sections;
use super::setting::Section;

/// The text before the sections.
const INTRODUCTION: &str = "\
# Reference of tidegate.toml

This page is made from the types of the gateway by `tidegate reference`; a test compares them.

- Durations: `\"250ms\"`, `\"1m 30s\"`. Sizes: `\"16KiB\"`, `\"10MB\"`. Percentages: `50`, `\"0.5%\"`.
- `\"${NAME}\"` is the value of a variable, `\"${NAME:-text}\"` has a default, `$${` stands for `${`.
  Messages, the page and `explain` show it where it is an address, a number, a duration or a name; any other
  text may be a secret, and is shown as it is in the file.
- `include = \"routes/*.toml\"` at the top adds files, relative to the file that names them. Each is
  included once.
- All other paths (`cert`, `key`, `roots`, `client_roots`, `file:`, `files`, `log.file`) are relative to the
  working directory of the process.
- `[defaults.route]` and `[defaults.upstream]` have the keys of a route and of an upstream. Each
  route and each upstream inherits them key by key. `false` switches an inherited section off, and
  so does `timeout = false` the timeout of a route.
- A section with another `kind` than the inherited one inherits nothing. `fallback`, `redirect`,
  `respond` and `files` are inherited as a whole, and so are lists and tables of fields: `header`,
  `rewrite.request` and `rewrite.response`.
";

/// Returns the reference as Markdown.
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    for (name, section) in sections() {
        let _ = write!(text, "\n## `[{name}]`\n\n{}\n\n", flowed(&section.about));
        text.push_str("| key | value | default | what it does |\n|---|---|---|---|\n");
        rows(&mut text, "", &section);
    }
    text
}

/// Writes a row for each key, the keys of inner sections below their own.
fn rows(text: &mut String, prefix: &str, section: &Section) {
    for field in &section.fields {
        let key = format!("{prefix}{}", field.name);
        let default = match (&field.default, &field.section) {
            (Some(default), _) => format!("`{default}`"),
            (None, Some(_)) => String::new(),
            (None, None) => "required".to_owned(),
        };
        let expected = match &field.section {
            Some(inner) => flowed(&inner.about),
            None => field.expected.clone(),
        };
        let about = flowed(&field.about);
        let row = format!(
            "| `{key}` | {} | {} | {} |\n",
            cell(&expected),
            cell(&default),
            cell(&about)
        );
        text.push_str(&row);
        if let Some(inner) = &field.section {
            rows(text, &format!("{key}."), inner);
        }
    }
}

/// Joins the lines of a documentation comment.
fn flowed(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes what would end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
