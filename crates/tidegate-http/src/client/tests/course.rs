//! What a connection does next, beside the same with a flag for each fact.

use tidegate_testkit::{Rng, model, rounds};

use super::*;
use crate::client::connection::course::{After, Course, Look, OnBytes, OnData, OnDeadline};

/// The facts about a connection, of which each alone is easy to follow.
#[derive(Default)]
struct Facts {
    exchange: bool,
    in_body: bool,
    answered: bool,
    paused: bool,
    input_over: bool,
    gone: bool,
    over: bool,
    keep: Option<Duration>,
    until: u64,
}

impl Facts {
    fn on_bytes(&self, sent: bool) -> OnBytes {
        match (self.over, self.exchange, sent) {
            (true, ..) => OnBytes::Ignore,
            (_, false, _) => OnBytes::Close,
            (_, true, false) => OnBytes::Fail,
            (_, true, true) => OnBytes::Read,
        }
    }

    fn on_deadline(&self, look: Look) -> OnDeadline {
        let (head, body) = (LIMITS.head_timeout, LIMITS.body_timeout);
        if self.over || self.paused {
            return OnDeadline::Nothing;
        }
        let until = match self.exchange {
            false => self.until,
            true if look.has_sent && look.has_unsent => return OnDeadline::Wait(head),
            true if self.in_body => return OnDeadline::Fail(body),
            true if !look.complete && !look.has_unsent => return OnDeadline::Wait(head),
            true => look.since + head.as_nanos() as u64,
        };
        let left = Duration::from_nanos(until.saturating_sub(look.now));
        match (left.is_zero(), self.exchange) {
            (true, true) => OnDeadline::Fail(head),
            (true, false) => OnDeadline::Close,
            (false, true) => OnDeadline::Wait(left),
            (false, false) => OnDeadline::Wait(left.min(head)),
        }
    }

    /// The exchange ends; `over`: and the connection.
    fn end(&mut self, over: bool) {
        let until = self.until;
        *self = Self {
            over,
            until,
            ..Self::default()
        };
    }

    fn check(&self, course: &Course) {
        let expected = match (self.gone, self.over) {
            (true, _) => matches!(course, Course::Left),
            (_, true) => matches!(course, Course::Over),
            _ if !self.exchange => *course == Course::Idle { until: self.until },
            _ => course.is_receiving() && course.progress() == (self.answered, self.in_body),
        };
        assert!(expected, "{course:?}");
    }
}

fn look(rng: &mut Rng) -> Look {
    let limit = LIMITS.head_timeout.as_nanos() as u64;
    Look {
        now: rng.below(3 * limit),
        has_unsent: rng.chance(0.5),
        has_sent: rng.chance(0.5),
        complete: rng.chance(0.5),
        since: rng.below(limit),
    }
}

/// Does one thing that can happen now.
fn step(course: &mut Course, facts: &mut Facts, rng: &mut Rng) {
    let receives = facts.exchange && !facts.over;
    match rng.below(12) {
        0 | 1 if !facts.exchange && !facts.over => {
            (*course, facts.exchange) = (Course::BEGUN, true);
        }
        2 => {
            let sent = rng.chance(0.9);
            let next = course.on_bytes(sent);
            assert_eq!(next, facts.on_bytes(sent));
            if matches!(next, OnBytes::Close | OnBytes::Fail) {
                course.end();
                facts.end(true);
            }
        }
        3 if receives && !facts.in_body => {
            course.on_part();
            facts.answered = true;
        }
        4 if receives && !facts.in_body => {
            let keep = rng.chance(0.8).then(|| Duration::from_secs(rng.below(9)));
            course.on_head(keep.map_or(After::Close, After::Keep));
            (facts.in_body, facts.answered, facts.keep) = (true, true, keep);
        }
        5 if receives && facts.in_body && !facts.paused => {
            let flow = [Flow::More, Flow::Pause, Flow::Gone][rng.index(3)];
            let next = course.on_data(flow);
            facts.paused = flow == Flow::Pause && !facts.input_over;
            match next {
                OnData::Read => assert!(flow == Flow::More || facts.input_over),
                OnData::Pause => assert!(facts.paused),
                OnData::Leave => assert_eq!(flow, Flow::Gone),
            }
            if next == OnData::Leave {
                *course = Course::Left;
                (facts.gone, facts.over) = (true, true);
            }
        }
        6 => assert_eq!(course.on_resume(), std::mem::take(&mut facts.paused)),
        7 | 8 if receives && facts.in_body && !facts.paused => {
            let usable = rng.chance(0.8);
            let idle = course.on_end(usable);
            let reused = facts.keep.filter(|_| usable && !facts.input_over);
            assert_eq!(idle, reused);
            facts.end(idle.is_none());
            match idle {
                Some(_) => {
                    facts.until = rng.below(1 << 40);
                    *course = Course::Idle { until: facts.until };
                }
                None => course.end(),
            }
        }
        9 => {
            let look = look(rng);
            assert_eq!(course.on_deadline(look, &LIMITS), facts.on_deadline(look));
        }
        10 if facts.in_body && rng.chance(0.2) => {
            course.on_end_of_input();
            (facts.input_over, facts.paused) = (true, false);
        }
        11 if rng.chance(0.05) => {
            // It fails or is closed: a receiver that has left stays.
            course.end();
            match facts.gone {
                true => facts.over = true,
                false => facts.end(true),
            }
        }
        _ => {}
    }
}

#[test]
fn a_course_is_what_the_facts_say() {
    let (mut ended, mut again) = (0, 0);
    model(0..u64::try_from(rounds(3000)).unwrap(), |rng| {
        let (mut course, mut facts) = (Course::Idle { until: 0 }, Facts::default());
        for _ in 0..100 {
            let had = facts.exchange;
            step(&mut course, &mut facts, rng);
            facts.check(&course);
            again += u32::from(had && !facts.exchange && !facts.over);
        }
        ended += u32::from(facts.over);
    });
    assert!(ended > 0 && again > 0, "each end occurs");
}
