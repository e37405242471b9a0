//! Tests of the choice of a server.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Picker, ServerState, Strategy};

const ALL: [Strategy; 3] = [
    Strategy::RoundRobin,
    Strategy::LeastInFlight,
    Strategy::Random,
];

fn servers(weights: &[u32], max_in_flight: Option<u32>) -> Vec<ServerState> {
    let weights = weights.iter();
    weights
        .map(|weight| ServerState::new(*weight, max_in_flight))
        .collect()
}

#[test]
fn round_robin_spreads_by_weight_and_not_in_a_row() {
    let servers = servers(&[2, 1, 1], None);
    let mut picker = Picker::new(Strategy::RoundRobin, 1);
    let round: Vec<usize> = (0..8)
        .map(|_| picker.pick(&servers, None).unwrap().server)
        .collect();
    assert_eq!(round, [0, 1, 2, 0, 0, 1, 2, 0]);
}

#[test]
fn a_server_counts_the_requests_that_it_got_and_not_those_it_refused() {
    let servers = servers(&[1, 1], Some(1));
    let mut picker = Picker::new(Strategy::RoundRobin, 1);
    let held: Vec<_> = (0..3).map(|_| picker.pick(&servers, None)).collect();
    assert!(held[2].is_none(), "both are full");
    drop(held);
    assert!(picker.pick(&servers, Some(0)).is_some());
    let calls: Vec<u64> = servers.iter().map(ServerState::calls).collect();
    assert_eq!(calls, [1, 2]);
}

#[test]
fn random_follows_the_weights() {
    let servers = servers(&[3, 1, 0], None);
    let mut picker = Picker::new(Strategy::Random, 7);
    let mut counts = [0; 3];
    for _ in 0..4000 {
        counts[picker.pick(&servers, None).unwrap().server] += 1;
    }
    assert_eq!(counts[2], 0);
    assert!((2800..3200).contains(&counts[0]), "{counts:?}");
}

#[test]
fn the_less_busy_of_two_keeps_the_servers_level() {
    let servers = servers(&[1, 1, 1, 1], None);
    let mut picker = Picker::new(Strategy::LeastInFlight, 3);
    let held: Vec<_> = (0..400)
        .filter_map(|_| picker.pick(&servers, None))
        .collect();
    assert_eq!(held.len(), 400);
    for server in &servers {
        assert!((80..=120).contains(&server.in_flight()), "{servers:?}");
    }
}

#[test]
fn the_less_busy_of_two_is_that_with_fewer_requests_per_weight() {
    for seed in 0..20 {
        let servers = servers(&[3, 1], None);
        let mut picker = Picker::new(Strategy::LeastInFlight, seed);
        let held: Vec<_> = (0..400).map(|_| picker.pick(&servers, None)).collect();
        assert!(held.iter().all(Option::is_some));
        let counts = [0, 1].map(|at: usize| servers[at].in_flight());
        assert!((298..=302).contains(&counts[0]), "{seed}: {counts:?}");
        assert_eq!(counts[0] + counts[1], 400, "{seed}");
    }
}

#[test]
fn a_request_is_refused_only_if_no_server_has_a_place() {
    for strategy in ALL {
        let servers = servers(&[5, 1], Some(3));
        let mut picker = Picker::new(strategy, 5);
        let held: Vec<_> = (0..6)
            .map(|_| picker.pick(&servers, None).unwrap())
            .collect();
        assert!(picker.pick(&servers, None).is_none(), "{strategy:?}");
        drop(held);
        assert!(picker.pick(&servers, None).is_some(), "{strategy:?}");
    }
}

#[test]
fn the_server_of_an_earlier_attempt_is_the_last_choice() {
    for strategy in ALL {
        let servers = servers(&[9, 1], Some(1));
        let mut picker = Picker::new(strategy, 5);
        let other = picker.pick(&servers, Some(0)).unwrap();
        assert_eq!(other.server, 1, "{strategy:?}");
        let same = picker.pick(&servers, Some(0)).unwrap();
        assert_eq!(same.server, 0, "{strategy:?}");
    }
}

#[test]
fn a_server_that_is_down_gets_nothing() {
    for strategy in ALL {
        let servers = servers(&[1, 1], None);
        servers[0].set_up(false);
        let mut picker = Picker::new(strategy, 5);
        let down = (0..50).any(|_| picker.pick(&servers, None).unwrap().server == 0);
        assert!(!down, "{strategy:?}");
        servers[1].set_up(false);
        assert!(picker.pick(&servers, None).is_none());
        assert!(picker.pick(&[], None).is_none());
    }
}

#[test]
fn a_server_without_an_address_is_the_last_choice_and_none_if_its_name_is_not_found() {
    for strategy in ALL {
        let servers = servers(&[9, 1], Some(1));
        servers[0].set_no_address();
        let mut picker = Picker::new(strategy, 5);
        for avoid in [None, Some(0), Some(1)] {
            let good = picker.pick(&servers, avoid).unwrap();
            assert_eq!(good.server, 1, "{strategy:?}");
            let waits = picker.pick(&servers, avoid).unwrap();
            assert_eq!(waits.server, 0, "{strategy:?}");
            assert!(picker.pick(&servers, avoid).is_none(), "{strategy:?}");
        }
        assert!(picker.pick(&servers[..1], None).is_some());
        servers[0].set_draining(true);
        assert!(picker.pick(&servers[..1], None).is_none());
        servers[0].set_draining(false);
        assert!(servers[0].set_not_found() && !servers[0].set_not_found());
        servers[0].set_up(true);
        let good = picker.pick(&servers, None).unwrap();
        assert_eq!(good.server, 1, "{strategy:?}");
        assert!(picker.pick(&servers, None).is_none(), "{strategy:?}");
        assert!(picker.pick(&servers[..1], None).is_none(), "{strategy:?}");
        assert!(!servers[0].has_address() && servers[1].has_address());
    }
}

#[test]
fn a_server_of_weight_0_gets_nothing_while_its_name_is_looked_up() {
    for strategy in ALL {
        let full = ServerState::new(1, Some(1));
        let mut picker = Picker::new(strategy, 5);
        let _held = picker.pick(std::slice::from_ref(&full), None).unwrap();
        let standby = |weight| {
            let server = ServerState::new(weight, None);
            server.set_no_address();
            server
        };
        for (weight, is_chosen) in [(0, false), (1, true)] {
            let servers = [full.clone(), standby(weight)];
            let chosen = picker.pick(&servers, None);
            assert_eq!(chosen.is_some(), is_chosen, "{strategy:?} {weight}");
        }
    }
}

#[test]
fn a_server_that_an_operator_drains_stays_drained_when_a_check_succeeds() {
    let servers = servers(&[1], None);
    let mut picker = Picker::new(Strategy::RoundRobin, 1);
    let held = picker.pick(&servers, None).unwrap();
    servers[0].set_draining(true);
    servers[0].set_up(false);
    servers[0].set_up(true);
    assert!(servers[0].is_up() && servers[0].is_draining());
    assert!(picker.pick(&servers, None).is_none());
    assert_eq!(servers[0].in_flight(), 1);
    drop(held);
    servers[0].set_draining(false);
    assert!(picker.pick(&servers, None).is_some());
}

#[test]
fn the_limit_is_exact_over_all_loops() {
    let servers = servers(&[1, 2], Some(4));
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (servers, most) = (&servers, &most);
            scope.spawn(move || {
                let mut picker = Picker::new(Strategy::LeastInFlight, seed);
                for _ in 0..2000 {
                    let held: Vec<_> = (0..5).filter_map(|_| picker.pick(servers, None)).collect();
                    let in_flight = servers.iter().map(ServerState::in_flight).max();
                    most.fetch_max(in_flight.unwrap_or(0), Ordering::Relaxed);
                    drop(held);
                }
            });
        }
    });
    assert!(most.load(Ordering::Relaxed) <= 4);
    assert!(servers.iter().all(|server| server.in_flight() == 0));
}

#[test]
fn only_the_checks_that_count_set_a_server_down() {
    let server = ServerState::new(1, None);
    server.set_checker(1);
    assert!(server.set_up_by(1, false) && !server.is_up());
    server.set_checker(2);
    assert!(!server.set_up_by(1, true) && !server.is_up());
    // A result that comes after the end of the checks.
    server.end_checks();
    assert!(!server.set_up_by(2, false) && server.is_up());
}
