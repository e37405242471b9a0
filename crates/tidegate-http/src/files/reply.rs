//! What the response to a request for an open file is.

use std::time::SystemTime;

use tidegate_net::FileRange;

use super::answer::Answer;
use super::conditions::{self, Verdict};
use super::directory::Opened;
use super::ranges::{self, Part};
use super::service::Settings;
use super::types;
use super::validators::Validators;
use crate::codec::{Fields, OwnedRequestHead};

/// Responds with a file, or with a part of it, as the fields of the request ask.
pub(super) fn send(
    name: &str,
    opened: Opened,
    head: &OwnedRequestHead,
    settings: &Settings,
    response: Answer,
) {
    let size = opened.metadata.len();
    let modified = opened.metadata.modified();
    let now = SystemTime::now();
    let current = Validators::new(size, modified.unwrap_or(SystemTime::UNIX_EPOCH), now);
    let head = head.as_head();
    let fields = head.fields();
    let file = |range| FileRange::new(opened.file, range);
    let mut response = response
        .field("ETag", current.etag())
        .field("Last-Modified", current.last_modified().as_str());
    if let Some(value) = &settings.cache_control {
        response = response.field("Cache-Control", value);
    }
    match conditions::evaluate(fields, &current) {
        Verdict::Failed => return response.status(412).body(""),
        // The length is that of the file, and the body is left out.
        Verdict::NotModified => return response.status(304).file(file(0..size)),
        Verdict::Send => {}
    }
    let response = response.field("Accept-Ranges", "bytes");
    let part = match head.method() {
        crate::codec::Method::Get => asked(fields, &current, size),
        // A range is defined for `GET` only.
        _ => Part::Whole,
    };
    match part {
        Part::Unsatisfiable => {
            let response = response.status(416);
            let range = format!("bytes */{size}");
            response.field("Content-Range", range).body("");
        }
        Part::Range(range) => {
            let text = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            response
                .status(206)
                .field("Content-Range", text)
                .field("Content-Type", types::of(name))
                .file(file(range));
        }
        Part::Whole => response
            .field("Content-Type", types::of(name))
            .file(file(0..size)),
    }
}

fn asked(fields: Fields<'_>, current: &Validators, size: u64) -> Part {
    match fields.get("Range") {
        Some(field) if conditions::allows_range(fields, current) => ranges::select(field, size),
        _ => Part::Whole,
    }
}
