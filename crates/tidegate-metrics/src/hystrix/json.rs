//! Writes JSON objects and arrays, field by field.
//!
//! The streams only write, and they write few shapes. A library for JSON would add five packages to
//! a program for what these functions do.

use std::fmt::{Display, Write};
use std::time::Duration;

/// A JSON object under construction.
pub(super) struct Object {
    text: String,
    prefix: &'static str,
}

impl Object {
    pub(super) fn new() -> Self {
        let text = "{".to_owned();
        Self { text, prefix: "" }
    }

    /// Begins the names of the fields that follow with `prefix`.
    pub(super) fn prefixed(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Adds a string.
    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.put(name, quoted(value))
    }

    /// Adds a string, or null.
    pub(super) fn optional_text(self, name: &str, value: Option<&str>) -> Self {
        self.put(name, value.map_or_else(|| "null".to_owned(), quoted))
    }

    /// Adds a size. Readers expect 32 bits, so a larger one becomes the largest of these.
    pub(super) fn size(self, name: &str, value: usize) -> Self {
        self.put(name, value.min(i32::MAX as usize))
    }

    /// Adds a duration in whole milliseconds.
    pub(super) fn millis(self, name: &str, value: Duration) -> Self {
        self.put(name, value.as_millis())
    }

    /// Adds a value whose text is JSON: a whole number, `true`, `false`, an object or an array.
    pub(super) fn put(mut self, name: &str, value: impl Display) -> Self {
        let gap = if self.text.len() > 1 { "," } else { "" };
        let name = quoted(&format!("{}{name}", self.prefix));
        write!(self.text, "{gap}{name}:{value}").expect("writing to a string does not fail");
        self
    }

    /// Returns the text of the object.
    pub(super) fn end(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

/// Returns an array of values that are JSON already.
pub(super) fn array(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<_> = values.into_iter().collect();
    format!("[{}]", values.join(","))
}

/// Returns a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control))
                    .expect("writing to a string does not fail");
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}
