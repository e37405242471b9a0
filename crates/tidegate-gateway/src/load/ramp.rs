//! When a rising rate has gone too far.

/// A stage below this share of the best one means that goodput falls.
const FALLS: f64 = 0.95;
/// A stage whose goodput is below this share of its rate means that it does not rise any more.
const FOLLOWS: f64 = 0.25;

/// What the stages have shown so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ramp {
    /// The rate of the stage with the most good responses, and how many per second.
    best: Option<(f64, f64)>,
}

/// What follows from a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next stage may begin.
    Continue,
    /// Fewer responses were good than in an earlier stage.
    Falls,
    /// Most requests of the stage had no good response.
    Flat,
}

impl Ramp {
    /// Takes the result of a stage: its rate, and its good responses per second.
    pub(crate) fn stage(&mut self, rate: f64, good: f64) -> Verdict {
        let best = self.best.map_or(0.0, |(_, good)| good);
        if good < best * FALLS {
            return Verdict::Falls;
        }
        if good > best {
            self.best = Some((rate, good));
        }
        match good < rate * FOLLOWS {
            true => Verdict::Flat,
            false => Verdict::Continue,
        }
    }

    /// Returns the rate of the best stage, and its good responses per second.
    pub(crate) fn best(&self) -> Option<(f64, f64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    //! The end of a ramp.

    use super::{Ramp, Verdict};

    #[test]
    fn ends_when_goodput_falls_and_names_the_best_stage() {
        let mut ramp = Ramp::default();
        assert_eq!(ramp.stage(100.0, 100.0), Verdict::Continue);
        assert_eq!(ramp.stage(125.0, 124.0), Verdict::Continue);
        // Noise is not a fall.
        assert_eq!(ramp.stage(156.0, 121.0), Verdict::Continue);
        assert_eq!(ramp.stage(195.0, 80.0), Verdict::Falls);
        assert_eq!(ramp.best(), Some((125.0, 124.0)));
    }

    #[test]
    fn ends_when_goodput_stays_where_it_is() {
        let mut ramp = Ramp::default();
        for rate in [100.0, 200.0, 390.0] {
            assert_eq!(ramp.stage(rate, 100.0), Verdict::Continue);
        }
        assert_eq!(ramp.stage(800.0, 100.0), Verdict::Flat);
        assert_eq!(Ramp::default().stage(10.0, 0.0), Verdict::Flat);
    }
}
