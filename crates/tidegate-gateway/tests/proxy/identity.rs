//! The id of a request: the same in the response and in the log, whoever responds.

use tidegate_testkit::Folder;

use crate::logs::value;
use crate::operation::{World, operated};
use crate::*;

const POST: &str = "POST /shop HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
const CONNECT: &str = "CONNECT db:1 HTTP/1.1\r\nHost: db:1\r\n\r\n";

/// Returns a request for a path.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A route for each kind of response. `{back}` is an upstream.
fn routes(back: &Upstream, root: &Path) -> String {
    format!(
        "[upstream.back]\nservers = [\"{}\"]\n\
         [route.fixed]\npath = \"/fixed\"\nrespond = {{ status = 203, body = \"x\" }}\n\
         [route.moved]\npath = \"/moved\"\nredirect = \"http://b{{path}}\"\n\
         [route.files]\npath = \"/files/*\"\nfiles = {root:?}\n\
         [route.shop]\npath = \"/shop\"\nupstream = \"back\"\nlimit = 1\nbody = \"3B\"\n\
         [route.other]\npath = \"/other\"\nupstream = \"back\"\nlimit = 1\n\
         fallback = {{ status = 200, body = \"[]\" }}\n\
         [route.db]\nhost = \"db\"\nmethod = \"CONNECT\"\nupstream = \"back\"\n\
         tunnel = {{ connect = true }}\n",
        back.address()
    )
}

#[test]
fn every_response_of_the_gateway_has_the_id_of_its_line() {
    let root = Folder::new("ids");
    std::fs::write(root.join("a.txt"), "content").unwrap();
    let back = Upstream::new();
    let world = World::new(&routes(&back, &root));
    // The only permits of two routes.
    let busy = ["/shop", "/other"].map(|path| world.open(&get(path), &back));
    let rows = [
        (get("/fixed"), "203"),
        (get("/moved"), "308"),
        (get("/files/a.txt"), "200"),
        (get("/files/b.txt"), "404"),
        (get("/files//b.txt"), "404"),
        (get("/nowhere"), "404"),
        (get("/../a"), "400"),
        (get("/shop"), "503"),
        (get("/other"), "200"),
        (POST.to_owned(), "413"),
        (CONNECT.replace("db:1", "other:1"), "405"),
        (
            format!("OPTIONS {}", &get("/shop")[4..])
                .replace("\r\n\r\n", "\r\nMax-Forwards: 0\r\n\r\n"),
            "200",
        ),
    ];
    let mut seen = std::collections::HashSet::new();
    for (count, (request, status)) in rows.iter().enumerate() {
        let response = world.send(request).message();
        assert_eq!(response.status(), *status, "{request}");
        let id = response
            .field("x-request-id")
            .unwrap_or_default()
            .to_owned();
        assert_eq!(id.len(), 16, "{response:?}");
        assert_eq!(response.head.matches("X-Request-Id").count(), 1);
        let line = &world.line(count + 1);
        assert_eq!(value(line, "id"), Some(&*id), "{line}");
        assert_eq!(value(line, "status"), Some(*status), "{line}");
        assert!(seen.insert(id));
    }
    drop(busy);
}

#[test]
fn a_tunnel_of_connect_has_an_id() {
    let back = Upstream::new();
    let world = World::new(&routes(&back, Path::new("/")));
    let (mut client, server) = world.reach(CONNECT, &back);
    let head = client.head();
    let id = field(&head, "x-request-id").unwrap();
    drop(server);
    assert_eq!(client.rest(), "");
    drop(client);
    let line = world.line(1);
    assert_eq!(value(&line, "id"), Some(id), "{line}");
    // One that cannot be opened has one, too.
    let _port = back.stop();
    let failed = world.send(CONNECT).message();
    assert_eq!(failed.status(), "502");
    let line = world.line(2);
    assert_eq!(value(&line, "id"), failed.field("x-request-id"), "{line}");
}

#[test]
fn the_id_of_a_trusted_peer_is_kept_by_every_response() {
    let text = operated("[route.fixed]\npath = \"/fixed\"\nrespond = 200\n");
    let trusting = text.replace(
        "[listen]\nhttp = \"127.0.0.1:0\"\n",
        "[listen.http]\nat = \"127.0.0.1:0\"\ntrust = [\"127.0.0.0/8\"]\n",
    );
    for (text, kept) in [(text, false), (trusting, true)] {
        let world = World::with(text);
        for (count, path) in ["/fixed", "/nowhere"].into_iter().enumerate() {
            let request = get(path).replace("\r\n\r\n", "\r\nX-Request-Id: mine-7\r\n\r\n");
            let response = world.send(&request).message();
            let id = response.field("x-request-id").unwrap();
            assert_eq!(id == "mine-7", kept, "{path}");
            let line = &world.line(count + 1);
            assert_eq!(value(line, "id"), Some(id), "{line}");
        }
    }
}
