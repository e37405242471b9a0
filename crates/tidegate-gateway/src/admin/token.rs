//! The tokens of operators. They come from a variable or a file, and are compared in constant time.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::{Choice, ConstantTimeEq as _};

use crate::config::types::Admin;
use crate::config::{Disk, Secret};

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// It has no token.
    Nothing,
    /// It has a token that is none of ours.
    Wrong,
    /// It has the token for reading.
    Read,
    /// It has the token for everything.
    Full,
}

/// The tokens.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    full: Option<Vec<u8>>,
    read: Option<Vec<u8>>,
}

impl Tokens {
    /// Reads the tokens of a configuration.
    ///
    /// # Errors
    ///
    /// Which setting has no usable token. The message does not contain the token.
    pub(super) fn load(admin: &Admin, disk: &dyn Disk) -> Result<Self, String> {
        Ok(Self {
            full: loaded("token", admin.token.as_ref(), disk)?,
            read: loaded("read_token", admin.read_token.as_ref(), disk)?,
        })
    }

    /// Returns why the tokens of a configuration cannot be used, each with its setting.
    pub(crate) fn mistakes(admin: &Admin, disk: &dyn Disk) -> Vec<String> {
        let full = loaded("token", admin.token.as_ref(), disk).err();
        let read = loaded("read_token", admin.read_token.as_ref(), disk).err();
        full.into_iter().chain(read).collect()
    }

    /// Returns `true` if there is a token for changes.
    pub(super) fn has_full(&self) -> bool {
        self.full.is_some()
    }

    /// Returns `true` if there is a token for reading.
    pub(super) fn has_read(&self) -> bool {
        self.read.is_some()
    }

    /// Returns what a request with this token may do.
    pub(super) fn grant(&self, presented: Option<&[u8]>) -> Grant {
        let Some(presented) = presented else {
            return Grant::Nothing;
        };
        // Both are compared always, so that the time does not tell which one is similar.
        let full = is_same(self.full.as_deref(), presented);
        let read = is_same(self.read.as_deref(), presented);
        match (bool::from(full), bool::from(read)) {
            (true, _) => Grant::Full,
            (false, true) => Grant::Read,
            (false, false) => Grant::Wrong,
        }
    }
}

// Prints nothing: tokens are secrets.
tidegate_core::debug_fields!(Tokens);

fn loaded(key: &str, secret: Option<&Secret>, disk: &dyn Disk) -> Result<Option<Vec<u8>>, String> {
    let text = match secret {
        None => return Ok(None),
        Some(Secret::Value(value)) => value.clone(),
        Some(Secret::File(path)) => {
            let read = disk.read(path);
            let what = |error| format!("listen.admin.{key}: the file cannot be read: {error}");
            read.map_err(what)?
        }
    };
    match text.trim() {
        "" => Err(format!("listen.admin.{key}: the token is empty")),
        token if token.contains(char::is_control) => {
            let what =
                "the token has several lines or control characters, which no client can send";
            Err(format!("listen.admin.{key}: {what}"))
        }
        token => Ok(Some(token.as_bytes().to_vec())),
    }
}

/// Compares two tokens. The time depends on the length of the presented one only.
fn is_same(token: Option<&[u8]>, presented: &[u8]) -> Choice {
    let token = token.unwrap_or_default();
    let mut same = (token.len() as u64).ct_eq(&(presented.len() as u64));
    same &= !(token.len() as u64).ct_eq(&0);
    for (index, byte) in presented.iter().enumerate() {
        let ours = token.get(index).copied().unwrap_or(0);
        same &= ours.ct_eq(byte);
    }
    same
}

/// Returns the token of a field `Authorization`: `Bearer TOKEN`, or `Basic` with the token as
/// password, which the Hystrix dashboard sends.
pub(super) fn presented(field: &[u8]) -> Option<Vec<u8>> {
    let field = str::from_utf8(field).ok()?.trim();
    let (scheme, rest) = field.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64.decode(rest).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    //! Tokens and how they are presented.

    use super::{Grant, Tokens, presented};

    fn tokens() -> Tokens {
        Tokens {
            full: Some(b"full-token".to_vec()),
            read: Some(b"read".to_vec()),
        }
    }

    #[test]
    fn a_token_is_the_whole_token() {
        let rows: [(&[u8], Grant); 7] = [
            (b"full-token", Grant::Full),
            (b"read", Grant::Read),
            (b"rea", Grant::Wrong),
            (b"read\0", Grant::Wrong),
            (b"full-tokenx", Grant::Wrong),
            (b"", Grant::Wrong),
            (b"FULL-TOKEN", Grant::Wrong),
        ];
        for (token, grant) in rows {
            assert_eq!(tokens().grant(Some(token)), grant);
        }
        assert_eq!(tokens().grant(None), Grant::Nothing);
        assert_eq!(Tokens::default().grant(Some(b"")), Grant::Wrong);
        assert!(!format!("{:?}", tokens()).contains("full"));
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_a_password() {
        let rows: [(&str, Option<&[u8]>); 8] = [
            ("Bearer abc", Some(b"abc")),
            ("bearer  abc ", Some(b"abc")),
            ("Basic dXNlcjp0b2tlbg==", Some(b"token")),
            ("basic dXNlcjp0b2tlbg", Some(b"token")),
            ("Basic dXNlcg==", None),
            ("Basic !", None),
            ("Digest abc", None),
            ("abc", None),
        ];
        for (field, expected) in rows {
            assert_eq!(presented(field.as_bytes()).as_deref(), expected, "{field}");
        }
        assert_eq!(presented(b"Bearer \xff"), None);
    }
}
