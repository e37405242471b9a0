//! Assertions about texts, which show the whole text if they fail.

/// Asserts that a text contains each of these parts.
///
/// ```
/// tidegate_testkit::has("one two", ["one", "two"]);
/// ```
///
/// # Panics
///
/// Panics with the part and the text if it does not.
#[track_caller]
pub fn has<P: AsRef<str>>(text: impl AsRef<str>, parts: impl IntoIterator<Item = P>) {
    let text = text.as_ref();
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

/// Asserts that a text contains none of these parts.
///
/// # Panics
///
/// Panics with the part and the text if it does.
#[track_caller]
pub fn lacks<P: AsRef<str>>(text: impl AsRef<str>, parts: impl IntoIterator<Item = P>) {
    let text = text.as_ref();
    for part in parts {
        let part = part.as_ref();
        assert!(!text.contains(part), "`{part}` is in:\n{text}");
    }
}

/// Asserts that a text begins with this.
///
/// # Panics
///
/// Panics with both if it does not.
#[track_caller]
pub fn begins(text: impl AsRef<str>, start: impl AsRef<str>) {
    let (text, start) = (text.as_ref(), start.as_ref());
    assert!(text.starts_with(start), "`{start}` does not begin:\n{text}");
}
