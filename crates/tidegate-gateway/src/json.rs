//! Writes JSON objects and arrays, field by field.

use std::fmt::{Display, Write as _};

/// A JSON object under construction.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a text.
    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.raw(name, quoted(value))
    }

    /// Adds a value that is JSON already: a number, a flag, an object.
    pub(crate) fn raw(mut self, name: &str, value: impl Display) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{comma}{}:{value}", quoted(name));
        self
    }

    /// Adds a value that is JSON already, or null.
    pub(crate) fn optional(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// Returns the object.
    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Returns an array of values that are JSON already.
pub(crate) fn array(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    format!("[{}]", values.join(","))
}

/// Returns a text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    escape(text, |part| quoted.push_str(part));
    quoted.push('"');
    quoted
}

/// Passes a text on in parts, with what has another meaning in JSON replaced.
pub(crate) fn escape(text: &str, mut put: impl FnMut(&str)) {
    // Most texts are plain, and a look at their bytes is enough.
    if text.bytes().all(is_plain) {
        return put(text);
    }
    // `<` and the line ends of JavaScript, so that no page takes a text for its own.
    let is_special = |c: char| c.is_control() || "\"\\<\u{2028}\u{2029}".contains(c);
    let mut rest = text;
    while let Some(at) = rest.find(is_special) {
        let (plain, special) = rest.split_at(at);
        put(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('"') => put("\\\""),
            Some('\\') => put("\\\\"),
            Some(c) => put(&format!("\\u{:04x}", u32::from(c))),
            None => {}
        }
        rest = chars.as_str();
    }
    put(rest);
}

/// Returns `true` for a byte that is a whole character and is not replaced.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<')
}

#[cfg(test)]
mod tests {
    //! The text of objects.

    use super::{Object, array, quoted};

    #[test]
    fn each_special_character_is_replaced_and_no_other() {
        let special = |c: char| c.is_control() || "\"\\<\u{2028}\u{2029}".contains(c);
        let all = ('\0'..='\u{ff}').chain('\u{2020}'..='\u{2030}');
        for c in all {
            for text in [c.to_string(), format!("a{c}b"), format!("é{c}")] {
                let found = quoted(&text);
                let is_same = found == format!("\"{text}\"");
                assert_eq!(is_same, !special(c), "{c:?} {found}");
            }
        }
    }

    #[test]
    fn texts_are_escaped_and_fields_are_separated() {
        let object = Object::new().text("a\"", "b\\\n<").raw("n", 1);
        let object = object
            .optional("none", None::<u32>)
            .raw("list", array(["1".into(), quoted("x")]));
        let expected =
            "{\"a\\\"\":\"b\\\\\\u000a\\u003c\",\"n\":1,\"none\":null,\"list\":[1,\"x\"]}";
        assert_eq!(object.end(), expected);
        assert_eq!(Object::new().end(), "{}");
    }
}
