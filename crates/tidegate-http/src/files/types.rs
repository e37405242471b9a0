//! Content types by the extension of a name.

/// Content types of common files.
const TYPES: [(&str, &str); 53] = [
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tiff", "image/tiff"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// The content type of a file whose extension is not known.
const UNKNOWN: &str = "application/octet-stream";

/// Returns the content type for the name of a file.
pub(super) fn of(name: &str) -> &'static str {
    let base = name.rsplit('/').next().unwrap_or(name);
    let Some((stem, extension)) = base.rsplit_once('.') else {
        return UNKNOWN;
    };
    if stem.is_empty() {
        return UNKNOWN;
    }
    let extension = extension.to_ascii_lowercase();
    let found = TYPES.binary_search_by_key(&extension.as_str(), |(known, _)| known);
    found.map_or(UNKNOWN, |at| TYPES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0), "the search needs it");
        let cases = [
            ("a.html", "text/html; charset=utf-8"),
            ("b/A.HTML", "text/html; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("a.b/c", UNKNOWN),
            ("html", UNKNOWN),
            (".html", UNKNOWN),
            ("a.", UNKNOWN),
            ("a.unknown", UNKNOWN),
            ("aac.zip", "application/zip"),
        ];
        for (name, expected) in cases {
            assert_eq!(of(name), expected, "{name}");
        }
    }
}
