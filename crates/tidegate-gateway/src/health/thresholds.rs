//! After how many results in a row a server changes its state.

/// The results of a server. Its state is not part of them: other checks may have changed it last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    up: u32,
    down: u32,
    /// How many results in a row speak against the current state.
    against: u32,
}

impl Thresholds {
    /// Creates the results of a server that is down after `down` failures in a row, and up after `up`
    /// successes in a row.
    pub(super) fn new(up: u32, down: u32) -> Self {
        Self {
            up,
            down,
            against: 0,
        }
    }

    /// Adds a result of a server in this state. Returns the new state if it changes.
    pub(super) fn add(&mut self, is_success: bool, is_up: bool) -> Option<bool> {
        if is_success == is_up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = match is_up {
            true => self.down,
            false => self.up,
        };
        if self.against < needed {
            return None;
        }
        self.against = 0;
        Some(is_success)
    }
}

#[cfg(test)]
mod tests {
    //! Rows of results.

    use super::*;

    #[test]
    fn a_state_changes_after_results_in_a_row() {
        let (mut server, mut is_up) = (Thresholds::new(2, 3), true);
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
            let changed = server.add(result, is_up);
            assert_eq!(changed, expected, "{at}");
            is_up = changed.unwrap_or(is_up);
        }
    }

    #[test]
    fn a_server_that_other_checks_have_set_down_is_up_after_successes() {
        let mut server = Thresholds::new(2, 3);
        assert_eq!(server.add(true, true), None);
        assert_eq!(server.add(true, false), None);
        assert_eq!(server.add(true, false), Some(true));
    }
}
