//! TLS over real sockets, and TLS that starts on an open connection.

use bytes::Bytes;
use tidegate_net::{Channel, Client, EmbeddedChannel, Handler, PipelineChange, Server};
use tidegate_testkit::{Log, until};

use super::{Authority, Pair, whole};
use crate::acts::Acts;
use crate::{Echo, serve};

#[test]
fn a_connection_in_the_clear_can_become_an_encrypted_one() {
    let authority = Authority::new();
    let (server, client) = (authority.server("a.test"), authority.client());
    let name = client.name("a.test").unwrap();
    let mut pair = Pair {
        server: EmbeddedChannel::new(|p| p).unwrap(),
        client: EmbeddedChannel::new(|p| p).unwrap(),
    };
    pair.client.channel().write_and_flush("STARTTLS\n");
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "STARTTLS\n");
    let tls = server.clone();
    let added = [
        pair.server
            .channel()
            .change(move || PipelineChange::add_first("tls", Handler::duplex(tls.handler()))),
        pair.client
            .channel()
            .change(move || PipelineChange::add_first("tls", Handler::duplex(name.handler()))),
    ];
    pair.server.run();
    pair.client.run();
    for one in added {
        one.wait().unwrap();
    }
    pair.run();
    pair.client.channel().write_and_flush("hidden");
    pair.client.run();
    pair.run();
    assert_eq!(whole(&mut pair.server), "hidden");
}

/// Logs what it reads, and its errors.
fn log_channel(bytes: Log<Bytes>, errors: Log<String>) -> Acts {
    Acts::on_read(move |read, _| bytes.push(read)).on_error(move |why, ctx| {
        errors.push(why.to_string());
        ctx.close();
    })
}

fn dial(client: &Client, server: &Server) -> Channel {
    client.connect(server.local_addr()).wait().unwrap()
}

#[test]
fn echoes_over_sockets_and_survives_failed_handshakes() {
    let authority = Authority::new();
    let tls = authority.server("localhost");
    let group = tidegate_net::pinned("io", 2).unwrap();
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler()).add("echo", Echo)
    });
    let (bytes, errors) = (Log::new(), Log::new());
    let client = |name: &str| {
        let name = authority.client().name(name).unwrap();
        let (bytes, errors) = (bytes.clone(), errors.clone());
        Client::builder(&group)
            .pipeline(move |p| {
                p.add_duplex("tls", name.handler())
                    .add("gives", log_channel(bytes.clone(), errors.clone()))
            })
            .build()
    };
    let wrong = dial(&client("elsewhere"), &server);
    wrong.closed().wait().unwrap();
    assert!(errors.take()[0].contains("certificate"));
    let mut plain = crate::dial(&server);
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut plain, &mut answer).unwrap();
    assert_eq!(answer.first(), Some(&21), "an alert");

    let good = dial(&client("localhost"), &server);
    let big = Bytes::from(vec![9; 1_000_000]);
    let sent = good.write_with(big.clone());
    good.flush();
    sent.wait().unwrap();
    let mut back = 0;
    while back < big.len() {
        bytes.wait_for(1);
        back += bytes.take().iter().map(Bytes::len).sum::<usize>();
    }
    assert_eq!(back, big.len());
    good.close().wait().unwrap();
    assert!(errors.take().is_empty());
    let why = good.write_with("late").wait().unwrap_err();
    assert!(why.to_string().contains("closed"), "{why}");
}

#[test]
fn peers_that_end_in_order_log_nothing() {
    let (log, received) = Log::<String>::pair();
    let group = tidegate_net::NetGroup::builder("io").loops(2);
    let group = group.on_unhandled(move |_, what| received.push(what.to_string()));
    let group = group.build().unwrap();
    let authority = Authority::new();
    let tls = authority.server("localhost");
    let server = serve(&group, move |p| {
        p.add_duplex("tls", tls.handler()).add("echo", Echo)
    });
    let name = authority.client().name("localhost").unwrap();
    let (bytes, own) = Log::pair();
    let client = Client::builder(&group).pipeline(move |p| {
        p.add_duplex("tls", name.handler())
            .add("hears", crate::LogReads(own.clone()))
    });
    let client = client.build();
    let ends: [fn(&Channel); 3] = [
        |channel| drop(channel.close()),
        |channel| drop(channel.close_when_flushed()),
        |channel| {
            // The answer is on its way.
            channel.write_and_flush(vec![1; 100_000]);
            drop(channel.close_when_flushed());
        },
    ];
    for end in ends {
        for _ in 0..10 {
            let channel = dial(&client, &server);
            channel.write_and_flush("hello");
            bytes.wait_for(1);
            end(&channel);
            channel.closed().wait().unwrap();
            let _ = bytes.take();
        }
    }
    until("the server has closed all", || server.connections() == 0);
    assert_eq!(log.take(), [""; 0]);
}
