//! Connections on a chosen event loop, and sockets that are handed over.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use tidegate_net::{Channel, Client, EmbeddedChannel, Handler, NetError, NetGroup, PipelineChange};
use tidegate_promise::Completion;
use tidegate_testkit::{Log, has};

use crate::{Echo, LogReads, group};

/// Connects a channel without handlers that does not read.
fn idle(group: &NetGroup) -> (Channel, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::builder(group).build();
    let channel = client
        .connect(listener.local_addr().unwrap())
        .wait()
        .unwrap();
    channel.set_auto_read(false);
    (channel, listener.accept().unwrap().0)
}

fn refused<T: Send + std::fmt::Debug>(done: Completion<T>) -> String {
    let why = done.wait().unwrap_err();
    why.to_string()
}

#[test]
fn a_client_connects_and_adopts_on_the_given_loop() {
    let group = group(3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::builder(&group).build();
    for home in group.loops().iter() {
        let channel = client.connect_on(home, address).wait().unwrap();
        assert_eq!(channel.loop_name(), home.name());
        let name = format!("localhost:{}", address.port());
        let channel = client.connect_on(home, name).wait().unwrap();
        assert_eq!(channel.loop_name(), home.name());
        let stream = TcpStream::connect(address).unwrap();
        let channel = client.adopt_on(home, stream).wait().unwrap();
        assert_eq!(channel.loop_name(), home.name());
    }
}

#[test]
fn a_loop_of_another_group_is_an_error() {
    let (own, other) = (group(1), group(1));
    let client = Client::builder(&own).build();
    let foreign = other.loops().next();
    let why = refused(client.connect_on(foreign, "127.0.0.1:1"));
    has(&why, ["cannot connect to 127.0.0.1:1", "group"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut far = listener.accept().unwrap().0;
    let why = refused(client.adopt_on(foreign, stream));
    assert!(why.contains("cannot adopt"), "{why}");
    assert_eq!(far.read(&mut [0]).unwrap(), 0, "the socket is closed");
}

#[test]
fn a_released_socket_lives_on_with_the_bytes_that_came_meanwhile() {
    let group = group(2);
    let (channel, mut peer) = idle(&group);
    channel.write_and_flush_with("one").wait().unwrap();
    peer.write_all(b"meanwhile").unwrap();
    let socket = channel.release().wait().unwrap();
    channel.closed().wait().unwrap();
    assert!(channel.close_cause().is_none());
    let late = refused(channel.write_with("late"));
    assert!(late.contains("closed"), "{late}");
    let (log, own) = Log::pair();
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("log", LogReads(own.clone())))
        .build();
    let home = group.loops().next();
    let moved = client.adopt_on(home, socket).wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["meanwhile"]);
    moved.write_and_flush("two");
    let mut got = [0; 6];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"onetwo");
}

#[test]
fn a_channel_that_is_not_idle_keeps_its_socket() {
    let group = group(1);
    let (channel, mut peer) = idle(&group);
    channel.write("unsent");
    let why = refused(channel.release());
    assert!(why.contains("bytes to send"), "{why}");
    channel.flush();
    let mut got = [0; 6];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"unsent");
    channel
        .change(|| PipelineChange::add_last("echo", Handler::inbound(Echo)))
        .wait()
        .unwrap();
    let why = refused(channel.release());
    assert!(why.contains("handlers"), "{why}");
    assert!(channel.is_active());
    channel
        .change(|| PipelineChange::remove("echo"))
        .wait()
        .unwrap();
    channel.deregister().wait().unwrap();
    assert!(refused(channel.release()).contains("off its loop"));
    channel.register().wait().unwrap();
    drop(channel.release().wait().unwrap());
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

#[test]
fn only_open_tcp_connections_without_an_end_are_released() {
    let group = group(1);
    let client = Client::builder(&group).build();
    let (near, _far) = UnixStream::pair().unwrap();
    let unix = client.adopt_unix(near).wait().unwrap();
    assert!(refused(unix.release()).contains("TCP"));
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let released = embedded.channel().release();
    embedded.run();
    let why = released.wait().unwrap_err();
    let why = why.failure().unwrap();
    assert!(matches!(why.downcast_ref(), Some(NetError::NotReleased(_))));
    let (half, _peer) = idle(&group);
    half.shutdown_output().wait().unwrap();
    assert!(refused(half.release()).contains("end"));
    let (closed, _peer) = idle(&group);
    let (done, released) = (closed.close(), closed.release());
    assert!(refused(released).contains("closed"));
    done.wait().unwrap();
    assert!(refused(closed.release()).contains("closed"));
}

#[test]
fn a_release_that_a_close_follows_completes_either_way_and_once() {
    let group = group(1);
    for _ in 0..20 {
        let (channel, mut peer) = idle(&group);
        let (first, second) = (channel.release(), channel.release());
        let closed = channel.close();
        let first = first.wait();
        assert!(second.wait().is_err());
        closed.wait().unwrap();
        let mut got = Vec::new();
        if let Ok(socket) = &first {
            let mut socket = socket;
            socket.write_all(b"open").unwrap();
        }
        let released = first.is_ok();
        drop(first);
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got == b"open", released);
    }
}

#[test]
fn a_release_that_is_cancelled_in_time_leaves_the_channel_open() {
    let group = group(1);
    let (channel, mut peer) = idle(&group);
    let gate = tidegate_testkit::Gate::new();
    let busy = group.submit(gate.waits()).unwrap();
    let released = channel.release();
    assert!(released.cancel());
    gate.open();
    busy.wait().unwrap();
    channel.write_and_flush("still here");
    let mut got = [0; 10];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
}
