//! Random calls: the breaker behaves like a naive one that keeps every call ever made. Calls of several
//! threads: it never opens on errors that did not happen.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_testkit::{Rng, model};

use super::tests::breaker;
use super::*;
use crate::metrics::WindowConfig;

/// A breaker that keeps all calls and judges at every edge of a bucket.
struct Naive {
    bucket: u64,
    buckets: u64,
    min_calls: u64,
    percent: u64,
    sleep: u64,
    /// When each counted call ended, and whether it failed.
    calls: VecDeque<(u64, bool)>,
    state: BreakerState,
    /// When the breaker opened, if it is open.
    opened: u64,
    /// Calls before this do not count.
    since: u64,
    judged: u64,
}

impl Naive {
    fn turn_to(&mut self, now: u64) {
        while (self.judged + 1) * self.bucket <= now {
            self.judged += 1;
            let end = self.judged * self.bucket;
            let start = end
                .saturating_sub(self.buckets * self.bucket)
                .max(self.since);
            let inside = || {
                self.calls
                    .iter()
                    .filter(|(at, _)| (start..end).contains(at))
            };
            let total = inside().count() as u64;
            let errors = inside().filter(|(_, failed)| *failed).count() as u64;
            let bad = total >= self.min_calls && errors * 100 / total.max(1) >= self.percent;
            if self.state == BreakerState::Closed && bad {
                self.state = BreakerState::Open;
                self.opened = end;
            }
        }
    }

    /// Returns whether a call passes as a probe, or `None` if it is denied.
    fn pass(&mut self, now: u64) -> Option<bool> {
        self.turn_to(now);
        match self.state {
            BreakerState::Closed => Some(false),
            BreakerState::Open if now > self.opened + self.sleep => {
                self.state = BreakerState::HalfOpen;
                Some(true)
            }
            _ => None,
        }
    }

    fn end(&mut self, now: u64, is_probe: bool, passed_at_state: u64, failed: bool) {
        self.turn_to(now);
        if is_probe {
            if failed {
                self.state = BreakerState::Open;
                self.opened = now;
            } else {
                self.state = BreakerState::Closed;
                self.since = now;
                self.calls.clear();
            }
        } else if self.state == BreakerState::Closed && passed_at_state == self.since {
            self.calls.push_back((now, failed));
        }
    }
}

#[test]
fn does_what_a_naive_breaker_does() {
    model(0..200, |rng| {
        let bucket = 1 + rng.below(50);
        let buckets = 1 + rng.below(6) as u32;
        let (min_calls, percent) = (1 + rng.below(10), 1 + rng.below(100));
        let sleep = rng.below(200);
        let window = WindowConfig::new(Duration::from_nanos(bucket) * buckets, buckets);
        let breaker = breaker(BreakerConfig {
            window: BreakerWindow::Time(window),
            min_calls: min_calls as u32,
            error_percent: percent as u8,
            sleep: Duration::from_nanos(sleep),
            ..BreakerConfig::default()
        });
        let mut naive = Naive {
            bucket,
            buckets: u64::from(buckets),
            min_calls,
            percent,
            sleep,
            calls: VecDeque::new(),
            state: BreakerState::Closed,
            opened: 0,
            since: 0,
            judged: 0,
        };
        run(rng, &breaker, &mut naive);
    });
}

fn run(rng: &mut Rng, breaker: &Breaker, naive: &mut Naive) {
    let mut now = 0;
    let mut out = Vec::new();
    for _ in 0..400 {
        let pause = if rng.chance(0.05) { 1_000 } else { 12 };
        now += rng.below(pause);
        if rng.chance(0.5) || out.is_empty() {
            let expected = naive.pass(now);
            let pass = breaker.try_pass(now).ok();
            assert_eq!(
                pass.as_ref().map(|pass| pass.is_probe()),
                expected,
                "at {now}"
            );
            out.extend(pass.map(|pass| (pass, naive.since)));
        } else {
            let (pass, since) = out.swap_remove(rng.index(out.len()));
            let (is_probe, failed) = (pass.is_probe(), rng.chance(0.6));
            naive.end(now, is_probe, since, failed);
            if failed {
                pass.failure(now, Duration::ZERO);
            } else {
                pass.success(now, Duration::ZERO);
            }
        }
        naive.turn_to(now);
        assert_eq!(breaker.state(now), naive.state, "at {now}");
    }
    for (pass, _) in out {
        pass.ignore(now);
    }
}

#[test]
fn threads_together_show_no_error_that_did_not_happen() {
    let breaker = breaker(BreakerConfig {
        window: BreakerWindow::Count(2),
        min_calls: 2,
        error_percent: 100,
        ..BreakerConfig::default()
    });
    let call = |fails: bool| {
        let pass = breaker
            .try_pass(0)
            .expect("of two calls in a row, one succeeds");
        match fails {
            true => pass.failure(0, Duration::ZERO),
            false => pass.success(0, Duration::ZERO),
        }
    };
    std::thread::scope(|scope| {
        // Only one thread fails, and only every other call.
        for may_fail in [true, false, false] {
            scope.spawn(move || (0..50_000).for_each(|n| call(may_fail && n % 2 == 0)));
        }
    });
    assert_eq!(breaker.transitions(), [0; 4]);
}
