//! A new configuration while requests are in flight.

use crate::*;

#[test]
fn requests_in_flight_end_under_the_old_configuration() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&one], "");
    let mut client = fixture.send(GET);
    let mut server = one.accept();
    server.message();
    fixture.gateway.reload(config(&route(&[&two], ""))).unwrap();
    server.write(OK);
    assert_eq!(client.message().body, "ok");
    client.write(GET);
    two.accept().serve(OK);
    assert_eq!(client.message().body, "ok", "on the same connection");
    assert_eq!(
        server.rest(),
        "",
        "the connection to the old server is closed"
    );
}

#[test]
fn what_has_not_changed_keeps_its_connections_and_its_counts() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], "limit = 1");
    let mut client = fixture.send(GET);
    let mut server = back.accept();
    server.serve(OK);
    assert_eq!(client.message().body, "ok");
    let address = fixture.address();
    let changed = format!(
        "{}[route.new]\npath = \"/n\"\nrespond = 200\n",
        route(&[&back], "limit = 1")
    );
    fixture.gateway.reload(config(&changed)).unwrap();
    assert_eq!(fixture.address(), address);
    assert_eq!(
        fixture.send(&GET.replace("/a", "/n")).message().status(),
        "200"
    );
    client.write(GET);
    server.serve(OK);
    assert_eq!(client.message().body, "ok");
    assert!(back.is_quiet(), "the connection to the server is the same");
    let snapshots = fixture.isolation.snapshots();
    assert_eq!(snapshots.len(), 1);
    let served = snapshots[0].totals[tidegate::isolate::Event::Success];
    assert_eq!(served, 2, "the command is the same");
}

#[test]
fn a_command_takes_over_its_new_limit() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], "limit = 1");
    fixture
        .gateway
        .reload(config(&route(&[&back], "limit = 2")))
        .unwrap();
    let mut clients = [fixture.send(GET), fixture.send(GET)];
    let mut servers = [back.accept(), back.accept()];
    assert_eq!(fixture.send(GET).message().status(), "503");
    for server in &mut servers {
        server.serve(OK);
    }
    for client in &mut clients {
        assert_eq!(client.message().body, "ok");
    }
}

#[test]
fn removed_routes_free_their_commands() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], "");
    for round in 0..20 {
        let other = route(&[&back], "").replace("route.shop", &format!("route.r{round}"));
        fixture.gateway.reload(config(&other)).unwrap();
        assert_eq!(fixture.isolation.len(), 1);
    }
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], "");
    let broken = format!(
        "{}[route.files]\npath = \"/f/*\"\nfiles = \"/does/not/exist\"\n",
        route(&[&back], "limit = 1")
    );
    let why = fixture
        .gateway
        .reload(config(&broken))
        .unwrap_err()
        .to_string();
    assert!(
        why.starts_with("route.files: ") && why.contains("/does/not/exist"),
        "{why}"
    );
    let mut client = fixture.send(GET);
    let mut server = back.accept();
    server.serve(OK);
    assert_eq!(client.message().body, "ok");
    client.write(&GET.replace("/a", "/f/x"));
    server.message();
    let _second = fixture.send(GET);
    back.accept().message();
    assert_eq!(fixture.active(), 2, "the old limit");
}

#[test]
fn listeners_come_and_go() {
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    let address = fixture.address();
    let more = "[listen.more]\nat = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n";
    fixture.gateway.reload(config(more)).unwrap();
    let all = fixture.gateway.addresses();
    assert_eq!((all.len(), all[0].1.as_str()), (2, address.as_str()));
    let mut client = Peer::new(TcpStream::connect(&all[1].1).unwrap());
    client.write(GET);
    assert_eq!(client.message().status(), "200");
    fixture
        .gateway
        .reload(config("[route.r]\nrespond = 200\n"))
        .unwrap();
    assert_eq!(
        client.rest(),
        "",
        "an idle connection of a listener that is gone ends"
    );
    assert_eq!(fixture.gateway.addresses().len(), 1);
}
