//! Random interleavings of everything that can happen to a request, without I/O. The world carries out the
//! actions as the executor does, with numbers in place of resources, and checks what always holds:
//! one reply, each admission given back once, nothing after the end, no request carried out twice that must
//! not be.

use std::time::Duration;

use tidegate::http::client::Flow;
use tidegate_testkit::{Rng, model, short_or_long};

use super::*;
use crate::command::Reason;

/// How many requests a seed has.
const REQUESTS: usize = 500;
/// After so many things the client leaves.
const PATIENCE: usize = 60;

/// What the executor would have to stop, of which attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    Nothing,
    Entry(u32),
    Pause(u32),
    Search(u32),
    Exchange(u32),
}

struct World<'r> {
    rng: &'r mut Rng,
    request: Request,
    kind: Kind,
    now: u64,
    wait: Wait,
    /// The attempts whose admission was not given back.
    held: Vec<u32>,
    /// The attempts whose connections were cancelled, and are not closed yet.
    closing: Vec<u32>,
    /// The attempt that begins when nothing is held any more.
    freeing: Option<(u32, Duration)>,
    /// The attempt whose connection was replaced last.
    last_replaced: u32,
    tries: u32,
    replied: bool,
    /// The whole response has come.
    whole: bool,
    ended: bool,
    /// The upstream of the route may have carried the request out, and that of the fallback.
    may_have_run: [bool; 2],
    /// The exchange is one with the upstream of the fallback.
    fell_back: bool,
    /// Some of the body is gone.
    lost: bool,
    steps: u64,
}

impl<'r> World<'r> {
    fn new(rng: &'r mut Rng) -> Self {
        let kind = [Kind::Safe, Kind::Idempotent, Kind::Unsafe][rng.index(3)];
        let upload = [
            Upload::None,
            Upload::Held,
            Upload::Flowing { blocked: false },
        ][rng.index(3)];
        let tries = rng.below(3) as u32;
        let terms = Terms {
            kind,
            retries: tries > 0,
            fallback: rng.chance(0.5),
            fallback_nanos: rng.below(3),
            most_body: 20 + rng.below(100),
        };
        let until = [u64::MAX, 30 + rng.below(60)][rng.index(2)];
        Self {
            request: Request::new(terms, upload, 1, until),
            rng,
            kind,
            now: 1,
            wait: Wait::Nothing,
            held: Vec::new(),
            closing: Vec::new(),
            freeing: None,
            last_replaced: 0,
            tries,
            replied: false,
            whole: false,
            ended: false,
            may_have_run: [false; 2],
            fell_back: false,
            lost: false,
            steps: 0,
        }
    }

    /// Takes a step. After the end nothing comes of it.
    fn tell(&mut self, of: Option<u32>, event: Event) -> Actions {
        self.steps += 1;
        let (was_over, now) = (self.ended, self.now);
        let actions = step(&mut self.request, of, event, || now);
        assert!(!was_over || actions.are_late(), "{event:?}: {actions:?}");
        actions
    }

    fn handle(&mut self, of: Option<u32>, event: Event) {
        let actions = self.tell(of, event);
        self.act(actions);
    }

    fn act(&mut self, actions: Actions) {
        for action in [actions.first, actions.then] {
            self.act_one(actions.attempt, action);
        }
    }

    fn act_one(&mut self, attempt: u32, action: Action) {
        assert!(
            !self.ended || matches!(action, Action::None | Action::Late),
            "{action:?} after the end"
        );
        match action {
            Action::None | Action::Late => {}
            Action::Admit => {
                assert_eq!(self.wait, Wait::Nothing);
                self.wait = Wait::Entry(attempt);
            }
            Action::Resend => {
                assert_eq!(self.wait, Wait::Exchange(attempt));
                let blocked = self.rng.chance(0.2);
                self.handle(None, Event::Resent { blocked });
            }
            Action::Pump => self.pump(),
            Action::Expect => {
                if self.rng.chance(0.5) {
                    self.handle(Some(attempt), Event::Agreed);
                }
            }
            Action::Limit(_) | Action::Blame(_) => {}
            Action::Retry(reason) => {
                let pause = self.tries.checked_sub(1);
                self.tries = pause.unwrap_or(0);
                let pause = pause.map(|_| Duration::from_secs(self.rng.below(2)));
                self.handle(Some(attempt), Event::Retried(reason, pause));
            }
            Action::Stop => self.stop(),
            Action::Free(pause) if self.held.is_empty() => {
                self.handle(Some(attempt), Event::Freed(pause));
            }
            Action::Free(pause) => self.freeing = Some((attempt, pause)),
            Action::Pause(_) => self.wait = Wait::Pause(attempt),
            Action::Turn(problem, left) => {
                assert!(left > 0 && !self.replied);
                let admitted = self.rng.chance(0.6);
                let actions = self.tell(Some(attempt), Event::Turned(problem, admitted));
                self.act(actions);
                if admitted {
                    self.admitted(actions.attempt);
                }
            }
            Action::Resume => assert!(matches!(self.wait, Wait::Exchange(_))),
            Action::End(ending) => self.end(ending),
            other => unreachable!("{other:?} is carried out where its event is told"),
        }
    }

    fn stop(&mut self) {
        match std::mem::replace(&mut self.wait, Wait::Nothing) {
            Wait::Exchange(attempt) => {
                self.note_sent();
                self.closing.push(attempt);
            }
            Wait::Search(attempt) => self.give_back(attempt),
            Wait::Nothing | Wait::Entry(_) | Wait::Pause(_) => {}
        }
    }

    /// Notes that some of the request was sent: nobody knows how far the server has come.
    fn note_sent(&mut self) {
        self.may_have_run[usize::from(self.fell_back)] = true;
        self.lost |= self.request.bytes().0 > 0;
    }

    fn end(&mut self, ending: Ending) {
        self.ended = true;
        assert!(self.replied || !matches!(ending, Ending::Served));
        assert!(self.replied == (self.request.reply() != Reply::Owed));
        self.stop();
    }

    /// Gives an admission back, which may begin the next attempt.
    fn give_back(&mut self, attempt: u32) {
        let at = self.held.iter().position(|own| *own == attempt);
        self.held.swap_remove(at.expect("it is given back once"));
        if self.held.is_empty()
            && let Some((next, pause)) = self.freeing.take()
        {
            self.handle(Some(next), Event::Freed(pause));
        }
    }

    fn admitted(&mut self, attempt: u32) {
        self.held.push(attempt);
        let actions = self.tell(Some(attempt), Event::Admitted);
        if actions.are_late() {
            return self.give_back(attempt);
        }
        assert_eq!(actions.first, Action::Pick);
        let connected = self.rng.chance(0.5);
        if self.rng.chance(0.1) {
            self.handle(Some(attempt), Event::Denied(Reason::NoServer.into()));
            return self.give_back(attempt);
        }
        let actions = self.tell(Some(attempt), Event::Picked { connected });
        match actions.first {
            Action::Begin if connected => self.begin(attempt, true),
            Action::Search if !connected => self.wait = Wait::Search(attempt),
            other => unreachable!("{other:?}"),
        }
    }

    fn begin(&mut self, attempt: u32, is_reused: bool) {
        assert_eq!(self.wait, Wait::Nothing);
        if self.rng.chance(0.1) {
            if is_reused {
                self.wait = Wait::Search(attempt);
                return;
            }
            let actions = self.tell(Some(attempt), Event::Broken);
            return self.replaced(attempt, actions);
        }
        assert!(!self.lost, "a part of the body is gone");
        self.fell_back = self.request.fell_back().is_some();
        let ran = match self.kind {
            Kind::Safe => false,
            // Twice by one service, but not by both.
            Kind::Idempotent => self.fell_back && self.may_have_run[0],
            Kind::Unsafe => self.may_have_run != [false; 2],
        };
        assert!(!ran, "it is carried out twice");
        let actions = self.tell(Some(attempt), Event::Begun);
        self.wait = Wait::Exchange(attempt);
        self.act(actions);
    }

    /// Goes on with another connection, or gives the admission back before what follows.
    fn replaced(&mut self, attempt: u32, actions: Actions) {
        if actions.first == Action::Replace {
            assert_ne!(self.last_replaced, attempt, "its connection was replaced");
            self.last_replaced = attempt;
            self.wait = Wait::Search(attempt);
            return;
        }
        self.give_back(attempt);
        self.act(actions);
    }

    fn failed(&mut self, attempt: u32, failure: Failure) {
        if matches!(self.wait, Wait::Exchange(own) | Wait::Search(own) if own == attempt) {
            self.wait = Wait::Nothing;
        }
        self.closing.retain(|own| *own != attempt);
        if failure.sent {
            self.note_sent();
        }
        let actions = self.tell(Some(attempt), Event::Failed(failure));
        self.replaced(attempt, actions);
    }

    fn pump(&mut self) {
        while self.request.waits_for_client() {
            assert!(matches!(self.wait, Wait::Exchange(_)));
            let event = match self.rng.below(12) {
                0..=2 => return,
                3..=8 => {
                    let kept = self.rng.chance(0.9);
                    self.lost |= !kept;
                    let bytes = 1 + self.rng.below(30);
                    let actions = self.tell(None, Event::Received { bytes, kept });
                    if actions.first != Action::Write {
                        return self.act(actions);
                    }
                    let flow = [Flow::More, Flow::More, Flow::Pause, Flow::Gone];
                    let flow = flow[self.rng.index(4)];
                    self.lost |= flow == Flow::Gone;
                    Event::Written(flow)
                }
                9 | 10 => Event::BodyEnded,
                _ => [Event::Left(None), Event::BodyTooLarge][self.rng.index(2)],
            };
            let actions = self.tell(None, event);
            if !actions.are_none() {
                return self.act(actions);
            }
        }
    }

    /// Lets something happen.
    fn happen(&mut self) {
        self.now += self.rng.below(4);
        if self.rng.chance(0.1) {
            self.happen_anywhere();
        } else if !self.closing.is_empty() && self.rng.chance(0.5) {
            self.happen_late();
        } else {
            self.happen_here();
        }
    }

    /// What the attempt in progress waits for.
    fn happen_here(&mut self) {
        match self.wait {
            Wait::Nothing => {}
            Wait::Entry(attempt) => {
                self.wait = Wait::Nothing;
                match self.rng.chance(0.8) {
                    true => self.admitted(attempt),
                    false => self.handle(Some(attempt), Event::Denied(Reason::Limit.into())),
                }
            }
            Wait::Pause(attempt) => {
                self.wait = Wait::Nothing;
                self.handle(Some(attempt), Event::Paused);
            }
            Wait::Search(attempt) if self.rng.chance(0.7) => {
                self.wait = Wait::Nothing;
                let actions = self.tell(Some(attempt), Event::Connected);
                assert_eq!(actions.first, Action::Begin);
                let is_reused = self.rng.chance(0.3);
                self.begin(attempt, is_reused);
            }
            Wait::Search(attempt) => self.failed(attempt, failure(Reason::Connect, 0)),
            Wait::Exchange(attempt) => self.exchange(attempt),
        }
    }

    fn exchange(&mut self, attempt: u32) {
        let of = Some(attempt);
        match self.rng.below(12) {
            0 => {
                let first = self.tell(of, Event::Informed).first;
                assert_eq!(first == Action::Inform, !self.replied);
            }
            1 => self.handle(of, Event::Agreed),
            2 => self.handle(of, Event::Writable),
            3 | 4 if !self.replied => {
                let ends = self.rng.chance(0.5);
                let event = Event::Head {
                    status: 200,
                    passed: 0,
                    ends,
                };
                assert_eq!(self.tell(of, event).first, Action::Respond);
                (self.replied, self.whole) = (true, ends);
            }
            3 | 4 => {
                let first = self.tell(of, Event::Part).first;
                assert_eq!(first == Action::PassOn, !self.whole);
                self.tell(of, Event::Passed(7));
                self.handle(of, Event::Room);
            }
            5 if self.replied => {
                self.wait = Wait::Nothing;
                self.handle(of, Event::Responded);
                assert!(self.ended);
                self.give_back(attempt);
            }
            6 if !self.replied && self.rng.chance(0.3) => {
                assert_eq!(self.tell(of, Event::Switched).first, Action::Switch);
                (self.replied, self.ended, self.wait) = (true, true, Wait::Nothing);
                self.give_back(attempt);
            }
            7 => {
                let most = if self.kind == Kind::Unsafe { 3 } else { 4 };
                let which = 1 + self.rng.below(most);
                self.failed(attempt, failure(Reason::Closed, which));
            }
            8 => {
                let answered = self.rng.chance(0.5);
                self.handle(
                    of,
                    Event::Expired {
                        limit: 10,
                        answered,
                    },
                );
            }
            _ => self.pump(),
        }
    }

    /// What happens to the request as a whole, at any time.
    fn happen_anywhere(&mut self) {
        match self.rng.below(6) {
            0 => self.handle(None, Event::Left(Some(Reason::SlowReader))),
            1 => {
                let used = self.rng.below(self.now);
                self.handle(None, Event::TimedOut { used });
            }
            _ => self.pump(),
        }
    }

    /// What comes from a connection that was cancelled: it changes nothing, and gives its admission back.
    fn happen_late(&mut self) {
        let attempt = self.closing[self.rng.index(self.closing.len())];
        let events = [
            Event::Head {
                status: 200,
                passed: 1,
                ends: true,
            },
            Event::Part,
            Event::Responded,
            Event::Writable,
            Event::Agreed,
            Event::Room,
            Event::Expired {
                limit: 1,
                answered: false,
            },
        ];
        let event = events[self.rng.index(events.len())];
        assert!(self.tell(Some(attempt), event).are_late());
        if self.rng.chance(0.5) {
            self.closing.retain(|own| *own != attempt);
            self.give_back(attempt);
        }
    }
}

/// Returns a failure: before anything was sent (0), of a connection that was idle (1), after the request
/// was sent (2), within the response (3), after a request that may be repeated was sent on a connection that
/// was idle (4).
fn failure(reason: Reason, which: u64) -> Failure {
    Failure {
        reason,
        sent: which > 1,
        stale: matches!(which, 1 | 4),
        safe: matches!(which, 0 | 1 | 4),
        silent: matches!(which, 1 | 2 | 4),
    }
}

#[test]
fn each_request_has_one_end_whatever_happens_in_whatever_order() {
    let mut steps = 0u64;
    model(0..short_or_long(40, 4000), |rng| {
        for _ in 0..REQUESTS {
            let mut world = World::new(rng);
            world.handle(None, Event::Begin);
            for _ in 0..PATIENCE {
                if world.ended {
                    break;
                }
                world.happen();
            }
            world.handle(None, Event::Left(None));
            assert!(world.ended);
            while !world.closing.is_empty() {
                world.happen_late();
            }
            assert!(world.held.is_empty(), "all admissions are given back");
            steps += world.steps;
        }
    });
    assert!(steps > REQUESTS as u64);
}
