//! The fields that tell an upstream about the client: `Forwarded` (RFC 7239), `X-Forwarded-*`,
//! `Via`.
//!
//! What a peer says about others counts only if the listener trusts the peer. Otherwise these fields
//! are removed, and only what the gateway itself knows is sent.
//!
//! Many programs see `_` and `-` in a name as the same, as CGI does. So a name with `_` that stands for
//! one of these fields is removed from every request: no proxy writes it, and a trusted one may have it
//! from its client.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use tidegate::http::codec::{EncodeError, FieldLines, OwnedRequestHead, RequestHead};

use super::ids::{FRESH_LINES, Fresh, Ids, REQUEST_ID, RequestId, is_traced, trace};

/// The beginning of the names of fields that only a trusted peer may set. Proxies say many things in
/// them, such as `X-Forwarded-User` and `X-Forwarded-Client-Cert`.
const CLAIMS: &str = "X-Forwarded-";

/// The other fields that only a trusted peer may set.
const OTHER_CLAIMS: [&str; 2] = ["Forwarded", "X-Real-Ip"];

/// The member that the gateway adds to `Via`.
const VIA: &str = "1.1 tidegate";

/// What the gateway knows about the peer of a connection. Its texts are made once for all requests.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its IP address. A Unix socket has none.
    pub(crate) ip: Option<IpAddr>,
    /// The listener trusts the peer.
    pub(crate) trusted: bool,
    /// The protocol.
    proto: &'static str,
    /// The address as a text.
    address: Option<String>,
    /// The beginning of `Forwarded`, before the host.
    node: String,
    /// The fields of the last request, if the peer says nothing about others.
    last: Option<Own>,
    /// What the peer has said about others without being trusted.
    claims: Claims,
}

/// Whether a peer has said something about others that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    /// It has not.
    None,
    /// It has, and nobody was told.
    New,
    /// It has, and an operator was told.
    Told,
}

/// What the gateway says about a request for one host.
#[derive(Debug)]
struct Own {
    host: String,
    /// About the client, then `Via`, then those of a request that belongs to no trace.
    lines: FieldLines,
    fresh: Fresh,
}

impl Peer {
    pub(crate) fn new(address: Option<SocketAddr>, trusted: bool, secure: bool) -> Self {
        let ip = address.map(|peer| peer.ip());
        let address = ip.map(|ip| ip.to_canonical());
        let node = match address {
            Some(IpAddr::V4(ip)) => format!("for={ip};host="),
            Some(IpAddr::V6(ip)) => format!("for=\"[{ip}]\";host="),
            None => "for=unknown;host=".to_owned(),
        };
        Self {
            ip,
            trusted,
            proto: if secure { "https" } else { "http" },
            address: address.map(|address| address.to_string()),
            node,
            last: None,
            claims: Claims::None,
        }
    }

    /// Returns `true` once if the peer has said something about others without being trusted.
    pub(crate) fn has_new_claims(&mut self) -> bool {
        let is_new = self.claims == Claims::New;
        if is_new {
            self.claims = Claims::Told;
        }
        is_new
    }

    #[cold]
    fn note_claims(&mut self) {
        if self.claims == Claims::None {
            self.claims = Claims::New;
        }
    }

    /// Returns what the gateway says about a request for this host, apart from others.
    ///
    /// # Errors
    ///
    /// A host that cannot be sent.
    fn own(&mut self, host: &str, ids: &Ids) -> Result<&mut Own, EncodeError> {
        let is_same = self.last.as_ref().is_some_and(|last| last.host == host);
        if !is_same {
            self.last = Some(Own {
                host: host.to_owned(),
                lines: self.lines(host, ids)?,
                fresh: Fresh::default(),
            });
        }
        self.last.as_mut().ok_or(EncodeError::FieldValue)
    }

    fn lines(&self, host: &str, ids: &Ids) -> Result<FieldLines, EncodeError> {
        let add = |lines: FieldLines, name: &str, value: Option<&str>| match value {
            Some(value) => lines.and(name, value.as_bytes()),
            None => Ok(lines),
        };
        let named = Some(host).filter(|host| !host.is_empty());
        let lines = FieldLines::new("Forwarded", self.forwarded(host).as_bytes())?;
        let lines = add(lines, "X-Forwarded-For", self.address.as_deref())?;
        let lines = add(lines, "X-Forwarded-Host", named)?;
        let lines = add(lines, "X-Forwarded-Proto", Some(self.proto))?;
        let lines = add(lines, "Via", Some(VIA))?;
        Fresh::add_to(lines, ids)
    }

    /// Returns the member of `Forwarded` for a request for this host.
    fn forwarded(&self, host: &str) -> String {
        let quote = if is_token(host) { "" } else { "\"" };
        let plain = match quote {
            "" => Cow::Borrowed(host),
            _ => Cow::Owned(host.replace(['"', '\\'], "")),
        };
        [&self.node[..], quote, &plain, quote, ";proto=", self.proto].concat()
    }
}

/// Copies the head of a request for a server, with what the gateway says about the client. Fields
/// that belong to one connection are dropped, and so are claims of a peer that is not trusted. `host`
/// is the one that the client asked for, with its port. Returns the head and the id of the request.
///
/// # Errors
///
/// [`EncodeError::HeadTooLarge`], or a host that cannot be sent.
pub(crate) fn forward(
    received: &RequestHead<'_>,
    peer: &mut Peer,
    host: &str,
    ids: &Ids,
) -> Result<(OwnedRequestHead, RequestId), EncodeError> {
    let (trusted, mut has_via, mut traced) = (peer.trusted, false, false);
    let mut claims = false;
    let mut head = received.to_forward(|name| {
        has_via |= name.eq_ignore_ascii_case(b"Via");
        traced |= is_traced(name);
        let is_claim = is_claim(name, trusted);
        if is_claim {
            claims = true;
        }
        is_claim
    })?;
    if trusted {
        extend(&mut head, peer, host)?;
        let id = trace(&mut head, true, ids)?;
        return Ok((head, id));
    }
    if claims {
        peer.note_claims();
    }
    let Own { lines, fresh, .. } = peer.own(host, ids)?;
    let (all, fresh_from) = (lines.len(), lines.len() - FRESH_LINES);
    if !has_via && !traced {
        // Nearly all of them.
        let id = fresh.write(lines, ids)?;
        head.append_lines(lines, 0..all)?;
        return Ok((head, id));
    }
    // `Via` is a list: others may be in front of it.
    head.append_lines(lines, 0..fresh_from - usize::from(has_via))?;
    if has_via {
        add(&mut head, "Via", VIA)?;
    }
    if traced {
        let id = trace(&mut head, false, ids)?;
        return Ok((head, id));
    }
    let id = fresh.write(lines, ids)?;
    head.append_lines(lines, fresh_from..all)?;
    Ok((head, id))
}

/// Extends what a trusted peer says.
fn extend(head: &mut OwnedRequestHead, peer: &Peer, host: &str) -> Result<(), EncodeError> {
    add(head, "Forwarded", &peer.forwarded(host))?;
    if let Some(address) = &peer.address {
        add(head, "X-Forwarded-For", address)?;
    }
    // A trusted peer knows the first host and protocol of the client.
    let says = |name: &str| head.as_head().get(name).is_some();
    let (says_host, says_proto) = (says("X-Forwarded-Host"), says("X-Forwarded-Proto"));
    if !says_host && !host.is_empty() {
        head.append("X-Forwarded-Host", host.as_bytes())?;
    }
    if !says_proto {
        head.append("X-Forwarded-Proto", peer.proto.as_bytes())?;
    }
    add(head, "Via", VIA)
}

/// Returns `true` if the peer may not set the field: only a trusted one may, or its name is another
/// spelling of such a field.
pub(super) fn is_claim(name: &[u8], trusted: bool) -> bool {
    let may_be = matches!(name.first(), Some(b'f' | b'F' | b'x' | b'X'));
    if !may_be {
        return false;
    }
    if name.contains(&b'_') {
        return is_other_spelling(name);
    }
    let begins = |beginning: &str| {
        let own = name.get(..beginning.len());
        own.is_some_and(|own| own.eq_ignore_ascii_case(beginning.as_bytes()))
    };
    let is = |claim: &&str| name.len() == claim.len() && begins(claim);
    !trusted && (begins(CLAIMS) || OTHER_CLAIMS.iter().any(is))
}

/// Returns `true` if the name is that of a claim, or of the request id, when `_` is read as `-`.
#[cold]
fn is_other_spelling(name: &[u8]) -> bool {
    let begins = |beginning: &str| {
        let plain = name.iter().map(|byte| match byte {
            b'_' => b'-',
            other => other.to_ascii_lowercase(),
        });
        let beginning = beginning.bytes().map(|byte| byte.to_ascii_lowercase());
        let plain = plain.take(beginning.len());
        plain.eq(beginning)
    };
    let is = |claim: &str| name.len() == claim.len() && begins(claim);
    begins(CLAIMS) || is(REQUEST_ID) || OTHER_CLAIMS.into_iter().any(is)
}

/// Adds a member to a list: to the values of all fields of this name, as one field.
fn add(head: &mut OwnedRequestHead, name: &str, member: &str) -> Result<(), EncodeError> {
    let mut list = Vec::new();
    for value in head.as_head().get_all(name) {
        list.extend_from_slice(value);
        list.extend_from_slice(b", ");
    }
    if list.is_empty() {
        return head.append(name, member.as_bytes());
    }
    list.extend_from_slice(member.as_bytes());
    head.replace(name, &list)
}

/// Returns `true` if a host needs no quotes as a value of `Forwarded`.
fn is_token(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'*+^`|".contains(&byte);
    !host.is_empty() && host.bytes().all(is_part)
}

#[cfg(test)]
pub(crate) mod tests {
    //! Heads before and after.

    use std::collections::HashSet;

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
        head.encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        text.split_once("\r\n")
            .unwrap()
            .1
            .replace("\r\n", "\n")
            .trim()
            .to_owned()
    }

    /// Passes a head on.
    fn passed(head: &OwnedRequestHead, peer: &mut Peer, host: &str) -> OwnedRequestHead {
        let ids = Ids::seeded(1);
        let (mut head, id) = forward(&head.as_head(), peer, host, &ids).unwrap();
        let view = head.as_head();
        assert_eq!(view.get("X-Request-Id"), Some(id.as_str().as_bytes()));
        // The tests of `ids` look at them.
        for name in ["traceparent", "X-Request-Id"] {
            assert_eq!(head.remove(name), 1);
        }
        head
    }

    fn peer(trusted: bool) -> Peer {
        Peer::new(Some("192.0.2.7:5000".parse().unwrap()), trusted, false)
    }

    #[test]
    fn an_untrusted_peer_says_nothing_about_others() {
        let head = head_of(
            "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\
             X-Real-IP: 1.2.3.4\r\nX-Forwarded-Host: evil\r\nAccept: a\r\n",
        );
        let head = passed(&head, &mut peer(false), "shop.example");
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
        let head = head_of(
            "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n\
             X-Forwarded-Proto: https\r\n",
        );
        let head = passed(&head, &mut peer(true), "shop.example");
        let view = head.as_head();
        let get = |name: &str| String::from_utf8(view.get(name).unwrap().to_vec()).unwrap();
        let forwarded = "for=1.2.3.4, for=192.0.2.7;host=shop.example;proto=http";
        assert_eq!(get("Forwarded"), forwarded);
        assert_eq!(get("X-Forwarded-For"), "1.2.3.4, 5.6.7.8, 192.0.2.7");
        assert_eq!(get("X-Forwarded-Proto"), "https");
    }

    #[test]
    fn only_a_trusted_peer_sets_any_field_of_forwarding() {
        let names = [
            "X-Forwarded-User",
            "x-forwarded-client-cert",
            "X-FORWARDED-Access-Token",
            "X-Forwarded-Prefix",
            "X-Forwarded-",
            "X-Real-IP",
        ];
        for name in names {
            let head = head_of(&format!("{name}: a\r\nX-Forwarded: b\r\nX-Real-IPs: c\r\n"));
            for trusted in [false, true] {
                let head = passed(&head, &mut peer(trusted), "shop.example");
                let view = head.as_head();
                assert_eq!(view.get(name).is_some(), trusted, "{name}");
                // No such fields, although their names are alike.
                assert!(view.get("X-Forwarded").is_some() && view.get("X-Real-IPs").is_some());
            }
        }
    }

    #[test]
    fn another_spelling_of_a_claim_does_not_pass() {
        let head = head_of(
            "X_Forwarded_For: 1\r\nx_forwarded-host: 2\r\nX-REAL_IP: 3\r\nX_Request_Id: 4\r\n\
             X_Forwarded_User: 1\r\nx-forwarded-Client_Cert: 2\r\nX_Forwarded: 5\r\nUser_Name: 6\r\nX_Own: 7\r\n_: 8\r\n",
        );
        for trusted in [false, true] {
            let head = passed(&head, &mut peer(trusted), "shop.example");
            let fields = fields_of(&head);
            let with_mark = fields.lines().filter(|line| line.contains('_'));
            let with_mark: Vec<_> = with_mark.collect();
            let expected = ["X_Forwarded: 5", "User_Name: 6", "X_Own: 7", "_: 8"];
            assert_eq!(with_mark, expected, "{trusted}");
        }
    }

    #[test]
    fn claims_of_a_peer_that_is_not_trusted_are_told_once() {
        let claims = ["Forwarded: for=1", "X-Real-IP: 1", "X_Forwarded_User: 1"];
        for claim in claims {
            let (with, without) = (head_of(&format!("{claim}\r\n")), head_of("Via: 1\r\n"));
            for trusted in [false, true] {
                let mut peer = peer(trusted);
                let told = [&without, &with, &without, &with].map(|head| {
                    passed(head, &mut peer, "shop.example");
                    peer.has_new_claims()
                });
                assert_eq!(told, [false, !trusted, false, false], "{claim}");
            }
        }
    }

    #[test]
    fn fields_of_the_connection_do_not_pass() {
        let head = head_of(
            "Connection: x-secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
             TE: trailers\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n",
        );
        let head = passed(&head, &mut peer(false), "shop.example");
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
        for (address, host, expected) in rows {
            let mut peer = Peer::new(Some(address.parse().unwrap()), false, false);
            let head = passed(&head_of(""), &mut peer, host);
            let got =
                String::from_utf8_lossy(head.as_head().get("Forwarded").unwrap()).into_owned();
            assert_eq!(got, format!("{expected};proto=http"), "{address}");
        }
        let mut unix = Peer::new(None, false, true);
        let head = passed(&head_of(""), &mut unix, "shop.example");
        let view = head.as_head();
        let expected: &[u8] = b"for=unknown;host=shop.example;proto=https";
        assert_eq!(view.get("Forwarded"), Some(expected));
        assert_eq!(view.get("X-Forwarded-For"), None);
    }

    #[test]
    fn each_request_of_a_connection_says_the_same_but_for_its_ids() {
        let (mut peer, ids) = (peer(false), Ids::seeded(1));
        let rows = [
            "",
            "Via: 1.0 old\r\n",
            "traceparent: bad\r\n",
            "tracestate: a=b\r\n",
        ];
        let rows = [
            &rows[..],
            &["X-Request-Id: mine\r\n", "A:1\r\nVia: 1.0 old\r\n"],
        ]
        .concat();
        let mut seen = HashSet::new();
        for (fields, host) in rows
            .iter()
            .flat_map(|row| [(row, "shop.example"), (row, "b")])
        {
            let (head, id) = forward(&head_of(fields).as_head(), &mut peer, host, &ids).unwrap();
            let view = head.as_head();
            let all = |name| view.get_all(name).collect::<Vec<_>>();
            let text = |name| String::from_utf8(all(name).concat()).unwrap();
            assert_eq!(text("X-Request-Id"), id.as_str(), "{fields}");
            assert_eq!(all("traceparent").len(), 1, "{fields}");
            assert!(all("tracestate").is_empty(), "{fields}");
            assert!(seen.insert(text("X-Request-Id")) && seen.insert(text("traceparent")));
            assert_eq!(text("X-Forwarded-Host"), host, "{fields}");
            assert!(
                text("Forwarded").contains(&format!("host={host};")),
                "{fields}"
            );
            let via = match fields.contains("Via") {
                true => "1.0 old, 1.1 tidegate",
                false => "1.1 tidegate",
            };
            assert_eq!(text("Via"), via, "{fields}");
        }
    }
}
