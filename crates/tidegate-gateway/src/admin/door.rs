//! Who may use an endpoint: the host that a request names, and its token.
//!
//! | endpoint | on a loopback address | elsewhere |
//! |---|---|---|
//! | `/live`, `/ready` | free | free |
//! | the page, without any data | free | free |
//! | reading | free, unless there is a token for reading | a token |
//! | changing | the token for everything | the token for everything |
//!
//! The host is checked so that a page of another site, whose name leads to this address, reads
//! nothing: a name must be one of ours. An address is always accepted. A change that a page of
//! another origin asks for is refused, even with a token. So are the frames of our page and the other
//! streams, of which only so many can be open: a page of another origin could not read them, and could
//! take all places. The Hystrix dashboard reads them on its server, which names no origin.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tidegate_core::internal::lock;

use super::place::Need;
use super::token::{Grant, Tokens};
use crate::config::types::Admin;
use crate::config::{Address, Disk};
use crate::route::{HostPattern, without_port};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) text: &'static str,
}

impl Refusal {
    /// Returns the kind of the report. A wrong token has its own, so that clients without one do not
    /// keep it out.
    pub(super) fn kind(self) -> &'static str {
        match self == WRONG_TOKEN {
            true => "admin_token",
            false => "admin_refused",
        }
    }
}

const fn refusal(status: u16, text: &'static str) -> Refusal {
    Refusal { status, text }
}

const OTHER_HOST: Refusal = refusal(
    421,
    "the host is none of this listener; see listen.admin.hosts",
);
const OTHER_ORIGIN: Refusal = refusal(403, "only a page of this origin may ask for this");
const NO_TOKEN: Refusal = refusal(401, "a token is needed");
const WRONG_TOKEN: Refusal = refusal(401, "the token is wrong");
const READ_ONLY: Refusal = refusal(403, "the token is for reading only");
pub(super) const SEVERAL_TOKENS: Refusal = refusal(400, "there are several fields Authorization");
const NO_CHANGES: Refusal = refusal(403, "changes need a token; set listen.admin.token");

/// Who may use a listener, which a reload changes. Clones are handles to the same listener.
#[derive(Clone, Debug)]
pub struct AdminAccess(Arc<Mutex<Arc<Door>>>);

impl AdminAccess {
    /// Reads the tokens and names of a listener that is to start.
    ///
    /// # Errors
    ///
    /// A token cannot be used.
    pub(crate) fn read(settings: &Admin, disk: &dyn Disk) -> Result<Self, String> {
        let door = Door::new(settings, disk)?;
        Ok(Self(Arc::new(Mutex::new(Arc::new(door)))))
    }

    /// Reads the tokens and names of new settings. They are in force when the closure is called.
    ///
    /// # Errors
    ///
    /// A token cannot be used. The old ones stay in force.
    pub(crate) fn prepare(
        &self,
        settings: &Admin,
        disk: &dyn Disk,
    ) -> Result<impl FnOnce() + use<>, String> {
        let (door, slot) = (Arc::new(Door::new(settings, disk)?), Arc::clone(&self.0));
        Ok(move || *lock(&slot) = door)
    }

    /// Returns the door that is in force.
    pub(super) fn door(&self) -> Arc<Door> {
        Arc::clone(&lock(&self.0))
    }
}

/// Decides about requests.
#[derive(Clone, Debug)]
pub(super) struct Door {
    is_local: bool,
    /// Our own names. `None` on a Unix socket, which no page reaches.
    hosts: Option<Vec<HostPattern>>,
    tokens: Tokens,
}

impl Door {
    /// Makes the door of a listener.
    ///
    /// # Errors
    ///
    /// Which token cannot be used, or that one is missing.
    pub(super) fn new(admin: &Admin, disk: &dyn Disk) -> Result<Self, String> {
        let tokens = Tokens::load(admin, disk)?;
        let is_local = admin.at.is_local();
        if !is_local && !tokens.has_full() && !tokens.has_read() {
            let what = "other machines can reach the address, and there is no token";
            return Err(format!("listen.admin.at: {what}"));
        }
        let hosts = match &admin.at {
            Address::Unix(_) => None,
            Address::Tcp { host, .. } => {
                let own = ["localhost", host].map(HostPattern::parse);
                let own = own.into_iter().flatten();
                Some(own.chain(admin.hosts.iter().cloned()).collect())
            }
        };
        Ok(Self {
            is_local,
            hosts,
            tokens,
        })
    }

    /// Decides about a request.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub(super) fn check(
        &self,
        need: Need,
        host: Option<&[u8]>,
        token: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        if need == Need::Open {
            return Ok(());
        }
        if !self.is_own_host(host) {
            return Err(OTHER_HOST);
        }
        if need == Need::Page {
            return Ok(());
        }
        let grant = self.tokens.grant(token);
        if grant == Grant::Wrong {
            return Err(WRONG_TOKEN);
        }
        let is_free = need == Need::Read && self.is_local && !self.tokens.has_read();
        match (need, grant) {
            _ if is_free => Ok(()),
            (Need::Change, _) if !self.tokens.has_full() => Err(NO_CHANGES),
            (_, Grant::Full) | (Need::Read, Grant::Read) => Ok(()),
            (_, Grant::Read) => Err(READ_ONLY),
            _ => Err(NO_TOKEN),
        }
    }

    /// Refuses what a page of another origin asks for. A client that is no browser sends neither
    /// `Origin` nor `Sec-Fetch-Site`; a browser sends the second one even where it leaves out the first.
    ///
    /// # Errors
    ///
    /// The origin is another one than that of the request.
    pub(super) fn check_origin(
        host: Option<&[u8]>,
        origin: Option<&[u8]>,
        site: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        if site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
            return Err(OTHER_ORIGIN);
        }
        let Some(origin) = origin else {
            return Ok(());
        };
        let schemes = [&b"http://"[..], b"https://"];
        let mut authorities = schemes
            .iter()
            .filter_map(|scheme| origin.strip_prefix(*scheme));
        match authorities
            .any(|authority| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
        {
            true => Ok(()),
            false => Err(OTHER_ORIGIN),
        }
    }

    fn is_own_host(&self, host: Option<&[u8]>) -> bool {
        let Some(hosts) = &self.hosts else {
            return true;
        };
        let host = host.and_then(|host| str::from_utf8(host).ok());
        let Some(host) = host.map(|host| without_port(host).to_ascii_lowercase()) else {
            return false;
        };
        let number = host.trim_start_matches('[').trim_end_matches(']');
        let is_address = number.parse::<IpAddr>().is_ok();
        is_address || hosts.iter().any(|pattern| pattern.contains(&host))
    }
}

#[cfg(test)]
mod tests {
    //! All rules, as a table.

    use std::path::Path;

    use super::super::place::Need::{self, Change, Open, Read};
    use super::{Door, NO_CHANGES, NO_TOKEN, OTHER_HOST, READ_ONLY, Refusal, WRONG_TOKEN};
    use crate::config::types::Admin;
    use crate::config::{Address, RealDisk, Secret};

    fn admin(host: &str, token: Option<&str>, read: Option<&str>) -> Admin {
        let secret = |text: &str| Secret::Value(text.to_owned());
        Admin {
            at: Address::Tcp {
                host: host.to_owned(),
                port: 9090,
            },
            token: token.map(secret),
            read_token: read.map(secret),
            hosts: Vec::new(),
        }
    }

    fn door(host: &str, token: Option<&str>, read: Option<&str>) -> Door {
        Door::new(&admin(host, token, read), &RealDisk).unwrap()
    }

    type Row<'a> = (Need, Option<&'a str>, Result<(), Refusal>);

    fn compare(door: &Door, rows: &[Row<'_>]) {
        for (need, token, expected) in rows {
            let token = token.map(str::as_bytes);
            let found = door.check(*need, Some(b"127.0.0.1:9090"), token);
            assert_eq!(found, *expected, "{need:?} {token:?}");
        }
    }

    #[test]
    fn on_a_loopback_address_only_changes_need_a_token() {
        let rows = [
            (Open, None, Ok(())),
            (Read, None, Ok(())),
            (Change, None, Err(NO_CHANGES)),
            (Read, Some("x"), Err(WRONG_TOKEN)),
        ];
        compare(&door("127.0.0.1", None, None), &rows);
        let rows = [
            (Read, None, Ok(())),
            (Change, None, Err(NO_TOKEN)),
            (Change, Some("x"), Err(WRONG_TOKEN)),
            (Change, Some("full"), Ok(())),
        ];
        compare(&door("127.0.0.1", Some("full"), None), &rows);
        let rows = [
            (Read, None, Err(NO_TOKEN)),
            (Read, Some("read"), Ok(())),
            (Change, Some("read"), Err(NO_CHANGES)),
        ];
        compare(&door("127.0.0.1", None, Some("read")), &rows);
    }

    #[test]
    fn on_another_address_everything_but_health_needs_a_token() {
        let rows = [
            (Open, None, Ok(())),
            (Open, Some("x"), Ok(())),
            (Read, None, Err(NO_TOKEN)),
            (Read, Some("x"), Err(WRONG_TOKEN)),
            (Read, Some("read"), Ok(())),
            (Read, Some("full"), Ok(())),
            (Change, None, Err(NO_TOKEN)),
            (Change, Some("read"), Err(READ_ONLY)),
            (Change, Some("full"), Ok(())),
        ];
        compare(&door("0.0.0.0", Some("full"), Some("read")), &rows);
        let missing = Door::new(&admin("0.0.0.0", None, None), &RealDisk).unwrap_err();
        assert!(missing.contains("there is no token"), "{missing}");
    }

    #[test]
    fn a_host_is_an_address_or_one_of_our_names() {
        let mut admin = admin("ops.example", Some("full"), None);
        admin.hosts = vec![crate::route::HostPattern::parse("*.internal").unwrap()];
        let door = Door::new(&admin, &RealDisk).unwrap();
        let rows = [
            ("127.0.0.1", true),
            ("10.1.2.3:9090", true),
            ("[::1]:9090", true),
            ("localhost:9090", true),
            ("Ops.example", true),
            ("a.internal:1", true),
            ("evil.example", false),
            ("ops.example.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ];
        for (host, expected) in rows {
            let found = door.check(Read, Some(host.as_bytes()), Some(b"full"));
            assert_eq!(found, expected.then_some(()).ok_or(OTHER_HOST), "{host}");
            assert_eq!(
                door.check(Open, Some(host.as_bytes()), None),
                Ok(()),
                "{host}"
            );
        }
        assert_eq!(door.check(Read, None, Some(b"full")), Err(OTHER_HOST));
    }

    #[test]
    fn a_token_file_that_is_missing_or_empty_is_an_error_without_its_content() {
        let mut admin = admin("127.0.0.1", None, None);
        admin.token = Some(Secret::File(Path::new("/no/such/token").into()));
        let error = Door::new(&admin, &RealDisk).unwrap_err();
        assert!(
            error.starts_with("listen.admin.token: the file cannot be read"),
            "{error}"
        );
        admin.token = Some(Secret::Value(" \n".to_owned()));
        let error = Door::new(&admin, &RealDisk).unwrap_err();
        assert_eq!(error, "listen.admin.token: the token is empty");
    }
}
