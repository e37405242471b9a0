//! The name of a protocol to which a connection may be upgraded.

use super::setting::Leaf;
use super::tree::{Node, Value};

/// The protocols that no tunnel carries: the requests inside would pass by routes, limits and the log.
const NEVER: [&str; 3] = ["h2c", "http", "tls"];

/// A protocol to which a client may upgrade: a name, and `/` with a version if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

impl Leaf for Protocol {
    const EXPECTED: &'static str = "a protocol for tunnels, such as `\"websocket\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let Value::Text(text) = &node.value else {
            return Err(String::new());
        };
        let (name, version) = match text.split_once('/') {
            Some((name, version)) => (name, Some(version)),
            None => (text.as_str(), None),
        };
        if NEVER.iter().any(|never| name.eq_ignore_ascii_case(never)) {
            return Err("its requests would pass by routes, limits and the log".to_owned());
        }
        match is_token(name) && version.is_none_or(is_token) {
            true => Ok(Self(text.clone())),
            false => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// Returns `true` if a text is a token of HTTP.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}
