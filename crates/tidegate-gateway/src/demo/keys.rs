//! What a key does.

use super::upstreams::{Mode, NAMES};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The server at this place does something else.
    Mode(usize, Mode),
    /// Bulkheads are switched off or on.
    Bulkheads,
    /// All servers do what their names say, with bulkheads.
    Reset,
    Quit,
}

/// The server that keys are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) chosen: usize,
}

impl Keys {
    /// Returns what a key means. A number chooses a server, which is nothing to do.
    pub(crate) fn pressed(&mut self, key: u8) -> Option<Wish> {
        let mode = |mode| Some(Wish::Mode(self.chosen, mode));
        match key.to_ascii_lowercase() {
            key @ b'1'..=b'4' => {
                self.chosen = usize::from(key - b'1');
                None
            }
            b'n' => mode(Mode::Normal),
            b's' => mode(Mode::Slow),
            b'f' => mode(Mode::Failing),
            b'h' => mode(Mode::Hanging),
            b'd' => mode(Mode::Dead),
            b'b' => Some(Wish::Bulkheads),
            b'r' => Some(Wish::Reset),
            // Ctrl-D, which ends the input of other programs.
            b'q' | 4 => Some(Wish::Quit),
            _ => None,
        }
    }

    /// Returns the help.
    pub(crate) fn help(self) -> Vec<String> {
        let names = NAMES
            .iter()
            .enumerate()
            .map(|(at, name)| match at == self.chosen {
                true => format!("{}[{name}]", at + 1),
                false => format!("{} {name}", at + 1),
            });
        let names: Vec<String> = names.collect();
        vec![
            format!("upstream   {}", names.join("  ")),
            "make it    n normal  s slow  f failing  h hanging  d dead".to_owned(),
            "also       b bulkheads off/on  r reset  q quit".to_owned(),
        ]
    }
}
