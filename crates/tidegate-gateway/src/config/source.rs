//! The files of a configuration, and places in them.
//!
//! A [`Span`] is a range of bytes in one file. It is small and `Copy`, so that each value of the
//! tree has one. [`Sources`] keeps the texts and turns a span into file, line and column.
//!
//! The cost of a message depends neither on the size of its file nor on the number of hidden ranges: lines
//! are found by an index, and only the part of a long line around the mark is shown.
//!
//! Invariant: a range that was passed to [`Sources::hide`] is never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// The largest number of characters of a line before the marked part, and from its beginning on.
const SHOWN: usize = 100;

/// A range of bytes in one file of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    file: u32,
    start: u32,
    end: u32,
}

impl Span {
    /// Creates the span of a range in a file.
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            file: file.0,
            start: narrow(range.start),
            end: narrow(range.end.max(range.start)),
        }
    }

    /// Returns the file in which the span is.
    pub fn file(self) -> FileId {
        FileId(self.file)
    }

    /// Returns the range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The number of a file in its [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u32);

/// A place in a file, as an editor shows it: line and column are counted from one, the column in
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the file, as the user wrote it.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// The column, from one.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A line of a file with the part that a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line number, from one.
    pub line: usize,
    /// The text of the line, of a long one the part around the mark. Tabs are spaces and secrets are stars.
    pub text: String,
    /// The number of characters before the marked part.
    pub before: usize,
    /// The number of marked characters, at least one.
    pub marked: usize,
}

/// The texts of all files of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
    /// The folders whose files are included.
    folders: Vec<PathBuf>,
}

#[derive(Clone)]
struct Source {
    name: String,
    text: String,
    /// The bytes, if they are no UTF-8.
    bytes: Option<Vec<u8>>,
    /// The position of the first byte of each line.
    lines: Vec<usize>,
    /// The end of each hidden range by its start. No two of them touch.
    hidden: BTreeMap<usize, usize>,
}

impl Sources {
    /// Adds a file and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let text: String = text.into();
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        self.files.push(Source {
            name: name.into(),
            lines: std::iter::once(0).chain(ends).collect(),
            text,
            bytes: None,
            hidden: BTreeMap::new(),
        });
        FileId((self.files.len() - 1) as u32)
    }

    /// Adds a folder whose files are included.
    pub fn add_folder(&mut self, folder: impl Into<PathBuf>) {
        self.folders.push(folder.into());
    }

    /// Returns the names of the files, as they can be read.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// Returns the folders whose files are included.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Adds a file by its bytes. If they are no UTF-8, `�` stands for what is not, and the first of them is
    /// returned with its place.
    pub(super) fn add_bytes(
        &mut self,
        name: impl Into<String>,
        bytes: Vec<u8>,
    ) -> (FileId, Option<(u8, Span)>) {
        let why = match String::from_utf8(bytes) {
            Ok(text) => return (self.add(name, text), None),
            Err(why) => why,
        };
        let at = why.utf8_error().valid_up_to();
        let file = self.add(name, String::from_utf8_lossy(why.as_bytes()));
        let sign = char::REPLACEMENT_CHARACTER.len_utf8();
        let bad = (why.as_bytes()[at], Span::new(file, at..at + sign));
        self.files[file.0 as usize].bytes = Some(why.into_bytes());
        (file, Some(bad))
    }

    /// Returns the contents of the files, in the order of [`Sources::files`].
    pub(super) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let files = self.files.iter();
        files.map(|file| file.bytes.as_deref().unwrap_or(file.text.as_bytes()))
    }

    /// Keeps the text of a span out of all excerpts.
    pub fn hide(&mut self, span: Span) {
        let hidden = &mut self.files[span.file as usize].hidden;
        let Range { mut start, mut end } = span.range();
        // Ranges that overlap or touch become one.
        while let Some((&from, &to)) = hidden.range(..=end).next_back()
            && to >= start
        {
            hidden.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        hidden.insert(start, end);
    }

    /// Returns the text of a file.
    pub fn text(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].text
    }

    /// Returns the name of a file.
    pub fn name(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].name
    }

    /// Returns the place where a span starts.
    pub fn place(&self, span: Span) -> Place {
        let (line, start) = self.line_of(span);
        let before = self.slice(span.file(), start..span.range().start);
        Place {
            file: self.name(span.file()).to_owned(),
            line,
            column: before.chars().count() + 1,
        }
    }

    /// Returns the line where a span starts. A span over several lines is marked to the end of the
    /// first one. `…` stands for what is left out of a long line.
    pub fn excerpt(&self, span: Span) -> Excerpt {
        let file = &self.files[span.file as usize];
        let (line, start) = self.line_of(span);
        let end = file
            .lines
            .get(line)
            .map_or(file.text.len(), |next| next - 1);
        let at = span.range();
        let (before, rest) = (
            self.slice(span.file(), start..at.start.min(end)),
            self.slice(span.file(), at.start.min(end)..end),
        );
        let mark = start + before.len();
        let from = before
            .char_indices()
            .rev()
            .nth(SHOWN - 1)
            .map_or(0, |(at, _)| at);
        let size = rest
            .char_indices()
            .nth(SHOWN)
            .map_or(rest.len(), |(at, _)| at);
        let (is_cut, goes_on) = (from > 0, size < rest.len());
        let mut text = self.shown(span.file(), start + from..mark + size);
        if is_cut {
            text.insert(0, '…');
        }
        if goes_on {
            text.push('…');
        }
        let marked = self.slice(span.file(), mark..at.end.min(mark + size));
        Excerpt {
            line,
            text,
            before: before[from..].chars().count() + usize::from(is_cut),
            marked: marked.chars().count().max(1),
        }
    }

    /// Returns the number of the line in which a span starts, from one.
    pub(crate) fn line(&self, span: Span) -> usize {
        self.line_of(span).0
    }

    /// Returns the number of the line in which a span starts, and the position of its first byte.
    fn line_of(&self, span: Span) -> (usize, usize) {
        let lines = &self.files[span.file as usize].lines;
        let line = lines.partition_point(|start| *start <= span.range().start);
        (line, lines[line - 1])
    }

    /// Returns a range of a file. Positions outside the text or within a character are moved down.
    fn slice(&self, file: FileId, range: Range<usize>) -> &str {
        let text = self.text(file);
        let whole = |at: usize| {
            let mut at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (whole(range.start), whole(range.end));
        &text[start..end.max(start)]
    }

    /// Returns the text of a range, with stars for what is hidden.
    fn shown(&self, file: FileId, range: Range<usize>) -> String {
        let hidden = &self.files[file.0 as usize].hidden;
        let is_hidden = |at: usize| {
            let last = hidden.range(..=at).next_back();
            last.is_some_and(|(_, end)| at < *end)
        };
        let text = self.slice(file, range.clone());
        let chars = text.char_indices().map(|(at, c)| match c {
            _ if is_hidden(range.start + at) => '*',
            '\t' => ' ',
            c if c.is_control() => ' ',
            c => c,
        });
        chars.collect::<String>().trim_end().to_owned()
    }
}

/// Prints the name only: the text may contain secrets.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of lines, columns and hidden parts.

    use super::{Sources, Span};

    #[test]
    fn a_place_counts_lines_from_one_and_columns_in_characters() {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", "x = 1\ny = \"ä\" z\n");
        let at = sources.text(file).find('z').unwrap();
        let place = sources.place(Span::new(file, at..at + 1));
        assert_eq!(place.to_string(), "a.toml:2:9");
    }

    #[test]
    fn an_excerpt_ends_with_its_line_and_marks_at_least_one_character() {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", "one = [\n1,\n]\n");
        let excerpt = sources.excerpt(Span::new(file, 6..12));
        assert_eq!((excerpt.text.as_str(), excerpt.before), ("one = [", 6));
        assert_eq!(excerpt.marked, 1);
        let end = sources.excerpt(Span::new(file, 13..13));
        assert_eq!((end.line, end.marked), (4, 1));
    }

    #[test]
    fn of_a_long_line_the_part_around_the_mark_is_shown() {
        let mut sources = Sources::default();
        let file = sources.add(
            "a.toml",
            format!("{}b{}\n", "ä".repeat(500), "c".repeat(500)),
        );
        let excerpt = sources.excerpt(Span::new(file, 1000..1300));
        let (before, marked) = ("ä".repeat(100), format!("b{}", "c".repeat(99)));
        assert_eq!(excerpt.text, format!("…{before}{marked}…"));
        assert_eq!((excerpt.before, excerpt.marked), (101, 100));
        let start = sources.excerpt(Span::new(file, 0..2));
        assert_eq!((start.before, start.marked), (0, 1));
        assert_eq!(start.text, format!("{before}…"));
    }

    #[test]
    fn hidden_ranges_that_overlap_or_touch_are_one() {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", "0123456789abcdef");
        for range in [8..9, 2..4, 3..6, 12..14, 6..7, 1..2, 13..13, 15..16] {
            sources.hide(Span::new(file, range));
        }
        let excerpt = sources.excerpt(Span::new(file, 0..1));
        assert_eq!(excerpt.text, "0******7*9ab**e*");
        assert_eq!(sources.files[0].hidden.len(), 4);
    }

    #[test]
    fn a_hidden_range_is_shown_as_stars() {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", "t = \"abc\", u = 1");
        sources.hide(Span::new(file, 5..8));
        let excerpt = sources.excerpt(Span::new(file, 11..12));
        assert_eq!(excerpt.text, "t = \"***\", u = 1");
        assert!(!format!("{sources:?}").contains("abc"));
    }
}
