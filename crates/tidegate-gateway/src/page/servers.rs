//! The servers of all upstreams, and the share of each in the calls of its upstream over the last ten
//! seconds.

use std::collections::VecDeque;

use super::reports::{ServerReport, UpstreamReport};
use super::series::number;
use crate::json::{Object, array};

/// The periods of the window: ten seconds.
const WINDOW: usize = 20;

/// The servers of all upstreams.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) upstreams: Vec<UpstreamReport>,
    /// What pages show, as JSON.
    pub(crate) shown: String,
    /// In the order of the servers.
    calls: VecDeque<Calls>,
}

/// The calls of a server.
#[derive(Debug)]
struct Calls {
    upstream: String,
    address: String,
    /// Since the start, at the end of each period of the window, the oldest one first.
    totals: VecDeque<u64>,
}

impl Servers {
    pub(crate) fn new() -> Self {
        Self {
            upstreams: Vec::new(),
            shown: "[]".to_owned(),
            calls: VecDeque::new(),
        }
    }

    /// Takes a sample; `is_tick` says whether it ends a period. Returns `true` if pages have to show
    /// something else.
    pub(crate) fn sample(&mut self, upstreams: Vec<UpstreamReport>, is_tick: bool) -> bool {
        let mut before = std::mem::take(&mut self.calls);
        let shown = upstreams.iter().map(|upstream| {
            let first = self.calls.len();
            for server in &upstream.servers {
                let mut calls = taken(&mut before, &upstream.name, server);
                calls.add(server.calls, is_tick);
                self.calls.push_back(calls);
            }
            let calls = self.calls.range(first..).zip(&upstream.servers);
            let calls = calls.map(|(calls, server)| calls.within(server.calls));
            upstream_shown(upstream, &calls.collect::<Vec<u64>>())
        });
        let shown = array(shown.collect::<Vec<String>>());
        let has_changed = shown != self.shown;
        (self.upstreams, self.shown) = (upstreams, shown);
        has_changed
    }
}

impl Calls {
    /// Adds what was counted since the start.
    fn add(&mut self, total: u64, is_tick: bool) {
        // A server that is replaced begins to count again.
        if self.totals.back().is_some_and(|last| total < *last) {
            self.totals.clear();
        }
        if is_tick || self.totals.is_empty() {
            self.totals.push_back(total);
        }
        if self.totals.len() > WINDOW + 1 {
            self.totals.pop_front();
        }
    }

    /// Returns the calls within the window.
    fn within(&self, total: u64) -> u64 {
        total.saturating_sub(self.totals.front().copied().unwrap_or(total))
    }
}

/// Takes the calls of a server out of those of before. They have the same order, as a rule.
fn taken(before: &mut VecDeque<Calls>, upstream: &str, server: &ServerReport) -> Calls {
    let is_it = |one: &Calls| one.upstream == upstream && one.address == server.address;
    let found = before.iter().position(is_it);
    let found = found.and_then(|at| before.remove(at));
    found.unwrap_or_else(|| Calls {
        upstream: upstream.to_owned(),
        address: server.address.clone(),
        totals: VecDeque::new(),
    })
}

/// Returns an upstream as JSON. Shares are whole percents, so that pages get no frame for less.
fn upstream_shown(upstream: &UpstreamReport, calls: &[u64]) -> String {
    let all: u64 = calls.iter().sum();
    let share = |calls: u64| (all > 0).then(|| (calls as f64 * 100.0 / all as f64).round() / 100.0);
    let servers = upstream.servers.iter().zip(calls);
    let servers = servers.map(|(server, calls)| {
        Object::new()
            .text("address", &server.address)
            .raw("weight", server.weight)
            .raw("in_flight", server.in_flight)
            .optional("share", share(*calls).map(number))
            .raw("up", server.is_up)
            .raw("draining", server.is_draining)
            .raw("found", server.is_found)
            .end()
    });
    Object::new()
        .text("name", &upstream.name)
        .raw("servers", array(servers))
        .end()
}

#[cfg(test)]
mod tests {
    //! Shares, on counts that the test gives.

    use super::*;

    /// Takes a sample of an upstream whose servers have these addresses and calls.
    fn sample(servers: &mut Servers, calls: &[(&str, u64)], is_tick: bool) -> bool {
        let reports = calls.iter().map(|(address, calls)| ServerReport {
            address: (*address).to_owned(),
            weight: 1,
            in_flight: 0,
            calls: *calls,
            is_up: true,
            is_found: true,
            is_draining: false,
        });
        let upstream = UpstreamReport {
            name: "shop".to_owned(),
            servers: reports.collect(),
        };
        servers.sample(vec![upstream], is_tick)
    }

    fn shares(servers: &Servers) -> Vec<&str> {
        let parts = servers.shown.split("\"share\":").skip(1);
        parts.filter_map(|part| part.split(',').next()).collect()
    }

    #[test]
    fn a_share_is_of_the_calls_in_the_window_and_not_of_the_weights() {
        let mut servers = Servers::new();
        sample(&mut servers, &[("x", 1000), ("y", 0)], true);
        assert_eq!(shares(&servers), ["null", "null"], "there were no calls");
        assert!(sample(&mut servers, &[("x", 1010), ("y", 30)], true));
        assert_eq!(shares(&servers), ["0.25", "0.75"]);
        // A sample within a period counts, too, and what is rounded away is not shown again.
        assert!(!sample(&mut servers, &[("x", 1010), ("y", 30)], false));
        assert!(sample(&mut servers, &[("x", 1030), ("y", 30)], false));
        assert_eq!(shares(&servers), ["0.5", "0.5"]);
        for tick in 0..=WINDOW as u64 {
            sample(&mut servers, &[("x", 1030), ("y", 40 + tick)], true);
        }
        assert_eq!(shares(&servers), ["0", "1"], "older calls are forgotten");
        assert_eq!(servers.calls[0].totals.len(), WINDOW + 1);
    }

    #[test]
    fn servers_come_go_and_count_again() {
        let mut servers = Servers::new();
        sample(&mut servers, &[("x", 0), ("y", 0)], true);
        sample(&mut servers, &[("x", 10), ("y", 30)], true);
        // Another one comes first; one counts from the beginning; one is listed twice.
        let now = [("new", 5), ("y", 0), ("x", 20), ("x", 0)];
        sample(&mut servers, &now, true);
        assert_eq!(shares(&servers), ["0", "0", "1", "0"]);
        sample(&mut servers, &[("x", 30)], true);
        assert_eq!((shares(&servers), servers.calls.len()), (vec!["1"], 1));
    }
}
