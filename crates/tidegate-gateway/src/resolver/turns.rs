//! Which names are looked up at a time. Plain data: the caller says the time and runs the lookups.
//!
//! The operating system gives up a lookup only after many seconds if a DNS server is dead, and nothing
//! ends it earlier. So each kind of name has places of its own, by what its last lookup was like:
//!
//! | kind | names | places |
//! |---|---|---|
//! | `Prompt` | whose last lookup ended within a second | 16 |
//! | `New` | without a lookup that has ended | 32 |
//! | `Slow` | whose last lookup took longer | 80 |
//!
//! A lookup that has taken a second moves to a slow place, if one is free, and another name gets its
//! place.
//!
//! # Invariants
//!
//! * A name has one lookup at most, which waits or runs. Whoever asks meanwhile gets its result.
//! * A kind never uses the places of a kind above it in the table.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The most lookups that run at a time: the sum of all places.
pub(super) const MOST_RUNNING: usize = MOST[0] + MOST[1] + MOST[2];
/// The places of each kind.
const MOST: [usize; 3] = [16, 32, 80];
/// The most that wait for a result.
const MOST_WAITERS: usize = 4096;
/// The most names whose last lookup is remembered.
const MOST_REMEMBERED: usize = 4096;
/// A lookup that takes longer is slow.
pub(super) const SLOW: Duration = Duration::from_secs(1);

/// What the last lookup of a name was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prompt,
    New,
    Slow,
}

/// Names that are looked up. `W` waits for a result.
pub(super) struct Turns<W> {
    /// The names that wait for a place, by kind.
    queues: [VecDeque<Arc<str>>; 3],
    running: Vec<Running>,
    /// Who waits for the names that wait or run.
    waiters: HashMap<Arc<str>, Vec<W>>,
    waiting: usize,
    /// What the last lookups were like.
    remembered: HashMap<Arc<str>, Kind>,
    /// The caller will try again when a lookup has become slow.
    is_planned: bool,
}

/// A lookup that runs.
struct Running {
    name: Arc<str>,
    /// Whose place it has.
    place: Kind,
    /// When it began, in nanoseconds.
    since: u64,
}

impl<W> Turns<W> {
    pub(super) fn new() -> Self {
        Self {
            queues: Default::default(),
            running: Vec::new(),
            waiters: HashMap::new(),
            waiting: 0,
            remembered: HashMap::new(),
            is_planned: false,
        }
    }

    /// Adds one that waits for a name. Returns it if too many wait.
    pub(super) fn add(&mut self, name: &str, waiter: W) -> Result<(), W> {
        if self.waiting >= MOST_WAITERS {
            return Err(waiter);
        }
        self.waiting += 1;
        if let Some(others) = self.waiters.get_mut(name) {
            others.push(waiter);
            return Ok(());
        }
        let name: Arc<str> = Arc::from(name);
        let kind = self.remembered.get(&name).copied().unwrap_or(Kind::New);
        self.queues[kind as usize].push_back(Arc::clone(&name));
        self.waiters.insert(name, vec![waiter]);
        Ok(())
    }

    /// Returns a name whose lookup begins now.
    pub(super) fn next(&mut self, now: u64) -> Option<Arc<str>> {
        self.make_room(now);
        for kind in [Kind::Prompt, Kind::New, Kind::Slow] {
            if !self.has_place(kind) {
                continue;
            }
            if let Some(name) = self.queues[kind as usize].pop_front() {
                self.running.push(Running {
                    name: Arc::clone(&name),
                    place: kind,
                    since: now,
                });
                return Some(name);
            }
        }
        None
    }

    /// Returns after which time the caller has to call [`try_again`](Self::try_again), because a lookup
    /// moves to a slow place then and a name that waits gets its place. `None` if nothing waits for
    /// that, or if the caller knows already.
    pub(super) fn plan(&mut self, now: u64) -> Option<Duration> {
        if self.is_planned || !self.has_place(Kind::Slow) {
            return None;
        }
        let waits = |kind: Kind| !self.queues[kind as usize].is_empty();
        let useful = |one: &&Running| one.place != Kind::Slow && waits(one.place);
        let oldest = self.running.iter().filter(useful).map(|one| one.since);
        let taken = Duration::from_nanos(now.saturating_sub(oldest.min()?));
        self.is_planned = true;
        Some(SLOW.saturating_sub(taken))
    }

    /// The planned time has come: [`next`](Self::next) may return more.
    pub(super) fn try_again(&mut self) {
        self.is_planned = false;
    }

    /// A lookup has ended. Returns who waits for it.
    pub(super) fn end(&mut self, name: &str, now: u64) -> Vec<W> {
        let own = self.running.iter().position(|one| *one.name == *name);
        if let Some(own) = own {
            let ended = self.running.swap_remove(own);
            let kind = match is_slow(&ended, now) {
                true => Kind::Slow,
                false => Kind::Prompt,
            };
            self.remember(ended.name, kind);
        }
        let waiters = self.waiters.remove(name).unwrap_or_default();
        self.waiting -= waiters.len();
        waiters
    }

    /// Remembers what a lookup was like. If there are too many names, all others become new ones.
    fn remember(&mut self, name: Arc<str>, kind: Kind) {
        if self.remembered.len() >= MOST_REMEMBERED && !self.remembered.contains_key(&name) {
            self.remembered.clear();
        }
        self.remembered.insert(name, kind);
    }

    /// Moves slow lookups to slow places.
    fn make_room(&mut self, now: u64) {
        let mut free = MOST[Kind::Slow as usize] - self.count(Kind::Slow);
        let running = self.running.iter_mut();
        for one in running.filter(|one| one.place != Kind::Slow && is_slow(one, now)) {
            if free == 0 {
                return;
            }
            one.place = Kind::Slow;
            free -= 1;
        }
    }

    fn has_place(&self, kind: Kind) -> bool {
        self.count(kind) < MOST[kind as usize]
    }

    fn count(&self, kind: Kind) -> usize {
        self.running.iter().filter(|one| one.place == kind).count()
    }
}

fn is_slow(lookup: &Running, now: u64) -> bool {
    Duration::from_nanos(now.saturating_sub(lookup.since)) >= SLOW
}

#[cfg(test)]
mod tests {
    //! Names that hang, and names that do not.

    use super::{MOST, MOST_RUNNING, MOST_WAITERS, Turns};

    const SECOND: u64 = 1_000_000_000;

    /// Adds names and returns those that begin.
    fn begin(turns: &mut Turns<()>, names: impl Iterator<Item = String>, now: u64) -> Vec<String> {
        names.for_each(|name| turns.add(&name, ()).unwrap());
        let begun = std::iter::from_fn(|| turns.next(now));
        begun.map(|name| name.to_string()).collect()
    }

    fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |number| format!("{prefix}{number}"))
    }

    fn one(name: &str) -> impl Iterator<Item = String> {
        std::iter::once(name.to_owned())
    }

    /// Looks up a name that is found at once.
    fn find(turns: &mut Turns<()>, name: &str, now: u64) {
        assert_eq!(begin(turns, one(name), now), [name]);
        assert_eq!(turns.end(name, now).len(), 1);
    }

    #[test]
    fn a_name_has_one_lookup_for_all_who_ask() {
        let mut turns = Turns::new();
        let begun = begin(&mut turns, one("a").chain(one("a")), 0);
        assert_eq!(begun, ["a"]);
        assert!(begin(&mut turns, one("a"), SECOND).is_empty());
        assert_eq!(turns.end("a", SECOND).len(), 3);
        assert_eq!(begin(&mut turns, one("a"), SECOND), ["a"], "again");
    }

    #[test]
    fn names_that_hang_leave_places_for_names_that_were_found() {
        let mut turns = Turns::new();
        find(&mut turns, "good", 0);
        let mut begun = 0;
        for second in 0..100 {
            let prefix = format!("hangs{second}.");
            let more = names(&prefix, 10);
            begun += begin(&mut turns, more, second * SECOND).len();
            find(&mut turns, "good", second * SECOND);
        }
        assert_eq!(begun, MOST_RUNNING - MOST[0], "all other places are taken");
    }

    #[test]
    fn a_lookup_that_has_taken_a_second_gives_its_place_to_a_new_name() {
        let mut turns = Turns::new();
        assert_eq!(begin(&mut turns, names("hangs", 40), 0).len(), MOST[1]);
        assert!(begin(&mut turns, one("good"), 0).is_empty());
        assert_eq!(turns.plan(SECOND / 4).unwrap().as_millis(), 750);
        assert_eq!(turns.plan(SECOND / 2), None, "it is planned");
        turns.try_again();
        let begun = begin(&mut turns, std::iter::empty(), SECOND);
        assert_eq!(begun.len(), 9);
        assert_eq!(begun[8], "good");
        assert_eq!(turns.plan(SECOND), None, "nothing waits");
    }

    #[test]
    fn names_that_were_slow_take_no_place_of_new_ones() {
        let mut turns = Turns::new();
        let hang = || names("hangs", MOST[1]);
        assert_eq!(begin(&mut turns, hang(), 0).len(), MOST[1]);
        for name in hang() {
            turns.end(&name, 10 * SECOND);
        }
        let again = begin(&mut turns, hang(), 20 * SECOND);
        assert_eq!(again.len(), MOST[1]);
        let more = begin(&mut turns, names("new", MOST[1]), 20 * SECOND);
        assert_eq!(more.len(), MOST[1]);
        // It was prompt this time.
        turns.end("hangs0", 20 * SECOND);
        assert_eq!(begin(&mut turns, one("hangs0"), 20 * SECOND), ["hangs0"]);
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let mut turns = Turns::new();
        for _ in 0..MOST_WAITERS {
            turns.add("a", ()).unwrap();
        }
        assert!(turns.add("a", ()).is_err() && turns.add("b", ()).is_err());
        assert!(turns.next(0).is_some());
        assert_eq!(turns.end("a", 0).len(), MOST_WAITERS);
        turns.add("b", ()).unwrap();
    }
}
