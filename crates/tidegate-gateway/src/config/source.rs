//! The files of a configuration, and places in them.
//!
//! A [`Span`] is a range of bytes in one file. It is small and `Copy`, so that each value of the
//! tree has one. [`Sources`] keeps the texts and turns a span into file, line and column.
//!
//! Invariant: a range that was passed to [`Sources::hide`] is never printed.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The text of the line. Tabs are spaces and secrets are stars.
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
    hidden: Vec<Span>,
}

#[derive(Clone)]
struct Source {
    name: String,
    text: String,
}

impl Sources {
    /// Adds a file and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.files.push(Source {
            name: name.into(),
            text: text.into(),
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

    /// Returns the texts of the files, in the order of [`Sources::files`].
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.text.as_str())
    }

    /// Keeps the text of a span out of all excerpts.
    pub fn hide(&mut self, span: Span) {
        self.hidden.push(span);
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
    /// first one.
    pub fn excerpt(&self, span: Span) -> Excerpt {
        let (line, start) = self.line_of(span);
        let rest = self.slice(span.file(), start..self.text(span.file()).len());
        let end = start + rest.find('\n').unwrap_or(rest.len());
        let at = span.range();
        let count = |range: Range<usize>| self.slice(span.file(), range).chars().count();
        Excerpt {
            line,
            text: self.shown(span.file(), start..end),
            before: count(start..at.start.min(end)),
            marked: count(at.start.min(end)..at.end.min(end)).max(1),
        }
    }

    /// Returns the number of the line in which a span starts, and the position of its first byte.
    fn line_of(&self, span: Span) -> (usize, usize) {
        let before = self.slice(span.file(), 0..span.range().start);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, start)
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
        let is_hidden = |at: usize| {
            let mut spans = self.hidden.iter().filter(|span| span.file() == file);
            spans.any(|span| span.range().contains(&at))
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
    fn a_hidden_range_is_shown_as_stars() {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", "t = \"abc\", u = 1");
        sources.hide(Span::new(file, 5..8));
        let excerpt = sources.excerpt(Span::new(file, 11..12));
        assert_eq!(excerpt.text, "t = \"***\", u = 1");
        assert!(!format!("{sources:?}").contains("abc"));
    }
}
