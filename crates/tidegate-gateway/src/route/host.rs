//! Patterns of hosts: `shop.example`, `*.example`.

use std::fmt;

/// A host of a route: a name, or all names below a name.
///
/// A wildcard stands for one or more labels: `*.example` contains `a.example` and `b.a.example`,
/// and not `example`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// One name, in lower case, without a port.
    Exact(String),
    /// All names that end with a dot and this name.
    Below(String),
}

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        let (name, is_wild) = match name.strip_prefix("*.") {
            Some(rest) => (rest.to_owned(), true),
            None => (name, false),
        };
        if name.contains('*') {
            return Err("a `*` stands only for the first labels, as in `*.example`".to_owned());
        }
        let is_ipv6 = name.starts_with('[') && name.ends_with(']');
        if !is_ipv6 && name.contains(':') {
            return Err("a route has no port; a listener has one".to_owned());
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.[]:".contains(c);
        let has_labels = !name.is_empty() && name.split('.').all(|label| !label.is_empty());
        match has_labels && name.chars().all(is_part) {
            true if is_wild => Ok(Self::Below(name)),
            true => Ok(Self::Exact(name)),
            false => Err("it is not a name".to_owned()),
        }
    }

    /// Returns `true` if the pattern contains a host in lower case without a port.
    pub fn contains(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Below(name) => host
                .strip_suffix(name.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|rest| !rest.is_empty()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// Returns the name of a host without its port and without the dot of the root.
pub fn without_port(host: &str) -> &str {
    let bytes = host.as_bytes();
    let end = match bytes.iter().rposition(|byte| *byte == b']') {
        Some(end) => Some(end + 1),
        None => bytes.iter().position(|byte| *byte == b':'),
    };
    let name = end.and_then(|end| host.get(..end)).unwrap_or(host);
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    //! One row for each form.

    use super::{HostPattern, without_port};

    #[test]
    fn a_pattern_is_a_name_or_all_names_below_one() {
        let rows = [
            ("Shop.example", "shop.example", true),
            ("shop.example", "a.shop.example", false),
            ("*.example", "a.example", true),
            ("*.example", "b.a.example", true),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("*.example", "notexample", false),
            ("[::1]", "[::1]", true),
        ];
        for (pattern, host, expected) in rows {
            let pattern = HostPattern::parse(pattern).unwrap();
            assert_eq!(pattern.contains(host), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn what_no_host_can_be_is_refused() {
        for text in [
            "",
            "*",
            "a.*.b",
            "a*",
            "shop.example:80",
            "a..b",
            "a b",
            "*.",
        ] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_port_and_the_dot_of_the_root_do_not_count() {
        assert_eq!(without_port("a.example:80"), "a.example");
        assert_eq!(without_port("a.example."), "a.example");
        assert_eq!(without_port("[::1]:80"), "[::1]");
    }
}
