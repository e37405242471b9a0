//! Clients that end their half of the connection while pipelined requests wait for their turn.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use tidegate_http::{DeferredResponse, HttpServer, HttpServerBuilder, Limits, Request, Response};
use tidegate_loop::Pinned;
use tidegate_net::{NetGroup, pinned};
use tidegate_testkit::{Log, Stop, until};

use crate::{Client, get};

/// Responses that wait for their end, with the paths of their requests.
type Begun = Log<(String, DeferredResponse)>;

/// Does `work` while the loop is busy, so that the loop finds all that has come in one turn.
pub(crate) fn in_one_turn(group: &NetGroup, work: impl FnOnce()) {
    let stop = Stop::new();
    let task = group.loops().next().submit(stop.closure());
    stop.reached();
    work();
    stop.go_on();
    task.unwrap().wait().unwrap();
}

/// Ends the response of the only request that runs.
fn respond(begun: &Begun, path: &str) {
    begun.wait_for(1);
    let mut all = begun.take();
    let (of, later) = all.remove(0);
    assert_eq!((of.as_str(), all.len()), (path, 0));
    later.body(of);
}

/// Sends three requests of a client and ends its half: behind them in one event, and when the first of
/// them runs.
pub(crate) fn check<S: Read + Write>(
    secure: impl Fn(HttpServerBuilder<Pinned>) -> HttpServerBuilder<Pinned>,
    connect: impl Fn(SocketAddr) -> Client<S>,
    end: impl Fn(&mut Client<S>),
) {
    for (half_close, at_once) in [(false, false), (false, true), (true, false), (true, true)] {
        let (group, begun) = (pinned("web", 1).unwrap(), Begun::new());
        let own = begun.clone();
        let service = move |request: Request<'_>, response: Response<'_>| {
            own.push((request.path().to_owned(), response.defer()));
        };
        let limits = Limits::default().half_close(half_close);
        let server = secure(HttpServer::builder(&group)).limits(limits);
        let server = server.serve("127.0.0.1:0", service).wait().unwrap();
        let mut client = connect(server.local_addr());
        client.send(get("/first"));
        respond(&begun, "/first");
        assert_eq!(client.response(), (200, "/first".to_owned()));

        let requests = get("/a") + &get("/b").replace("GET", "PUT") + &get("/c");
        if at_once {
            in_one_turn(&group, || {
                client.send(requests);
                end(&mut client);
            });
        } else {
            client.send(requests);
            begun.wait_for(1);
            end(&mut client);
        }
        if half_close {
            for path in ["/a", "/b", "/c"] {
                respond(&begun, path);
                assert_eq!(client.response(), (200, path.to_owned()));
            }
            assert_eq!(client.rest(), "");
        } else {
            until("the connection ends", || server.metrics().connections == 0);
            respond(&begun, "/a");
            group.loops().next().submit(|| {}).unwrap().wait().unwrap();
            assert!(begun.is_empty(), "no request that waits begins");
            assert_eq!(server.metrics().requests, 2);
        }
    }
}

#[test]
fn a_client_that_ends_its_half_leaves_or_gets_its_responses() {
    check(
        |server| server,
        Client::connect,
        |client| client.stream.shutdown(Shutdown::Write).unwrap(),
    );
}
