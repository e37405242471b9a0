//! Values of variables in messages: each is replaced by what is in the file.
//!
//! A value is replaced only where it is whole: a host that is a part of a longer one stays, so that a short
//! value does not garble a message.

use std::fmt;
use std::ops::Deref;

use super::address::Address;
use super::setting::Leaf;
use super::tree::Node;

/// A text that messages contain. It prints itself as it is in the configuration: the values of variables are
/// not printed.
///
/// ```
/// use tidegate_gateway::config::ShownText;
///
/// let path = ShownText::from("/health");
/// assert_eq!((&*path, path.to_string().as_str()), ("/health", "/health"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ShownText {
    text: String,
    /// The text with its variables, if it has any.
    written: Option<String>,
}

impl ShownText {
    /// Returns the text with its variables, if it has any.
    pub(crate) fn written(&self) -> Option<&str> {
        self.written.as_deref()
    }
}

impl From<&str> for ShownText {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            written: None,
        }
    }
}

impl Deref for ShownText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ShownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written().unwrap_or(self))
    }
}

impl fmt::Debug for ShownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Leaf for ShownText {
    const EXPECTED: &'static str = String::EXPECTED;

    fn parse(node: &Node) -> Result<Self, String> {
        Ok(Self {
            text: String::parse(node)?,
            written: node.written.clone(),
        })
    }

    fn show(&self) -> String {
        self.text.show()
    }
}

impl Address {
    /// Returns a message about this address in which a variable is as it is in the file. `label` is the
    /// address as operators see it.
    pub(crate) fn hide_in(&self, message: &str, label: &str) -> String {
        self.hide_server(message, label, None)
    }

    /// Does the same for a server whose certificate has the name `name`: it is the host in its URLs.
    pub(crate) fn hide_server(
        &self,
        message: &str,
        label: &str,
        name: Option<&ShownText>,
    ) -> String {
        let mut pairs = Vec::new();
        if label.contains("${") {
            match self {
                Self::Unix(path) => {
                    let label = label.strip_prefix("unix:").unwrap_or(label);
                    pairs.push((path.display().to_string(), label.to_owned()));
                }
                Self::Tcp { host, port } => {
                    let shown = label.strip_suffix(&format!(":{port}")).unwrap_or(label);
                    pairs.push((self.to_string(), label.to_owned()));
                    // Errors of a lookup, and addresses with the usual port, name the host alone.
                    pairs.push((host.clone(), shown.to_owned()));
                }
            }
        }
        let has_variable = |name: &ShownText| name.written().is_some();
        if let Some(name) = name.filter(|name| !pairs.is_empty() || has_variable(name)) {
            if let Self::Tcp { port, .. } = self {
                let shown = shown_port(label, *port);
                pairs.push((format!("{}:{port}", &**name), format!("{name}:{shown}")));
            }
            pairs.push((name.text.clone(), name.to_string()));
        }
        replaced(message, &pairs)
    }
}

/// Returns the port of an address as operators see it. If one variable is host and port, it stands for the port.
fn shown_port(label: &str, port: u16) -> String {
    let base = label.split('@').next().unwrap_or(label);
    let number = port.to_string();
    match base.rsplit_once(':') {
        Some((_, shown)) if shown == number || shown.starts_with("${") => shown.to_owned(),
        _ if base.contains("${") => base.to_owned(),
        _ => number,
    }
}

/// Returns a message in which each whole value is replaced by what is shown for it. Of several values that
/// begin at the same place, the longest counts. What is shown is not looked at again.
pub(crate) fn replaced(message: &str, pairs: &[(String, String)]) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let before = &message[..message.len() - rest.len()];
        let fits = |(value, _): &&(String, String)| {
            let own = rest.get(..value.len());
            // The host of a URL may have got small letters.
            own.is_some_and(|own| !own.is_empty() && own.eq_ignore_ascii_case(value))
                && is_whole(before, value, &rest[value.len()..])
        };
        let found = pairs.iter().filter(fits).max_by_key(|pair| pair.0.len());
        let length = match found {
            Some((value, shown)) => {
                text.push_str(shown);
                value.len()
            }
            None => {
                text.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    text
}

/// Returns `true` if a value between these texts is not a part of a longer host.
fn is_whole(before: &str, value: &str, after: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric();
    let joins = |c: char| "-._~".contains(c);
    let begins =
        !value.starts_with(is_inner) || !before.trim_end_matches(joins).ends_with(is_inner);
    // A dot at the end of a sentence is no part of a host.
    let ends = !value.ends_with(is_inner) || !after.trim_start_matches(joins).starts_with(is_inner);
    begins && ends
}

#[cfg(test)]
mod tests {
    //! What is replaced in a message.

    use super::{Address, ShownText, replaced};

    #[test]
    fn only_a_whole_value_is_replaced() {
        let pairs = [("a", "${A}"), ("a.b:80", "${A}.b:80"), ("x-y", "${A}")];
        let pairs = pairs.map(|(value, shown)| (value.to_owned(), shown.to_owned()));
        let rows = [
            (
                "a failed at https://a/a",
                "${A} failed at https://${A}/${A}",
            ),
            ("https://a.b:80/ failed", "https://${A}.b:80/ failed"),
            ("https://a.b:8080/ failed", "https://a.b:8080/ failed"),
            ("b.a has a-b, ba, a.", "b.a has a-b, ba, ${A}."),
            (
                "`X-Y` and `x-y-z` and ${A}",
                "`${A}` and `x-y-z` and ${${A}}",
            ),
        ];
        for (message, shown) in rows {
            assert_eq!(replaced(message, &pairs), shown);
        }
    }

    #[test]
    fn the_name_in_a_certificate_is_shown_as_it_is_in_the_file() {
        let at = Address::Tcp {
            host: "10.0.0.1".to_owned(),
            port: 8443,
        };
        let name = ShownText {
            text: "t.example".to_owned(),
            written: Some("${TN}".to_owned()),
        };
        let rows = [
            ("10.0.0.1:8443", "https://${TN}:8443/ failed"),
            ("10.0.0.1:${PORT}", "https://${TN}:${PORT}/ failed"),
            ("${ALL}", "https://${TN}:${ALL}/ failed"),
            ("${ALL}@10.0.0.1", "https://${TN}:${ALL}/ failed"),
        ];
        for (label, shown) in rows {
            let message = "https://t.example:8443/ failed";
            assert_eq!(at.hide_server(message, label, Some(&name)), shown);
        }
        let socket = Address::Unix("/a".into());
        let message = "https://t.example/ failed";
        let shown = socket.hide_server(message, "unix:/a", Some(&name));
        assert_eq!(shown, "https://${TN}/ failed");
    }
}
