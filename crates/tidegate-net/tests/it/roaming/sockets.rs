//! Roaming loops with real sockets.

use super::*;
use crate::{Echo, dial, round_trip};

#[test]
fn an_echo_server_echoes() {
    let (_pool, group) = roaming(4);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut one = dial(&server);
    let mut other = dial(&server);
    for _ in 0..100 {
        assert_eq!(round_trip(&mut one, b"hello"), b"hello");
        assert_eq!(round_trip(&mut other, b"there"), b"there");
    }
    let counts = group.metrics()[0];
    assert!(counts.tasks() >= 200, "{counts}");
}
