//! Channels over real sockets.

use std::io::Read;

use crate::{Echo, dial, round_trip, serve};

#[test]
fn echoes_over_two_loops() {
    let group = tidegate_net::pinned("io", 2).unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut clients: Vec<_> = (0..4).map(|_| dial(&server)).collect();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    let big: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    for client in &mut clients {
        let mut write = client.try_clone().unwrap();
        let sent = big.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut write, &sent).unwrap());
            let mut back = vec![0; big.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, big);
        });
    }
    assert_eq!((server.connections(), server.accepted()), (4, 4));
}
