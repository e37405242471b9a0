//! Mistakes in a configuration: where, what, what is expected instead.
//!
//! All mistakes are collected before any is printed. The text of a message never contains the
//! value of a variable; the caller passes the text of the file instead.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::source::{Sources, Span};

/// The largest number of messages. With more, the file is none that a person wrote.
const MOST: usize = 100;

/// The severity of a [`Mistake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but a part of it has no effect.
    Warning,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Decides whether the configuration can be used.
    pub severity: Severity,
    /// The text that is wrong.
    pub at: Span,
    /// The setting, such as `route.catalog.timeout`. Empty for a mistake of syntax.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// The form of a correct value.
    pub expected: Option<String>,
    /// A known word that is similar to the one that is wrong.
    pub nearest: Option<String>,
    /// Another place that belongs to the mistake, and why.
    pub related: Option<(Span, String)>,
}

impl Mistake {
    /// Creates an error.
    pub fn new(at: Span, path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            at,
            path: path.into(),
            what: what.into(),
            expected: None,
            nearest: None,
            related: None,
        }
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Adds the form of a correct value.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Adds the known word that is nearest to `word`, if one is similar.
    #[must_use]
    pub fn nearest<'a>(mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        self.nearest = nearest(word, known).map(str::to_owned);
        self
    }

    /// Adds another place and why it belongs to the mistake.
    #[must_use]
    pub fn related(mut self, at: Span, why: impl Into<String>) -> Self {
        self.related = Some((at, why.into()));
        self
    }

    /// Returns the message with the line of the file and a caret under the text that is wrong.
    pub fn render(&self, sources: &Sources) -> String {
        let place = |at: Span| visible(&sources.place(at).to_string());
        let mut text = format!("{}: ", place(self.at));
        if self.severity == Severity::Warning {
            text.push_str("warning: ");
        }
        if !self.path.is_empty() {
            let _ = write!(text, "{}: ", visible(&self.path));
        }
        text.push_str(&visible(&self.what));
        text.push('\n');
        let hint = match (&self.expected, &self.nearest) {
            (Some(expected), Some(nearest)) => {
                format!("expected {expected}; did you mean `{nearest}`?")
            }
            (Some(expected), None) => format!("expected {expected}"),
            (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
            (None, None) => String::new(),
        };
        text.push_str(&marked(sources, self.at, &visible(&hint)));
        if let Some((at, why)) = &self.related {
            let _ = writeln!(text, "{}: {}", place(*at), visible(why));
            text.push_str(&marked(sources, *at, ""));
        }
        text
    }
}

/// The mistakes found so far, each once.
#[derive(Clone, Debug, Default)]
pub struct Mistakes {
    found: Vec<Mistake>,
    /// The places of `found`, and what is wrong there.
    known: HashSet<(Span, String)>,
    /// Values that have a mistake already and stand for nothing.
    broken: HashSet<Span>,
}

impl Mistakes {
    /// Adds a mistake, unless the same text has the same mistake already: an inherited value is
    /// read once for each heir.
    pub fn add(&mut self, mistake: Mistake) {
        if self.broken.contains(&mistake.at) {
            return;
        }
        if self.known.insert((mistake.at, mistake.what.clone())) {
            self.found.push(mistake);
        }
    }

    /// Adds the mistake of a value that stands for nothing: there is no other one about it.
    pub(super) fn add_broken(&mut self, value: Span, mistake: Mistake) {
        self.add(mistake);
        self.broken.insert(value);
    }

    /// Returns `true` if one of the mistakes is an error.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|m| m.severity == Severity::Error)
    }

    /// Returns the mistakes in the order of the files and their lines.
    pub fn in_order(&self) -> Vec<&Mistake> {
        let mut all: Vec<&Mistake> = self.found.iter().collect();
        all.sort_by_key(|mistake| mistake.at);
        all
    }

    /// Returns the messages, then a line with the number of mistakes. Of many mistakes, those that are no
    /// errors are left out first, then the last ones.
    pub fn render(&self, sources: &Sources) -> String {
        let is_error = |m: &&Mistake| m.severity == Severity::Error;
        let errors = self.found.iter().filter(is_error).count();
        let warnings = self.found.len() - errors;
        let mut left = (MOST.min(errors), MOST.saturating_sub(errors));
        let mut text = String::new();
        for mistake in self.in_order() {
            let left = match mistake.severity {
                Severity::Error => &mut left.0,
                Severity::Warning => &mut left.1,
            };
            if *left > 0 {
                *left -= 1;
                text.push_str(&mistake.render(sources));
            }
        }
        if self.found.len() > MOST {
            let _ = writeln!(text, "and {} more", self.found.len() - MOST);
        }
        let _ = writeln!(
            text,
            "{}, {}",
            counted(errors, "error"),
            counted(warnings, "warning")
        );
        text
    }
}

/// Returns the known word that is most similar to `word`, if it is similar enough to be meant: at
/// most a third of the letters differ, and at least one may.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let far = (word.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|known| {
        (
            strsim::osa_distance(&word, &known.to_ascii_lowercase()),
            known,
        )
    });
    let close = distances.filter(|(distance, _)| *distance <= far);
    close
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Returns `1 error`, `2 errors`.
fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Escapes control characters: a name in quotes or of a file may have any, which would end the line or
/// change the colours of a terminal.
fn visible(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_debug().collect(),
        false => String::from(c),
    };
    text.chars().map(escaped).collect()
}

/// Returns the line of a span, and below it the carets with a hint.
fn marked(sources: &Sources, at: Span, hint: &str) -> String {
    let excerpt = sources.excerpt(at);
    let number = excerpt.line.to_string();
    let carets = format!(
        "{}{} {hint}",
        " ".repeat(excerpt.before),
        "^".repeat(excerpt.marked)
    );
    format!(
        "  {number} | {}\n  {} | {}\n",
        excerpt.text,
        " ".repeat(number.len()),
        carets.trim_end()
    )
}

#[cfg(test)]
mod tests {
    //! Tests of the messages and of the search for similar words.

    use super::{Mistake, Mistakes, nearest};
    use crate::config::source::{Sources, Span};

    #[test]
    fn a_message_shows_file_line_column_the_text_and_a_caret() {
        let mut sources = Sources::default();
        let file = sources.add("t.toml", "a = 1\nerror_rate = 500\n");
        let at = Span::new(file, 19..22);
        let mistake = Mistake::new(at, "breaker.error_rate", "500 is not a percentage")
            .expected("a percentage (0 to 100)");
        assert_eq!(
            mistake.render(&sources),
            "t.toml:2:14: breaker.error_rate: 500 is not a percentage\n\
             \x20 2 | error_rate = 500\n\
             \x20   |              ^^^ expected a percentage (0 to 100)\n"
        );
    }

    #[test]
    fn the_same_mistake_of_the_same_text_is_kept_once() {
        let mut sources = Sources::default();
        let file = sources.add("t.toml", "a = 1\n");
        let at = Span::new(file, 0..1);
        let mut mistakes = Mistakes::default();
        mistakes.add(Mistake::new(at, "defaults.route.a", "is wrong"));
        mistakes.add(Mistake::new(at, "route.x.a", "is wrong"));
        assert!(mistakes.render(&sources).ends_with("1 error, 0 warnings\n"));
        assert!(mistakes.has_errors());
    }

    #[test]
    fn of_many_mistakes_some_are_shown_and_all_are_counted() {
        let mut sources = Sources::default();
        let file = sources.add("t.toml", "x\n".repeat(1000));
        let mut mistakes = Mistakes::default();
        for line in 0..1000 {
            let mistake = Mistake::new(Span::new(file, line * 2..line * 2 + 1), "a", "is wrong");
            mistakes.add(match line < 902 {
                true => mistake.warning(),
                false => mistake,
            });
        }
        let text = mistakes.render(&sources);
        assert_eq!(text.matches(": warning: a: is wrong").count(), 2);
        assert_eq!(text.matches(": a: is wrong").count(), 100);
        assert!(text.starts_with("t.toml:1:1: "), "{text}");
        let end = "\nand 900 more\n98 errors, 902 warnings\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_nearest_word_is_offered_only_if_it_is_similar() {
        let known = ["timeout", "retry", "limit"];
        assert_eq!(nearest("timeuot", known), Some("timeout"));
        assert_eq!(nearest("Limits", known), Some("limit"));
        assert_eq!(nearest("colour", known), None);
    }
}
