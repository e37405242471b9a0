//! The terminal: its size, keys as they are typed, and lines that are drawn again in place.
//!
//! Invariant: a terminal whose mode was changed gets its old mode back when [`KeyMode`] is dropped.
//! Signals must be handled before the mode is changed, so that none ends the process in between.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read as _};
use std::os::fd::AsFd;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tidegate_core::ThreadBuilder;

/// The fewest columns in which a table can be read.
const NARROW: usize = 60;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// Returns the size of the terminal that shows the output, if there is one.
    pub(crate) fn of_output() -> Option<Self> {
        Self::of(std::io::stdout())
    }

    /// Returns the size of the terminal that shows errors and progress, if there is one.
    pub(crate) fn of_errors() -> Option<Self> {
        Self::of(std::io::stderr())
    }

    fn of(out: impl IsTerminal + AsFd) -> Option<Self> {
        let size = out
            .is_terminal()
            .then(|| tcgetwinsize(&out).ok())
            .flatten()?;
        // A terminal that does not know its size says 0.
        let or = |size: u16, usual: usize| match size {
            0 => usual,
            size => usize::from(size),
        };
        Some(Self {
            columns: or(size.ws_col, 80),
            rows: or(size.ws_row, 24),
        })
    }
}

/// Lines that are drawn again in place.
#[derive(Debug, Default)]
pub(crate) struct Painter {
    /// The lines that the cursor is below of.
    drawn: usize,
    size: Option<Size>,
}

impl Painter {
    /// Returns what draws the lines in place of the last ones. Each is cut at the width of the
    /// terminal, because a line that wraps could not be replaced.
    pub(crate) fn paint(&mut self, lines: &[String], size: Size) -> String {
        let mut text = String::new();
        if self.size.replace(size).is_some_and(|before| before != size) {
            // The terminal has moved the lines by itself.
            text.push_str("\x1b[2J\x1b[H");
            self.drawn = 0;
        }
        if self.drawn > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[{}A\r", self.drawn);
        }
        let shown = lines.len().min(size.rows.saturating_sub(1));
        for line in &lines[..shown] {
            let cut: String = line.chars().take(size.columns.saturating_sub(1)).collect();
            let _ = write!(text, "{cut}\x1b[K\r\n");
        }
        // Lines that are no longer there.
        text.push_str("\x1b[J");
        self.drawn = shown;
        text
    }
}

/// Returns what draws one line in place of the last one, cut at the width of the terminal.
pub(crate) fn repaint(line: &str, size: Size) -> String {
    let cut: String = line.chars().take(size.columns.saturating_sub(1)).collect();
    format!("\r\x1b[K{cut}")
}

/// Returns what to show instead of a table if the terminal is too narrow for it.
pub(crate) fn too_narrow(size: Size) -> Option<Vec<String>> {
    if size.columns >= NARROW {
        return None;
    }
    let columns = size.columns;
    let text = format!("the terminal has {columns} columns; make it {NARROW} columns wide or more");
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() < columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    Some(lines)
}

/// A terminal that sends each key at once and shows none. The old mode returns when it is dropped.
pub(crate) struct KeyMode {
    before: Termios,
}

impl KeyMode {
    /// Changes the mode of the terminal of the input, and calls `pressed` with each key, on a thread
    /// of its own. Returns `None` if the input is not a terminal.
    pub(crate) fn start(pressed: impl FnMut(u8) + Send + 'static) -> Option<Self> {
        let input = std::io::stdin();
        if !input.is_terminal() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mode = Self { before };
        tcsetattr(&input, OptionalActions::Now, &keys).ok()?;
        // The thread waits for a key until the process ends.
        let thread = ThreadBuilder::new("keys").detached();
        let started = thread.spawn(move || read_keys(pressed));
        started.ok().map(|_| mode)
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        // There is nothing to do about a terminal that is gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn read_keys(mut pressed: impl FnMut(u8)) {
    let mut key = [0];
    while let Ok(1) = std::io::stdin().read(&mut key) {
        pressed(key[0]);
    }
}

#[cfg(test)]
mod tests {
    //! What is written to a terminal.

    use super::{Painter, Size, repaint, too_narrow};

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_are_replaced_and_cut_at_the_width() {
        let mut painter = Painter::default();
        let size = Size {
            columns: 5,
            rows: 4,
        };
        let first = painter.paint(&lines(&["abcdef", "äöüßx"]), size);
        assert_eq!(first, "abcd\x1b[K\r\näöüß\x1b[K\r\n\x1b[J");
        let second = painter.paint(&lines(&["a"]), size);
        assert_eq!(second, "\x1b[2A\ra\x1b[K\r\n\x1b[J");
        let third = painter.paint(&lines(&["1", "2", "3", "4", "5"]), size);
        assert_eq!(third, "\x1b[1A\r1\x1b[K\r\n2\x1b[K\r\n3\x1b[K\r\n\x1b[J");
    }

    #[test]
    fn a_line_is_replaced_and_never_wraps() {
        let size = |columns| Size { columns, rows: 24 };
        assert_eq!(repaint("5 s: good", size(80)), "\r\x1b[K5 s: good");
        assert_eq!(repaint("5 s: good", size(5)), "\r\x1b[K5 s:");
        assert_eq!(repaint("5 s: good", size(0)), "\r\x1b[K");
    }

    #[test]
    fn a_narrow_terminal_gets_a_sentence_that_fits() {
        let size = |columns| Size { columns, rows: 24 };
        assert_eq!(too_narrow(size(60)), None);
        let lines = too_narrow(size(20)).unwrap();
        assert!(lines.iter().all(|line| line.len() < 20), "{lines:?}");
        let text = lines.join(" ");
        assert_eq!(
            text,
            "the terminal has 20 columns; make it 60 columns wide or more"
        );
    }

    #[test]
    fn a_new_size_draws_from_the_top() {
        let mut painter = Painter::default();
        let size = |columns| Size { columns, rows: 9 };
        painter.paint(&lines(&["abc"]), size(9));
        let after = painter.paint(&lines(&["abc"]), size(3));
        assert_eq!(after, "\x1b[2J\x1b[Hab\x1b[K\r\n\x1b[J");
        let none = painter.paint(&lines(&["abc"]), size(0));
        assert_eq!(none, "\x1b[2J\x1b[H\x1b[K\r\n\x1b[J");
    }
}
