//! The choice of a server. Each loop has a picker of its own, so a choice takes no lock.
//!
//! The first choice follows the strategy. If its server is full, the others are tried in order:
//! a request is refused only if no server has a place. A server whose name is being looked up for the first
//! time comes last: its requests wait for the lookup.

use super::server::{Lease, ServerState};

/// How a server is chosen. Weights apply to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One after the other. A server of weight 2 comes twice in a round, not in a row.
    RoundRobin,
    /// The less busy of two random servers, by requests in flight per weight.
    LeastInFlight,
    /// Any server.
    Random,
}

/// The choices of one loop.
#[derive(Clone, Debug)]
pub struct Picker {
    strategy: Strategy,
    /// The credit of each server in the smooth weighted round.
    credits: Vec<i64>,
    random: u64,
}

impl Picker {
    /// Creates a picker. Each loop passes a seed of its own, so that loops do not choose alike.
    pub fn new(strategy: Strategy, seed: u64) -> Self {
        Self {
            strategy,
            credits: Vec::new(),
            random: seed,
        }
    }

    /// Chooses a server and reserves a place. `avoid` is the server of an earlier attempt: it is
    /// chosen only if no other has a place. Returns `None` if no server has one.
    pub fn pick(&mut self, servers: &[ServerState], avoid: Option<usize>) -> Option<Lease> {
        if let ([_], None) = (servers, avoid) {
            return reserve(servers, 0).or_else(|| last_resort(servers));
        }
        let total = total(servers, avoid);
        if total > 0 {
            let first = match self.strategy {
                Strategy::RoundRobin => self.next_in_round(servers, avoid),
                Strategy::Random => self.any(servers, avoid, total),
                Strategy::LeastInFlight => {
                    let one = self.any(servers, avoid, total);
                    let two = self.any(servers, avoid, total);
                    less_busy(servers, one, two)
                }
            };
            let after = (0..servers.len()).map(|step| (first + step) % servers.len());
            let mut others = after.filter(|index| Some(*index) != avoid);
            if let Some(lease) = others.find_map(|index| reserve(servers, index)) {
                return Some(lease);
            }
        }
        let same = avoid.and_then(|index| reserve(servers, index));
        same.or_else(|| last_resort(servers))
    }

    /// Returns the next server of the smooth weighted round: each gets its weight as credit, and
    /// the one with the most credit pays the sum of the weights.
    fn next_in_round(&mut self, servers: &[ServerState], avoid: Option<usize>) -> usize {
        self.credits.resize(servers.len(), 0);
        let mut sum = 0;
        let mut best: Option<usize> = None;
        for index in 0..servers.len() {
            let weight = i64::from(weight(servers, index, avoid));
            if weight == 0 {
                continue;
            }
            sum += weight;
            self.credits[index] += weight;
            if best.is_none_or(|best| self.credits[index] > self.credits[best]) {
                best = Some(index);
            }
        }
        let best = best.unwrap_or(0);
        self.credits[best] -= sum;
        best
    }

    /// Returns a random server by weight. The sum of the weights may shrink meanwhile, because a
    /// server goes down; the last one with a weight is then chosen.
    fn any(&mut self, servers: &[ServerState], avoid: Option<usize>, total: u64) -> usize {
        let mut left = self.next_random() % total;
        let mut last = 0;
        for index in 0..servers.len() {
            let weight = u64::from(weight(servers, index, avoid));
            if weight == 0 {
                continue;
            }
            if left < weight {
                return index;
            }
            left -= weight;
            last = index;
        }
        last
    }

    /// Returns the next number of a SplitMix64 sequence.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Returns the weight of a server; 0 for the one to avoid.
fn weight(servers: &[ServerState], index: usize, avoid: Option<usize>) -> u32 {
    match Some(index) == avoid {
        true => 0,
        false => servers[index].weight(),
    }
}

fn total(servers: &[ServerState], avoid: Option<usize>) -> u64 {
    let weights = (0..servers.len()).map(|index| u64::from(weight(servers, index, avoid)));
    weights.sum()
}

/// Returns the server with fewer requests in flight per weight.
fn less_busy(servers: &[ServerState], one: usize, two: usize) -> usize {
    let (a, b) = (&servers[one], &servers[two]);
    let busy = |in_flight: usize, other: u32| in_flight as u128 * u128::from(other.max(1));
    match busy(b.in_flight(), a.weight()) < busy(a.in_flight(), b.weight()) {
        true => two,
        false => one,
    }
}

/// Reserves a place at a server that takes requests.
fn reserve(servers: &[ServerState], index: usize) -> Option<Lease> {
    let server = servers.get(index).filter(|server| server.weight() > 0)?;
    server.reserve().map(|permit| Lease::new(index, permit))
}

/// Reserves a place at a server whose name is being looked up.
#[cold]
fn last_resort(servers: &[ServerState]) -> Option<Lease> {
    let all = servers.iter().enumerate();
    let mut waiting = all.filter(|(_, server)| server.is_last_resort());
    waiting.find_map(|(index, server)| Some(Lease::new(index, server.reserve()?)))
}
