//! Which of two servers takes a request.

use crate::*;

/// A gateway with a route to two servers. The default is an empty text.
fn fixture(servers: &[Upstream; 2], balance: &str, settings: &str) -> Fixture {
    let text = route(&[&servers[0], &servers[1]], settings);
    let replaced = text.replace("balance = \"round_robin\"\n", balance);
    Fixture::new(&replaced)
}

/// Returns the number of the server to which a request comes, and its connection.
fn come(servers: &[Upstream; 2]) -> (usize, Peer) {
    let both = || servers.iter().enumerate();
    tidegate_testkit::until_some("a request comes", || {
        both().find_map(|(index, server)| Some((index, server.try_accept()?)))
    })
}

#[test]
fn each_balance_chooses_in_its_own_way() {
    const REQUESTS: usize = 80;
    let rows = [
        ("", "least"),
        ("balance = \"least_in_flight\"\n", "least"),
        ("balance = \"random\"\n", "random"),
        ("balance = \"round_robin\"\n", "round"),
    ];
    for (balance, expected) in rows {
        let servers = [Upstream::new(), Upstream::new()];
        let fixture = fixture(&servers, balance, "");
        let mut held = Vec::new();
        let ask = || {
            let client = fixture.send(GET);
            let (index, mut server) = come(&servers);
            server.message();
            (index, client, server)
        };
        let serve = |mut client: Peer, mut server: Peer, in_flight: usize| {
            server.write(OK_CLOSE);
            assert_eq!(client.message().body, "ok");
            let expected = [0, in_flight];
            tidegate_testkit::until("its place is free", || fixture.in_flight() == expected);
        };
        // The second server is busy.
        while held.len() < 3 {
            match ask() {
                (1, client, server) => held.push((client, server)),
                (_, client, server) => serve(client, server, held.len()),
            }
        }
        let next = |_| {
            let (index, client, server) = ask();
            serve(client, server, held.len());
            index
        };
        let chosen: Vec<usize> = (0..REQUESTS).map(next).collect();
        let busy: usize = chosen.iter().sum();
        let alternates = chosen.windows(2).all(|pair| pair[0] != pair[1]);
        // The sequence of random numbers of a loop is always the same.
        let name = match busy {
            _ if alternates => "round",
            30..=50 => "random",
            10..30 => "least",
            _ => "another",
        };
        assert_eq!(name, expected, "{balance:?}: {busy} of {REQUESTS}");
    }
}

#[test]
fn another_server_comes_first_for_a_further_attempt() {
    for balance in ["random", "least_in_flight", "round_robin"] {
        let servers = [Upstream::new(), Upstream::new()];
        let setting = format!("balance = \"{balance}\"\n");
        let fixture = fixture(&servers, &setting, "retry = { times = 1, budget = 1 }");
        for round in 0..20 {
            let mut client = fixture.send(GET);
            let (first, mut server) = come(&servers);
            server.message();
            drop(server);
            let (second, mut server) = come(&servers);
            assert_ne!(first, second, "{balance}, round {round}");
            server.serve_last(&mut client);
        }
    }
}
