//! The fields that tell an upstream about the client: `Forwarded` (RFC 7239), `X-Forwarded-*`,
//! `Via`.
//!
//! What a peer says about others counts only if the listener trusts the peer. Otherwise these fields
//! are removed, and only what the gateway itself knows is sent.

use std::net::{IpAddr, SocketAddr};

use tidegate::http::codec::{EncodeError, OwnedRequestHead};

/// The fields that only a trusted peer may set.
const CLAIMS: [&str; 8] = [
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Ssl",
    "X-Real-Ip",
];

/// What the gateway knows about the client of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// The address of the peer. A Unix socket has none.
    pub(crate) peer: Option<SocketAddr>,
    /// The listener trusts the peer.
    pub(crate) trusted: bool,
    /// The connection is encrypted.
    pub(crate) secure: bool,
    /// The host that the client asked for, with its port.
    pub(crate) host: &'a str,
}

/// Removes the fields of the client's connection, and sets those about the client.
///
/// # Errors
///
/// [`EncodeError::HeadTooLarge`], or a host that cannot be sent.
pub(crate) fn forward(head: &mut OwnedRequestHead, client: &Client<'_>) -> Result<(), EncodeError> {
    head.remove_hop_by_hop();
    if !client.trusted {
        for name in CLAIMS {
            head.remove(name);
        }
    }
    let proto = match client.secure {
        true => "https",
        false => "http",
    };
    let address = client.peer.map(|peer| peer.ip().to_canonical());
    let node = match address {
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => format!("\"[{ip}]\""),
        None => "unknown".to_owned(),
    };
    let host = quoted(client.host);
    add(
        head,
        "Forwarded",
        &format!("for={node};host={host};proto={proto}"),
    )?;
    if let Some(address) = address {
        add(head, "X-Forwarded-For", &address.to_string())?;
    }
    // A trusted peer knows the first host and protocol of the client.
    if head.as_head().get("X-Forwarded-Host").is_none() && !client.host.is_empty() {
        head.append("X-Forwarded-Host", client.host.as_bytes())?;
    }
    if head.as_head().get("X-Forwarded-Proto").is_none() {
        head.append("X-Forwarded-Proto", proto.as_bytes())?;
    }
    add(head, "Via", "1.1 tidegate")
}

/// Adds a member to a list: to the values of all fields of this name, as one field.
fn add(head: &mut OwnedRequestHead, name: &str, member: &str) -> Result<(), EncodeError> {
    let mut list = Vec::new();
    for value in head.as_head().get_all(name) {
        list.extend_from_slice(value);
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(member.as_bytes());
    head.replace(name, &list)
}

/// Returns a host as a value of `Forwarded`: quoted unless it is a token.
fn quoted(host: &str) -> String {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'*+^`|".contains(c);
    match !host.is_empty() && host.chars().all(is_token) {
        true => host.to_owned(),
        false => format!("\"{}\"", host.replace(['"', '\\'], "")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! Heads before and after.

    use tidegate::http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};

    use super::*;

    /// Returns the head of a request with these fields.
    pub(crate) fn head_of(fields: &str) -> OwnedRequestHead {
        let text = format!("GET /a HTTP/1.1\r\nHost: shop.example\r\n{fields}\r\n");
        let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let mut table = HeadTable::new();
        let head = decoder.head(text.as_bytes(), &mut table).unwrap().unwrap();
        head.to_owned()
    }

    /// Returns the fields of a head as text.
    pub(crate) fn fields_of(head: &OwnedRequestHead) -> String {
        let mut out = Vec::new();
        head.encode(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.split_once("\r\n")
            .unwrap()
            .1
            .replace("\r\n", "\n")
            .trim()
            .to_owned()
    }

    fn client(trusted: bool) -> Client<'static> {
        Client {
            peer: Some("192.0.2.7:5000".parse().unwrap()),
            trusted,
            secure: false,
            host: "shop.example",
        }
    }

    #[test]
    fn an_untrusted_peer_says_nothing_about_others() {
        let mut head = head_of(
            "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\
             X-Real-IP: 1.2.3.4\r\nX-Forwarded-Host: evil\r\nAccept: a\r\n",
        );
        forward(&mut head, &client(false)).unwrap();
        assert_eq!(
            fields_of(&head),
            "Host: shop.example\nAccept: a\n\
             Forwarded: for=192.0.2.7;host=shop.example;proto=http\n\
             X-Forwarded-For: 192.0.2.7\nX-Forwarded-Host: shop.example\n\
             X-Forwarded-Proto: http\nVia: 1.1 tidegate"
        );
    }

    #[test]
    fn what_a_trusted_peer_says_is_kept_and_extended() {
        let mut head = head_of(
            "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n\
             X-Forwarded-Proto: https\r\n",
        );
        forward(&mut head, &client(true)).unwrap();
        let view = head.as_head();
        let get = |name: &str| String::from_utf8(view.get(name).unwrap().to_vec()).unwrap();
        let forwarded = "for=1.2.3.4, for=192.0.2.7;host=shop.example;proto=http";
        assert_eq!(get("Forwarded"), forwarded);
        assert_eq!(get("X-Forwarded-For"), "1.2.3.4, 5.6.7.8, 192.0.2.7");
        assert_eq!(get("X-Forwarded-Proto"), "https");
    }

    #[test]
    fn fields_of_the_connection_do_not_pass() {
        let mut head = head_of(
            "Connection: x-secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
             TE: trailers\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n",
        );
        forward(&mut head, &client(false)).unwrap();
        for name in [
            "connection",
            "x-secret",
            "keep-alive",
            "te",
            "proxy-connection",
            "upgrade",
        ] {
            assert_eq!(head.as_head().get(name), None, "{name}");
        }
    }

    #[test]
    fn addresses_and_hosts_are_quoted_where_they_need_it() {
        let rows = [
            (
                "[2001:db8::1]:80",
                "a.example",
                "for=\"[2001:db8::1]\";host=a.example",
            ),
            (
                "[::ffff:192.0.2.1]:80",
                "a:80",
                "for=192.0.2.1;host=\"a:80\"",
            ),
        ];
        for (peer, host, expected) in rows {
            let mut head = head_of("");
            let client = Client {
                peer: Some(peer.parse().unwrap()),
                host,
                ..client(false)
            };
            forward(&mut head, &client).unwrap();
            let got =
                String::from_utf8_lossy(head.as_head().get("Forwarded").unwrap()).into_owned();
            assert_eq!(got, format!("{expected};proto=http"), "{peer}");
        }
        let mut head = head_of("");
        let unix = Client {
            peer: None,
            secure: true,
            ..client(false)
        };
        forward(&mut head, &unix).unwrap();
        let view = head.as_head();
        let expected: &[u8] = b"for=unknown;host=shop.example;proto=https";
        assert_eq!(view.get("Forwarded"), Some(expected));
        assert_eq!(view.get("X-Forwarded-For"), None);
    }
}
