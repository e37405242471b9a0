//! After how many results in a row a server changes its state.

/// The results of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    up: u32,
    down: u32,
    is_up: bool,
    /// How many results in a row speak against the current state.
    against: u32,
}

impl Thresholds {
    /// Creates the results of a server in this state, which is down after `down` failures in a row,
    /// and up after `up` successes in a row.
    pub(super) fn new(up: u32, down: u32, is_up: bool) -> Self {
        Self {
            up,
            down,
            is_up,
            against: 0,
        }
    }

    /// Adds a result. Returns the new state if it has changed.
    pub(super) fn add(&mut self, is_success: bool) -> Option<bool> {
        if is_success == self.is_up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = match self.is_up {
            true => self.down,
            false => self.up,
        };
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.is_up = is_success;
        Some(is_success)
    }
}

#[cfg(test)]
mod tests {
    //! Rows of results.

    use super::*;

    #[test]
    fn a_state_changes_after_results_in_a_row() {
        let mut server = Thresholds::new(2, 3, true);
        let rows = [
            (false, None),
            (false, None),
            (true, None),
            (false, None),
            (false, None),
            (false, Some(false)),
            (false, None),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(true)),
            (true, None),
        ];
        for (at, (result, expected)) in rows.into_iter().enumerate() {
            assert_eq!(server.add(result), expected, "{at}");
        }
    }
}
