//! Channels over transports other than TCP.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{Client, Inbound, InboundContext, Nothing, Server};
use tidegate_testkit::{Log, has};

use crate::acts::Acts;
use crate::{Echo, LogReads, group, group_by};

#[test]
fn two_ends_in_memory_speak_to_each_other() {
    let group = group(2);
    let (log, own) = Log::pair();
    let hears = move |p: tidegate_net::PipelineBuilder| p.add("hears", LogReads(own.clone()));
    let pair = group.local_pair(hears, |p| p.add("echo", Echo));
    let (one, other) = pair.wait().unwrap();
    // Small messages, so that several are waiting when the other end reads.
    for _ in 0..299 {
        one.write(vec![1; 1000]);
    }
    let sent = one.write_with(vec![1; 1000]);
    one.flush();
    sent.wait().unwrap();
    let mut total = 0;
    while total < 300_000 {
        log.wait_for(1);
        total += log.take().iter().map(Bytes::len).sum::<usize>();
    }
    assert_eq!(total, 300_000);
    one.close().wait().unwrap();
    other.closed().wait().unwrap();
}

#[test]
fn bytes_sent_before_the_other_end_is_registered_are_received() {
    fn greets() -> Acts {
        Acts::on_read(|_, _| ()).on_active(|ctx| {
            ctx.write("hello");
            ctx.close_when_flushed();
        })
    }
    let group = group(1);
    let (log, own) = Log::pair();
    // On one event loop, the first end is opened, writes and closes before the second end is
    // created.
    let hears = move |p: tidegate_net::PipelineBuilder| p.add("hears", LogReads(own.clone()));
    let pair = group.local_pair(|p| p.add("greets", greets()), hears);
    let (_, other) = pair.wait().unwrap();
    other.closed().wait().unwrap();
    assert_eq!(log.take(), ["hello"]);
}

#[test]
fn a_unix_socket_serves_like_any_other() {
    let group = group(1);
    let folder = std::env::temp_dir().join(format!("tidegate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("echo.socket");
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.bind_unix(&path).wait().unwrap();
    let taken = Server::builder(&group).bind_unix(&path).wait().unwrap_err();
    assert!(taken.to_string().contains("in use"), "{taken}");
    let dump = server.dump().to_string();
    assert!(dump.contains(&path.display().to_string()), "{dump}");
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    let ours = Client::builder(&group)
        .build()
        .connect_unix(&path)
        .wait()
        .unwrap();
    assert!(ours.is_active());
    server.stop_accepting().wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = Client::builder(&group).build().connect_unix(&path).wait();
    assert!(missing.is_err());
}

/// Sends the text of each datagram back in capitals.
struct Replies;

impl Inbound for Replies {
    type In = tidegate_net::Datagram;
    type Out = Nothing;
    type Write = tidegate_net::Datagram;

    fn read(&mut self, question: Self::In, ctx: &mut InboundContext<'_, Self>) {
        let bytes = question.bytes.to_ascii_uppercase().into();
        let peer = question.peer;
        ctx.write(tidegate_net::Datagram { bytes, peer });
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

#[test]
fn channels_are_made_of_unix_and_udp_sockets_that_exist() {
    let group = group(1);
    let folder = std::env::temp_dir().join(format!("tidegate-made-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("echo.socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.serve(listener).wait().unwrap();
    let far = std::os::unix::net::UnixStream::connect(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let (log, own) = Log::pair();
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("hears", LogReads(own.clone())))
        .build();
    let channel = client.adopt_unix(far).wait().unwrap();
    channel.write_and_flush("hello");
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    server.stop_accepting().wait().unwrap();

    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let answers = Client::builder(&group)
        .pipeline(|p| p.add("answers", Replies))
        .build();
    let answers = answers.adopt_udp(socket).wait().unwrap();
    assert_eq!(answers.local_addr(), Some(address));
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"loud", address).unwrap();
    let mut answer = [0; 8];
    let count = client.recv(&mut answer).unwrap();
    assert_eq!(&answer[..count], b"LOUD");
}

#[test]
fn datagrams_go_out_and_come_back() {
    let group = group(1);
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Client::builder(&group)
        .pipeline(|p| p.add("answers", Replies))
        .build();
    let server = server.bind_udp(any).wait().unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let mut answer = vec![0; 70_000];
    for size in [1, 1000, 60_000] {
        client.send(&vec![b'a'; size]).unwrap();
        let count = client.recv(&mut answer).unwrap();
        assert_eq!(answer[..count], vec![b'A'; size]);
    }
    let misfit = Client::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .build();
    let why = misfit.bind_udp(any).wait().unwrap_err().to_string();
    assert!(why.contains("Datagram") && why.contains("`echo`"), "{why}");
    server.close().wait().unwrap();
}

#[test]
fn the_ends_of_a_unix_socket_are_named_by_its_path() {
    let clock = tidegate_core::ManualClock::new();
    let group = group_by(&clock);
    let name = format!("tidegate-named-{}.socket", std::process::id());
    let path = std::env::temp_dir().join(name);
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.bind_unix(&path).wait().unwrap();
    let (log, own) = Log::pair();
    let client = Client::builder(&group).pipeline(move |p| p.add("hears", LogReads(own.clone())));
    let channel = client.build().connect_unix(&path).wait().unwrap();
    channel.write_and_flush("x");
    log.wait_for(1);
    std::fs::remove_file(&path).unwrap();
    let path = path.display().to_string();
    assert_eq!(server.place(), path);
    has(format!("{server:?}"), [&path]);
    has(format!("{channel:?}"), [&path]);
    let dump = group.dump_within(Duration::MAX).to_string();
    assert!(!dump.contains("local"), "{dump}");
    let drained = server.drain(Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    assert_eq!(drained.wait().unwrap().closed_at_deadline, [path]);
}
