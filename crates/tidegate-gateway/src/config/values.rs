//! The single values of a configuration: numbers, times, sizes, networks, secrets.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use super::notation::{Share, Size, duration, show_duration};
use super::setting::{Leaf, words};
use super::tree::{Node, Value};
use crate::route::{HostPattern, PathPattern};

/// Returns the text of a node.
pub(super) fn text(node: &Node) -> Result<&str, String> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(String::new()),
    }
}

/// Returns a whole number. A text is accepted if it comes from a variable.
fn whole(node: &Node) -> Result<i64, String> {
    match &node.value {
        Value::Integer(number) => Ok(*number),
        Value::Text(text) if node.written.is_some() => text.parse().map_err(|_| String::new()),
        _ => Err(String::new()),
    }
}

impl Leaf for String {
    const EXPECTED: &'static str = "a text, in quotes";

    fn parse(node: &Node) -> Result<Self, String> {
        text(node).map(str::to_owned)
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Leaf for PathBuf {
    const EXPECTED: &'static str = "a path of a file, in quotes";

    fn parse(node: &Node) -> Result<Self, String> {
        let text = text(node)?;
        (!text.is_empty())
            .then(|| text.into())
            .ok_or_else(String::new)
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// A text or a path that messages contain. It prints itself as it is in the configuration: the values of
/// variables are not printed.
///
/// ```
/// use tidegate_gateway::config::Written;
///
/// let path = Written::<String>::from("/health");
/// assert_eq!((path.as_str(), path.to_string().as_str()), ("/health", "/health"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Written<T> {
    value: T,
    /// What is printed: the text with its variables.
    written: String,
}

/// The path of a file or a directory.
pub type FilePath = Written<PathBuf>;

impl<T: for<'a> From<&'a str>> From<&str> for Written<T> {
    fn from(text: &str) -> Self {
        Self {
            value: text.into(),
            written: text.to_owned(),
        }
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl<T> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl<T: Leaf> Leaf for Written<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn parse(node: &Node) -> Result<Self, String> {
        let value = T::parse(node)?;
        let written = match &node.written {
            Some(written) => written.clone(),
            None => text(node)?.to_owned(),
        };
        Ok(Self { value, written })
    }

    fn show(&self) -> String {
        self.value.show()
    }
}

impl Leaf for bool {
    const EXPECTED: &'static str = "`true` or `false`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Bool(value) => Ok(*value),
            Value::Text(text) if node.written.is_some() => text.parse().map_err(|_| String::new()),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Leaf for u32 {
    const EXPECTED: &'static str = "a whole number, 0 to 4294967295";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        Self::try_from(whole(node)?).map_err(|_| String::new())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A whole number that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u32);

impl Leaf for Count {
    const EXPECTED: &'static str = "a positive whole number, such as `10`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let number = u32::try_from(whole(node)?).map_err(|_| String::new())?;
        (number > 0).then_some(Self(number)).ok_or_else(String::new)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u16);

impl Leaf for Status {
    const EXPECTED: &'static str = "a status of HTTP, 200 to 599";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let number = u16::try_from(whole(node)?).map_err(|_| String::new())?;
        let valid = (200..=599).contains(&number);
        valid.then_some(Self(number)).ok_or_else(String::new)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A range of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// The lowest one.
    pub low: u16,
    /// The highest one.
    pub high: u16,
}

impl Leaf for Statuses {
    const EXPECTED: &'static str = "a status or a range of them, such as `200` or `\"200-399\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let (low, high) = match (whole(node), &node.value) {
            (Ok(number), _) => (number, number),
            (Err(_), Value::Text(text)) => {
                let (low, high) = text.split_once('-').ok_or_else(String::new)?;
                let parse = |part: &str| part.trim().parse::<i64>().map_err(|_| String::new());
                (parse(low)?, parse(high)?)
            }
            _ => return Err(String::new()),
        };
        match 100 <= low && low <= high && high <= 599 {
            true => Ok(Self {
                low: low as u16,
                high: high as u16,
            }),
            false => Err("the range is empty or not within 100 to 599".to_owned()),
        }
    }

    fn show(&self) -> String {
        match self.low == self.high {
            true => self.low.to_string(),
            false => format!("\"{}-{}\"", self.low, self.high),
        }
    }
}

impl Leaf for Duration {
    const EXPECTED: &'static str = "a duration, such as `\"250ms\"`, `\"5s\"` or `\"1m 30s\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Text(text) => duration(text),
            Value::Integer(_) | Value::Float(_) => Err("it has no unit".to_owned()),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        format!("\"{}\"", show_duration(*self))
    }
}

impl Leaf for Size {
    const EXPECTED: &'static str = "a size, such as `\"512B\"`, `\"16KiB\"` or `\"10MB\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Text(text) => Self::parse(text),
            Value::Integer(_) => Err("it has no unit".to_owned()),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// A number is in percent.
impl Leaf for Share {
    const EXPECTED: &'static str =
        "a percentage, such as `50` or `\"0.5%\"` (0 to 100, in steps of 0.01)";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let percent = match &node.value {
            Value::Text(text) if text.contains('%') => return Self::parse(text),
            Value::Float(number) => *number,
            _ => whole(node)? as f64,
        };
        Self::from_percent(percent)
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// A percentage that is a whole number: a breaker judges no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl Leaf for Percent {
    const EXPECTED: &'static str = "a whole percentage, such as `50` or `\"50%\"` (1 to 100)";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let hundredths = <Share as Leaf>::parse(node)?.hundredths();
        match hundredths {
            100.. if hundredths.is_multiple_of(100) => Ok(Self((hundredths / 100) as u8)),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        format!("\"{}%\"", self.0)
    }
}

/// A part of a whole that is usually written as a factor: `0.2` is 20 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub Share);

impl Leaf for Ratio {
    const EXPECTED: &'static str =
        "a share, such as `0.2` or `\"20%\"` (0 to 1, in steps of 0.0001)";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let factor = match &node.value {
            Value::Text(text) if text.contains('%') => return Share::parse(text).map(Self),
            Value::Float(number) => *number,
            _ => whole(node)? as f64,
        };
        if !(0.0..=1.0).contains(&factor) {
            return Err("it is not within 0 to 1".to_owned());
        }
        Share::from_percent(factor * 100.0).map(Self)
    }

    fn show(&self) -> String {
        self.0.as_factor().to_string()
    }
}

/// A network: an address and the number of bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns `true` if the address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let common = match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                (ours.to_bits() ^ other.to_bits()).leading_zeros()
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                (ours.to_bits() ^ other.to_bits()).leading_zeros()
            }
            _ => return false,
        };
        common >= u32::from(self.bits)
    }
}

impl Leaf for Network {
    const EXPECTED: &'static str = "a network, such as `\"10.0.0.0/8\"` or `\"::1\"`";
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let text = text(node)?;
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| String::new())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| String::new())?,
            None => most,
        };
        match bits <= most {
            true => Ok(Self { address, bits }),
            false => Err(format!("it has at most {most} bits")),
        }
    }

    fn show(&self) -> String {
        format!("\"{}/{}\"", self.address, self.bits)
    }
}

/// A secret. It comes from a file or a variable, and no output contains it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The value of a variable.
    Value(String),
    /// The file that contains it, read when the gateway starts.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Leaf for Secret {
    const EXPECTED: &'static str =
        "a secret from a variable or a file, such as `\"${TOKEN}\"` or `\"file:/run/token\"`";
    const SECRET: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        let text = text(node)?;
        match text.strip_prefix("file:") {
            Some(path) if !path.is_empty() => Ok(Self::File(path.into())),
            _ if node.written.is_some() && !text.is_empty() => Ok(Self::Value(text.to_owned())),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        "(hidden)".to_owned()
    }
}

/// A method of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Method(pub String);

impl Leaf for Method {
    const EXPECTED: &'static str = "a method of HTTP, such as `\"GET\"`, in capital letters";

    fn parse(node: &Node) -> Result<Self, String> {
        let text = text(node)?;
        let valid = |c: char| c.is_ascii_uppercase() || c == '-' || c == '_';
        match !text.is_empty() && text.chars().all(valid) {
            true => Ok(Self(text.to_owned())),
            false => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }

    fn words() -> &'static [&'static str] {
        &[
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT",
        ]
    }
}

/// The name of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(pub String);

impl Leaf for HostName {
    const EXPECTED: &'static str = String::EXPECTED;
    const IS_PLAIN: bool = true;

    fn parse(node: &Node) -> Result<Self, String> {
        String::parse(node).map(Self)
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

impl Leaf for HostPattern {
    const EXPECTED: &'static str = "a host, such as `\"shop.example\"` or `\"*.example\"`";

    fn parse(node: &Node) -> Result<Self, String> {
        Self::parse(text(node)?)
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Leaf for PathPattern {
    const EXPECTED: &'static str =
        "a path, such as `\"/cart\"`, `\"/catalog/*\"` or `\"/users/{id}/orders\"`";

    fn parse(node: &Node) -> Result<Self, String> {
        Self::parse(text(node)?)
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

words! {
    /// How a server of an upstream is chosen.
    pub enum Balance: "a way of balancing, one of `\"round_robin\"`, `\"least_in_flight\"`, `\"random\"`" {
        /// One after the other, by weight.
        RoundRobin = "round_robin",
        /// The less busy of two random servers, by weight.
        LeastInFlight = "least_in_flight",
        /// Any server, by weight.
        Random = "random",
    }
}

words! {
    /// The kind of a limit.
    pub enum LimitKind: "a kind of limit, one of `\"fixed\"`, `\"adaptive\"`" {
        /// Always `max`.
        Fixed = "fixed",
        /// Between `min` and `max`, as the latency allows.
        Adaptive = "adaptive",
    }
}

words! {
    /// The kind of a health check.
    pub enum HealthKind: "a kind of health check, one of `\"http\"`, `\"tcp\"`" {
        /// A request and its response.
        Http = "http",
        /// A connection.
        Tcp = "tcp",
    }
}

words! {
    /// Whether a client needs a certificate.
    pub enum ClientCertificate: "a word, one of `\"none\"`, `\"optional\"`, `\"required\"`" {
        /// It is not asked for one.
        None = "none",
        /// It is asked for one, and may have none.
        Optional = "optional",
        /// It is refused without one.
        Required = "required",
    }
}
