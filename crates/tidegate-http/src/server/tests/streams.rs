//! Responses in pieces: their order, their ends, and how much of them is on its way.

use super::{Client, Kept, get, ok};
use crate::pieces::cost;
use crate::server::part::Part;
use crate::server::{DeferredResponse, Limits, ResponseStream};

/// A client of a service that begins streams, of this length or in chunks.
fn streaming(length: Option<u64>) -> (Client, Kept<(String, ResponseStream)>) {
    Client::keeping(Limits::default(), move |request, response| {
        let stream = match length {
            Some(length) => response.stream_with_length(length),
            None => response.stream(),
        };
        Some((request.path().to_owned(), stream))
    })
}

#[test]
fn a_streamed_response_is_sent_in_chunks() {
    let (mut client, later) = streaming(None);
    let head = client.send(get("/a"));
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut stream = later.take("/a");
    stream.write("hello");
    stream.write("");
    stream.write(" world");
    let body = client.responses();
    stream.finish();
    let body = body + &client.responses();
    assert_eq!(body, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert!(client.is_open());
    client.send(get("/b"));
    later.take("/b").finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
}

#[test]
fn a_chunk_is_sent_with_its_line_end() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut stream = later.take("/a");
    stream.write("hello");
    assert_eq!(client.responses(), "5\r\nhello\r\n");
    let large = "x".repeat(0x2000);
    stream.write(large.clone());
    assert_eq!(client.responses(), format!("2000\r\n{large}\r\n"));
    stream.finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
}

#[test]
fn a_streamed_response_waits_for_earlier_ones() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    b.write("b");
    b.finish();
    assert_eq!(client.responses(), "");
    a.write("a");
    a.finish();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let expected = format!("1\r\na\r\n0\r\n\r\n{head}1\r\nb\r\n0\r\n\r\n");
    assert_eq!(client.responses(), expected);
}

#[test]
fn trailers_follow_the_last_chunk() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    later.take("/a").finish_with_trailers([("Sum", "42")]);
    assert_eq!(client.responses(), "0\r\nSum: 42\r\n\r\n");
}

#[test]
fn a_stream_that_is_dropped_cuts_the_connection() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut stream = later.take("/a");
    stream.write("part");
    drop(stream);
    assert!(!client.responses().contains("0\r\n\r\n"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_is_cut_at_its_turn() {
    let (mut client, later) = streaming(None);
    let head = client.send(get("/a") + &get("/b") + &get("/c"));
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    b.write("part");
    drop(b);
    assert_eq!(client.responses(), "");
    a.write("a");
    a.finish();
    let sent = client.responses();
    let begins = "1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n";
    assert!(sent.starts_with(begins), "{sent}");
    assert!(sent.contains("\r\nConnection: close\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\n4\r\npart\r\n"), "{sent}");
    assert!(head.ends_with("chunked\r\n\r\n"), "{head}");
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
    assert_eq!(client.metrics().unanswered, 1);
}

#[test]
fn a_stream_of_http_1_0_that_is_dropped_while_it_waits_is_not_begun() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + "GET /b HTTP/1.0\r\n\r\n");
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    b.write("part");
    drop(b);
    a.write("a");
    a.finish();
    // Only a reset would tell a part from the whole, and it could take the first response with it.
    assert_eq!(client.responses(), "1\r\na\r\n0\r\n\r\n");
    assert!(!client.is_open());
}

#[test]
fn responses_before_a_stream_that_is_cut_are_sent() {
    let (mut client, later) = Client::deferring();
    client.socket.set_room(Some(0));
    client.send(get("/a") + &get("/b") + &get("/c"));
    let large = "x".repeat(100_000);
    later.take("/a").body(large.clone());
    let mut b = later.take("/b").stream();
    b.write("part");
    drop(b);
    client.socket.run();
    assert!(client.is_open());
    later.take("/c").body("c");
    client.socket.set_room(None);
    let sent = client.responses();
    assert!(sent.starts_with(&ok(&large)));
    assert!(sent.ends_with("\r\n\r\n4\r\npart\r\n"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().unanswered, 1);
}

/// A client of a service that defers two responses at a time. It has sent four requests.
fn with_unread_requests(second: &str) -> (Client, Kept<(String, DeferredResponse)>) {
    let limits = Limits::default().max_outstanding(2);
    let (mut client, later) = Client::deferring_within(limits);
    client.send(get("/a") + second + &get("/c") + &get("/d"));
    assert_eq!(later.len(), 2, "the others wait");
    (client, later)
}

/// Checks that the connection does not reset what its client has not read: it reads what the client
/// sends, until the client ends.
fn reads_to_the_end(mut client: Client) {
    assert!(client.is_lingering());
    assert_eq!(client.send(get("/e")), "");
    assert!(client.is_lingering(), "it reads on");
    client.socket.end_input();
    assert!(!client.is_open());
}

#[test]
fn a_stream_that_is_cut_does_not_reset_the_responses_before_it() {
    let http_1_0 = "GET /b HTTP/1.0\r\n\r\n";
    for second in [&get("/b"), http_1_0] {
        let (mut client, later) = with_unread_requests(second);
        let mut b = later.take("/b").stream();
        b.write("part");
        drop(b);
        assert_eq!(client.responses(), "");
        later.take("/a").body("a");
        let sent = client.responses();
        assert!(sent.starts_with(&ok("a")), "{sent}");
        assert_eq!(sent.ends_with("4\r\npart\r\n"), second != http_1_0);
        reads_to_the_end(client);
    }
    // It is cut in its turn.
    let (mut client, later) = with_unread_requests(&get("/b"));
    later.take("/a").body("a");
    let mut b = later.take("/b").stream();
    b.write("part");
    assert!(client.responses().ends_with("4\r\npart\r\n"));
    // The third request has taken the place of the first one.
    drop((b, later.take("/c")));
    assert_eq!(client.responses(), "");
    assert_eq!(client.metrics().unanswered, 1);
    reads_to_the_end(client);
}

#[test]
fn a_stream_longer_or_shorter_than_declared_cuts_the_connection() {
    for write in ["hell", "hello!"] {
        let (mut client, later) = streaming(Some(5));
        client.send(get("/a"));
        let mut stream = later.take("/a");
        stream.write(write);
        stream.finish();
        client.responses();
        assert!(!client.is_open(), "{write}");
        assert_eq!(client.metrics().mistakes, 1, "{write}");
    }
    let (mut client, later) = streaming(Some(5));
    client.send(get("/a"));
    let mut stream = later.take("/a");
    stream.write("hello");
    stream.finish();
    assert_eq!(client.responses(), "hello");
    assert!(client.is_open());
}

#[test]
fn http_1_0_gets_a_stream_that_ends_with_the_connection() {
    let (mut client, later) = streaming(None);
    let head = client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let mut stream = later.take("/a");
    stream.write("hello");
    stream.finish();
    assert_eq!(client.responses(), "hello");
    assert!(!client.is_open());
}

#[test]
fn a_client_that_does_not_read_is_seen_by_the_stream() {
    let (mut client, later) = streaming(None);
    client.socket.set_room(Some(0));
    client.send(get("/a"));
    let mut stream = later.take("/a");
    assert!(stream.is_writable());
    stream.write(vec![0; 100_000]);
    assert!(stream.is_writable(), "its turn has come");
    stream.write(vec![0; 200_000]);
    assert!(!stream.is_writable());
    client.socket.run();
    assert!(!stream.is_writable());
    let writable = stream.writable();
    client.socket.set_room(None);
    client.socket.run();
    assert!(stream.is_writable());
    writable.wait().unwrap();
    stream.finish();
}

#[test]
fn several_large_pieces_of_a_stream_are_on_their_way_in_its_turn() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    assert_eq!((fill(&mut a), fill(&mut b)), (4, 1));
    let (room, behind) = (a.writable(), b.writable());
    client.socket.run();
    room.wait().unwrap();
    assert_eq!(fill(&mut a), 4, "the client has taken everything");
    assert!(!behind.is_done(), "its turn has not come");
    a.finish();
    client.socket.run();
    behind.wait().unwrap();
    assert_eq!(fill(&mut b), 4);
    b.finish();
    client.socket.run();
    assert_eq!(client.metrics().responses[0], 2);
}

#[test]
fn small_pieces_of_a_stream_count_with_the_memory_that_they_take() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    // In a box, in the queue of the channel. So the windows bound the memory, whatever the size of the
    // pieces.
    assert!(cost(0) >= size_of::<Part>() + 2 * size_of::<usize>());
    for (stream, window) in [(&mut a, 256 * 1024), (&mut b, 64 * 1024)] {
        let mut pieces = 0_usize;
        while stream.is_writable() {
            stream.write("x");
            pieces += 1;
        }
        assert_eq!(pieces, window / cost(1) + 1);
    }
    let room = a.writable();
    client.socket.run();
    room.wait().unwrap();
    assert!(a.is_writable() && !b.is_writable());
    a.finish();
    client.socket.run();
    assert!(
        b.is_writable(),
        "its pieces are counted down as they were counted"
    );
    b.finish();
}

/// Writes pieces of 64 KiB until the stream is not writable. Returns how many.
fn fill(stream: &mut ResponseStream) -> usize {
    let mut pieces = 0;
    while stream.is_writable() {
        stream.write(vec![0; 64 * 1024]);
        pieces += 1;
    }
    pieces
}

/// Fills windows of a stream while the client takes everything. Returns their sizes in pieces.
fn fill_windows<const N: usize>(client: &mut Client, stream: &mut ResponseStream) -> [usize; N] {
    [(); N].map(|()| {
        let pieces = fill(stream);
        let room = stream.writable();
        client.socket.run();
        room.wait().unwrap();
        pieces
    })
}

#[test]
fn a_client_that_takes_everything_gets_larger_windows() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut a = later.take("/a");
    assert_eq!(fill_windows(&mut client, &mut a), [4, 4, 8, 8]);
    a.finish();
    client.send(get("/b"));
    let mut b = later.take("/b");
    let calls = client.socket.write_calls();
    assert_eq!(fill(&mut b), 8, "the connection knows its client");
    client.socket.run();
    assert_eq!(client.socket.write_calls(), calls + 1);
    b.finish();
}

#[test]
fn a_client_that_stops_reading_gets_one_large_window_and_then_small_ones() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut a = later.take("/a");
    assert_eq!(fill_windows(&mut client, &mut a), [4, 4, 8]);
    client.socket.set_room(Some(0));
    assert_eq!(fill(&mut a), 8);
    client.socket.run();
    assert!(!a.is_writable(), "the water marks hold");
    // A piece with its size and its line end.
    const CHUNK: usize = 64 * 1024 + "10000\r\n\r\n".len();
    let mut held = 8 * CHUNK;
    // The client reads slowly: whenever the channel is writable again, a byte is left in it.
    for expected in [8, 4, 4] {
        client.socket.set_room(Some(held - 1));
        client.socket.run();
        assert_eq!(fill(&mut a), expected);
        held = 1 + expected * CHUNK;
        // Registers a wait, which ends the window.
        let _room = a.writable();
        client.socket.run();
        let most = (expected + 1) * 65 * 1024;
        assert!(client.socket.channel().pending_bytes() < most);
    }
    client.socket.set_room(None);
    client.socket.run();
    assert_eq!(fill_windows(&mut client, &mut a), [4, 8, 8]);
    a.finish();
}

#[test]
fn a_stream_for_head_sends_no_body() {
    let (mut client, later) = streaming(None);
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned() + &get("/b"));
    let mut stream = later.take("/a");
    stream.write("dropped");
    stream.finish_with_trailers([("Sum", "42")]);
    later.take("/b").finish();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(client.responses(), format!("{head}0\r\n\r\n"));
    assert!(client.is_open());
    assert_eq!(client.metrics().mistakes, 0);
}

#[test]
fn trailers_are_left_out_without_chunks() {
    let (mut client, later) = streaming(Some(5));
    client.send(get("/a"));
    let mut stream = later.take("/a");
    stream.write("hello");
    stream.finish_with_trailers([("Sum", "42")]);
    assert_eq!(client.responses(), "hello");
    assert!(client.is_open());
}

#[test]
fn a_stream_behind_another_response_has_a_limit_of_its_own() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (later.take("/a"), later.take("/b"));
    let piece = vec![b'x'; 40_000];
    b.write(piece.clone());
    assert!(b.is_writable());
    b.write(piece);
    client.socket.run();
    assert!(!b.is_writable());
    assert!(
        a.is_writable(),
        "the first response is not held up by the second"
    );
    let room = b.writable();
    assert!(!room.is_done());
    a.write("a");
    a.finish();
    client.responses();
    room.wait().unwrap();
    assert!(b.is_writable());
    b.finish();
}

#[test]
fn a_wait_for_room_fails_with_the_connection() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let mut b = later.take("/b");
    b.write(vec![0; 100_000]);
    let room = b.writable();
    client.close();
    room.wait().unwrap_err();
    b.writable().wait().unwrap_err();
}

#[test]
fn a_head_leaves_together_with_the_parts_that_follow_at_once() {
    let mut client = Client::new(|request, response| match request.path() {
        "/whole" => {
            let mut stream = response.stream();
            stream.write("hello");
            stream.write(vec![b'x'; 10_000]);
            stream.finish();
        }
        "/later" => response.defer().body("deferred, and there at once"),
        _ => response.body("now"),
    });
    for (path, end) in [("/whole", "0\r\n\r\n"), ("/later", "at once")] {
        let calls = client.socket.write_calls();
        let sent = client.send(get("/now") + &get(path));
        assert!(sent.starts_with(&ok("now")) && sent.ends_with(end));
        assert_eq!(client.socket.write_calls(), calls + 1, "{path}");
    }
}
