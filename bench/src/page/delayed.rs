//! A server that waits before it responds, with a thread for each connection, on the first CPU.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::cpus::pin;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

/// Starts a server. `pause` returns how long it waits, at a time since its start. It runs until the
/// process ends.
pub(super) fn serve(pause: fn(Duration) -> Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let start = Instant::now();
    std::thread::spawn(move || {
        // The threads that it starts stay there.
        pin(0);
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream, start, pause));
        }
    });
    address
}

/// Responds until the client leaves. It sends one request at a time, without a body.
fn respond(mut stream: TcpStream, start: Instant, pause: fn(Duration) -> Duration) {
    let _ = stream.set_nodelay(true);
    let (mut buffer, mut got) = ([0; 4096], 0);
    while let Ok(count @ 1..) = stream.read(&mut buffer[got..]) {
        got += count;
        if !buffer[..got].ends_with(b"\r\n\r\n") {
            continue;
        }
        got = 0;
        let time = pause(start.elapsed());
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        if stream.write_all(RESPONSE).is_err() {
            return;
        }
    }
}

/// Each response takes 20 milliseconds.
pub(super) fn steady(_: Duration) -> Duration {
    Duration::from_millis(20)
}

/// The server stops for the first 200 ms of each second, and responds at once else.
pub(super) fn stalling(since: Duration) -> Duration {
    let within = Duration::from_nanos(u64::from(since.subsec_nanos()));
    Duration::from_millis(200).saturating_sub(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{REQUEST, exchange};

    #[test]
    fn it_stops_for_a_fifth_of_each_second() {
        let millis = Duration::from_millis;
        assert_eq!(stalling(millis(3000)), millis(200));
        assert_eq!(stalling(millis(3150)), millis(50));
        assert_eq!(stalling(millis(3200)), Duration::ZERO);
        assert_eq!(stalling(millis(3999)), Duration::ZERO);
    }

    #[test]
    fn it_responds_to_each_request() {
        let mut stream = TcpStream::connect(serve(|_| Duration::ZERO)).unwrap();
        for _ in 0..2 {
            assert_eq!(exchange(&mut stream, REQUEST).unwrap(), RESPONSE.len());
        }
    }
}
