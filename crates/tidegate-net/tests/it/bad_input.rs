//! Bad input causes an error value with the reason and the place. The connection ends cleanly and
//! the server keeps running. Bad certificates are tested with TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_net::handlers::{LengthField, LengthFrames, LineFrames, Strings};
use tidegate_net::{Channel, ChannelOptions, Client, Handler, NetGroup, PipelineChange, Server};
use tidegate_promise::Completion;
use tidegate_testkit::{Log, has};

use crate::acts::Acts;
use crate::{Echo, dial, round_trip, serve};

/// Echoes lines. Logs errors, which end the connection.
fn lines(errors: Log<String>, channels: Log<Channel>) -> Acts {
    let echo = Acts::on_read(|line, ctx| {
        ctx.write(line);
        ctx.write("\n");
        ctx.flush();
    });
    let echo = echo.on_active(move |ctx| channels.push(ctx.channel()));
    echo.on_error(move |why, ctx| {
        errors.push(why.to_string());
        ctx.close();
    })
}

struct Bench {
    group: NetGroup,
    server: Server,
    errors: Log<String>,
    channels: Log<Channel>,
}

fn bench() -> Bench {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (errors, channels) = (Log::new(), Log::new());
    let (to, of) = (errors.clone(), channels.clone());
    let server = serve(&group, move |p| {
        let lines = lines(to.clone(), of.clone());
        p.add("frames", LineFrames::max(16)).add("lines", lines)
    });
    Bench {
        group,
        server,
        errors,
        channels,
    }
}

impl Bench {
    fn goes_on(&self) {
        assert_eq!(round_trip(&mut dial(&self.server), b"hello\n"), b"hello\n");
    }
}

fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // If the server closes with unread bytes, the end is a reset.
    let _ = stream.read_to_end(&mut rest);
    rest
}

fn message<T: Send + std::fmt::Debug + 'static>(what: Completion<T>) -> String {
    what.wait().unwrap_err().to_string()
}

#[test]
fn an_oversized_frame_ends_its_connection_alone() {
    let bench = bench();
    let mut client = dial(&bench.server);
    client
        .write_all(b"fine\nfar too long a line for this\n")
        .unwrap();
    assert_eq!(rest(client), b"fine\n");
    let why = bench.errors.take().remove(0);
    assert!(why.contains("at most 16"), "{why}");
    bench.goes_on();
}

#[test]
fn garbage_ends_its_connection_alone() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (errors, to) = Log::pair();
    let server = serve(&group, move |p| {
        let lines = lines(to.clone(), Log::new());
        let field = LengthField::u32();
        let frames = LengthFrames::new(field, 1024).unwrap();
        p.add("frames", frames).add("lines", lines)
    });
    let mut client = dial(&server);
    client.write_all(&[0xff; 64]).unwrap();
    assert_eq!(rest(client), b"");
    let why = errors.take().remove(0);
    assert!(why.contains("at most 1024"), "{why}");
    let mut client = dial(&server);
    client.write_all(b"\0\0\0\x02hi").unwrap();
    let mut back = [0; 3];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hi\n");
}

#[test]
fn a_write_to_a_closed_channel_is_an_error_that_says_so() {
    let bench = bench();
    let client = dial(&bench.server);
    bench.channels.wait_for(1);
    let channel = bench.channels.take().remove(0);
    drop(client);
    channel.closed().wait().unwrap();
    channel.write_and_flush("unasked");
    assert!(message(channel.write_with("late")).contains("closed"));
    assert!(message(channel.flush_with()).contains("closed"));
    assert!(message(channel.write_and_flush_with("late")).contains("closed"));
    bench.goes_on();
}

#[test]
fn a_handler_added_twice_is_an_error_that_names_it() {
    let bench = bench();
    let twice = Server::builder(&bench.group)
        .pipeline(|p| p.add("frames", LineFrames::max(80)).add("frames", Echo))
        .bind("127.0.0.1:0");
    assert!(message(twice).contains("there is a handler called `frames` already"));
    let mut client = dial(&bench.server);
    assert_eq!(round_trip(&mut client, b"hello\n"), b"hello\n");
    bench.channels.wait_for(1);
    let channel = bench.channels.take().remove(0);
    let again = || PipelineChange::add_first("frames", Handler::inbound(LineFrames::max(80)));
    assert!(message(channel.change(again)).contains("there is a handler called `frames` already"));
    assert_eq!(
        round_trip(&mut client, b"there\n"),
        b"there\n",
        "the old chain stays"
    );
    bench.goes_on();
}

#[test]
fn handlers_that_do_not_fit_are_an_error_that_names_both() {
    let bench = bench();
    let misfit = Server::builder(&bench.group)
        .pipeline(|p| p.add_duplex("text", Strings::utf8()).add("echo", Echo))
        .bind("127.0.0.1:0");
    let why = message(misfit);
    assert!(why.contains("`text`") && why.contains("`echo`"), "{why}");
    bench.goes_on();
}

#[test]
fn an_address_in_use_and_a_refused_connect_do_not_affect_others() {
    let bench = bench();
    let taken = Server::builder(&bench.group)
        .pipeline(|p| p.add("echo", Echo))
        .bind(bench.server.local_addr());
    let why = message(taken).to_lowercase();
    assert!(why.contains("in use"), "{why}");
    // No other test can listen there.
    let refused = Client::builder(&bench.group).connect("127.0.0.1:1");
    assert!(message(refused).to_lowercase().contains("refused"));
    let nameless = Client::builder(&bench.group).connect("no such name:80");
    assert!(message(nameless).contains("no such name"));
    bench.goes_on();
}

#[test]
fn options_reach_the_sockets_of_clients_and_of_a_servers_connections() {
    let bench = bench();
    let stream = TcpStream::connect(bench.server.local_addr()).unwrap();
    let look = stream.try_clone().unwrap();
    let options = ChannelOptions {
        keep_alive: true,
        linger: Some(Duration::from_secs(7)),
        receive_buffer: Some(64 * 1024),
        ..ChannelOptions::default()
    };
    let client = Client::builder(&bench.group).options(options).build();
    let channel = client.adopt(stream).wait().unwrap();
    let look = socket2::SockRef::from(&look);
    assert!(look.tcp_nodelay().unwrap() && look.keepalive().unwrap());
    assert_eq!(look.linger().unwrap(), Some(Duration::from_secs(7)));
    assert!(look.recv_buffer_size().unwrap() >= 64 * 1024);
    channel.close().wait().unwrap();

    // The options of the server's socket are visible only by their effect: with this one a close is
    // a reset.
    let options = ChannelOptions {
        linger: Some(Duration::ZERO),
        ..ChannelOptions::default()
    };
    fn leaves() -> Acts {
        Acts::on_read(|_, ctx| ctx.close())
    }
    let server = Server::builder(&bench.group)
        .options(options)
        .pipeline(|p| p.add("leaves", leaves()))
        .bind("127.0.0.1:0");
    let mut client = dial(&server.wait().unwrap());
    client.write_all(b"go").unwrap();
    let end = client.read(&mut [0; 8]).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn bytes_for_a_channel_of_datagrams_are_an_error_that_says_so() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let channel = Client::builder(&group)
        .build()
        .bind_udp(any)
        .wait()
        .unwrap();
    let why = channel.write_with("bytes");
    channel.flush();
    let why = why.wait().unwrap_err().to_string();
    has(&why, ["`the socket` takes datagrams, and got bytes"]);
    // A write is pending until its turn is over.
    group.next().settle();
    assert!(channel.is_active() && channel.pending_bytes() == 0);
}
