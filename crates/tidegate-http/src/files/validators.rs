//! `ETag` and `Last-Modified` of a file.
//!
//! The entity tag is made of the size and of the time of the last change in nanoseconds. Such a tag
//! may stay the same if a file changes twice within the resolution of its clock. Therefore it is a
//! strong tag only if the last change is at least [`SETTLED`] ago; before that it is a weak one,
//! which serves for caches and not for ranges.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::HttpDate;

/// How long a file must be unchanged for its tag to be a strong one. The coarsest common clock of a
/// file system, that of FAT, has two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// What identifies the current content of a file.
#[derive(Clone, Debug)]
pub(super) struct Validators {
    /// The tag with its quotes, without the mark of a weak one.
    tag: String,
    is_strong: bool,
    /// The time of the last change, in seconds since 1970, not in the future.
    pub(super) modified: u64,
}

impl Validators {
    pub(super) fn new(size: u64, modified: SystemTime, now: SystemTime) -> Self {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = since(modified);
        let settled = now.duration_since(modified).is_ok_and(|age| age >= SETTLED);
        Self {
            tag: format!("\"{:x}-{size:x}\"", changed.as_nanos()),
            is_strong: settled,
            modified: changed.min(since(now)).as_secs(),
        }
    }

    /// Returns the value of the field `ETag`.
    pub(super) fn etag(&self) -> String {
        match self.is_strong {
            true => self.tag.clone(),
            false => format!("W/{}", self.tag),
        }
    }

    /// Returns the value of the field `Last-Modified`.
    pub(super) fn last_modified(&self) -> HttpDate {
        HttpDate::from_unix_seconds(self.modified)
    }

    /// Returns `true` if `etag` is this tag by the strong comparison: both are strong tags.
    pub(super) fn matches_strongly(&self, etag: &[u8]) -> bool {
        self.is_strong && etag == self.tag.as_bytes()
    }

    /// Returns `true` if `etag` is this tag by the weak comparison.
    pub(super) fn matches_weakly(&self, etag: &[u8]) -> bool {
        etag.strip_prefix(b"W/").unwrap_or(etag) == self.tag.as_bytes()
    }

    /// Returns `true` if the time of the last change identifies the content.
    pub(super) fn has_strong_date(&self) -> bool {
        self.is_strong
    }
}
