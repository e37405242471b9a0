//! Reads JSON: the snapshots of a gateway. The input may be anything: depth and size are limited.

use std::collections::BTreeMap;

/// How deep arrays and objects may be nested.
const DEPTH: usize = 32;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// Reads a text that is one value. Returns `None` if it is not.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader {
            rest: text.as_bytes(),
        };
        let value = reader.value(0)?;
        reader.skip();
        reader.rest.is_empty().then_some(value)
    }

    /// Returns a field of an object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// Returns the elements of an array, or none.
    pub(super) fn list(&self, name: &str) -> &[Self] {
        match self.get(name) {
            Some(Self::Array(values)) => values,
            _ => &[],
        }
    }

    /// Returns a text field, or an empty text.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Self::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns a number field.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_number()
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns `true` for a field that is true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Self::Flag(true))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn skip(&mut self) {
        let spaces = self
            .rest
            .iter()
            .take_while(|byte| b" \t\r\n".contains(byte));
        self.rest = &self.rest[spaces.count()..];
    }

    /// Takes a byte if it is the next one after spaces.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip();
        let is_next = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(is_next)..];
        is_next
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.rest = self.rest.strip_prefix(word.as_bytes())?;
        Some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.skip();
        match self.rest.first()? {
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Flag(true)),
            b'f' => self.word("false", Value::Flag(false)),
            b'"' => self.text().map(Value::Text),
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = self.rest.iter().take_while(is_part).count();
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        let number: f64 = str::from_utf8(number).ok()?.parse().ok()?;
        number.is_finite().then_some(Value::Number(number))
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.takes(b'[');
        let mut values = Vec::new();
        if self.takes(b']') {
            return Some(Value::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.takes(b']') {
                return Some(Value::Array(values));
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.takes(b'{');
        let mut fields = BTreeMap::new();
        if self.takes(b'}') {
            return Some(Value::Object(fields));
        }
        loop {
            self.skip();
            let name = self.text()?;
            if !self.takes(b':') {
                return None;
            }
            fields.insert(name, self.value(depth + 1)?);
            if self.takes(b'}') {
                return Some(Value::Object(fields));
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix(b"\"")?;
        let mut text = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return String::from_utf8(text).ok(),
                b'\\' => self.escape(&mut text)?,
                byte => text.push(*byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        match byte {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'"' | b'\\' | b'/' => text.push(*byte),
            b'u' => {
                let digits = self.rest.get(..4)?;
                self.rest = &self.rest[4..];
                let code = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
                // The gateway writes no halves of characters.
                let found = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
        Some(())
    }
}
