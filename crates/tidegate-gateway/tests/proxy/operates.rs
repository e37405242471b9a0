//! What operators see and change while the gateway runs.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use tidegate_testkit::{begins, has, lacks};

use crate::operation::{World, operated};
use crate::steps::no_forks;
use crate::*;

#[test]
fn it_is_not_ready_from_the_announcement_on_and_still_accepts() {
    let _alone = no_forks();
    let world = World::new("[route.r]\nrespond = { body = \"ok\" }\n[drain]\nannounce = \"5s\"\n");
    assert_eq!(world.get("/ready").status(), "200");
    assert_eq!(world.send(GET).message().field("connection"), None);
    let drained = world.operation.drain();
    assert_eq!(world.get("/ready").status(), "503");
    assert_eq!(world.get("/live").status(), "200");
    let response = world.send(GET).message();
    response.is_last("200");
    has(world.refuses_to_reload(), ["the gateway is ending"]);
    world.clock.advance(Duration::from_secs(6));
    until_done(&world.clock, &drained);
    assert!(world.refuses("http"));
    assert_eq!(world.get("/live").status(), "200", "until the very end");
}

#[test]
fn a_snapshot_shows_routes_and_servers() {
    let text = "[upstream.back]\nservers = [\"127.0.0.1:1\", \"${SECRET}:80\"]\n\
                [route.shop]\nupstream = \"back\"\nlimit = 7\nretry = 1\n";
    let world = World::new(text);
    let snapshot = world.get("/api/snapshot").body;
    // In the order of the series: the retry budget, calls in flight, the limit.
    has(
        &snapshot,
        [
            "\"ready\":true,",
            "\"routes\":[{\"key\":\"shop\",\"group\":\"back\",\"upstream\":\"back\",\"values\":[",
            ",3,0,7,0,",
            "\"loops\":[{\"name\":\"gateway-0\",\"busy\":",
            "{\"name\":\"back\",\"servers\":[{\"address\":\"127.0.0.1:1\",\"weight\":1",
            "{\"address\":\"marker-variable:80\",\"weight\":1",
        ],
    );
}

#[test]
fn a_reload_takes_effect_or_says_all_mistakes_and_changes_nothing() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let world = World::with_route(&[&one], "");
    world.write(&operated(&route(&[&two], "")));
    let reload = world.change("POST /api/reload", "");
    assert_eq!(reload.body, "{\"done\":\"reload\",\"notes\":[]}");
    let (origin, what) = world.last_change();
    begins(&origin, "admin 127.0.0.1:");
    assert_eq!(what, "reload");
    world.served_by(&two);
    world.write(&operated(&route(&[&one], "limt = 3\ntimeout = \"soon\"")));
    has(
        world.refuses_to_reload(),
        ["limt", "timeout", "/tidegate.toml:"],
    );
    world.served_by(&two);
    assert_eq!(world.parts.reports.events.latest().len(), 1);
    let why = world.operation.reload("SIGHUP").unwrap_err();
    has(&why, ["limt"]);
}

/// As when a file is cut before it is written again, or the disk is full.
#[test]
fn a_file_without_a_listener_closes_none() {
    let world = World::new("[route.r]\nrespond = 200\n");
    let mut open = world.send(GET);
    assert_eq!(open.message().status(), "200");
    for text in ["", "# moved\n", "[listen]\nadmin = \"127.0.0.1:0\"\n"] {
        let why = world.reload_fails(text);
        has(&why, ["no listener: nothing to serve"]);
        world.refuses_to_reload();
        assert_eq!(world.send(GET).message().status(), "200", "{text:?}");
    }
    open.write(GET);
    assert_eq!(open.message().status(), "200");
    assert_eq!(world.operation.addresses().len(), 2);
}

/// As when a file was cut behind its listeners.
#[test]
fn a_file_without_a_route_removes_none() {
    let world = World::new("[route.r]\nrespond = 200\n");
    let why = world.reload_fails(&operated(""));
    begins(&why, "no route is left: ");
    world.refuses_to_reload();
    world.responds("200");
    // The last route may be another one.
    let none = operated("[route.none]\nrespond = 404\n");
    world.reload("file change", &none);
    world.responds("404");
}

#[test]
fn a_gateway_without_routes_gets_its_first_ones_by_a_reload() {
    let world = World::new("");
    world.responds("404");
    world.operation.reload("SIGHUP").unwrap();
    let first = operated("[route.r]\nrespond = 200\n");
    world.reload("SIGHUP", &first);
    world.responds("200");
}

#[test]
fn tokens_change_with_a_reload_and_the_address_with_the_next_start() {
    let world = World::new("[route.r]\nrespond = 200\n");
    let other = "[listen]\nhttp = \"127.0.0.1:0\"\n\
                 [listen.admin]\nat = \"127.0.0.1:0\"\ntoken = \"${SECRET}\"\n\
                 [route.r]\nrespond = 200\n";
    world.write(other);
    world.order("POST /api/reload");
    assert_eq!(world.change("POST /api/reload", "").status(), "401");
    let fields = "Authorization: Bearer marker-variable\r\n";
    let moved = other.replace("at = \"127.0.0.1:0\"", "at = \"127.0.0.1:1\"");
    world.write(&moved);
    let reload = world.operator("POST /api/reload", fields, "").message();
    has(
        &reload.body,
        ["/tidegate.toml:4:6: listen.admin: it changes with the next start"],
    );
    let without = "[listen]\nhttp = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n";
    world.write(without);
    let reload = world.operator("POST /api/reload", fields, "").message();
    assert_eq!(reload.status(), "200");
    assert_eq!(world.get("/api/snapshot").status(), "200", "it stays");
}

#[test]
fn a_forced_breaker_refuses_the_requests_of_its_route() {
    let (back, world) = World::of("breaker = true");
    world.order("POST /api/breakers/shop/open");
    world.refusal(GET, "breaker shop");
    assert_eq!(world.last_change().1, "breaker of shop: forced open");
    world.order("POST /api/breakers/shop/auto");
    let mut client = world.send(GET);
    back.accept().serve_ok(&mut client);
}

#[test]
fn a_drained_server_gets_no_requests_and_stays_drained_after_a_reload() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let world = World::with_route(&[&one, &two], "");
    let path = format!("/api/servers/back/{}", one.address());
    world.order(&format!("POST {path}/drain"));
    let only_two = || {
        for _ in 0..3 {
            world.served_by(&two);
        }
        assert!(one.is_quiet());
    };
    only_two();
    // The servers begin anew, because the number of their places is another one.
    let text = operated(&route(&[&one, &two], "")).replace("balance", "max_in_flight = 9\nbalance");
    world.reload("SIGHUP", &text);
    assert_eq!(
        world.last_change(),
        ("SIGHUP".to_owned(), "reload".to_owned())
    );
    only_two();
    world.order(&format!("POST {path}/resume"));
    let snapshot = world.get("/api/snapshot").body;
    lacks(&snapshot, ["\"draining\":true"]);
    let unknown = world.change("POST /api/servers/back/10.9.9.9:1/drain", "");
    assert_eq!(unknown.status(), "404");
}

#[test]
fn a_listener_that_moves_to_the_address_of_operators_is_told_who_has_it() {
    let world = World::new("[route.r]\nrespond = 204\n");
    let admin = world.address("admin");
    let text = operated("[route.r]\nrespond = 204\n");
    let why = world.reload_fails(&text.replacen("127.0.0.1:0", &admin, 1));
    let expected = format!(
        "listen.http: cannot listen on {admin}: the gateway's own listener for operators has it"
    );
    begins(&why, &expected);
    lacks(&why, ["end the program"]);
    world.responds("204");
}

#[test]
fn a_dump_shows_each_loop_and_its_connections() {
    let (back, world) = World::of("");
    let (client, _server) = world.open(GET, &back);
    let dump = world.get("/api/dump").body;
    let peer = client.0.local_addr().to_string();
    has(
        &dump,
        ["gateway-0", "operate-0", "shop", &peer, &back.address()],
    );
}

#[test]
fn metrics_describe_routes_listeners_and_servers() {
    let (back, world) = World::of("");
    let metrics = world.get("/metrics").body;
    let server = format!("upstream=\"back\",server=\"{}\"", back.address());
    let listener = format!("server=\"{}\"", world.address("http"));
    has(
        &metrics,
        [
            "command=\"shop\"",
            &format!("tidegate_upstream_up{{{server}}} 1"),
            &format!("tidegate_upstream_draining{{{server}}} 0"),
            &format!("tidegate_server_accepting{{{listener}}} 1"),
            &format!("tidegate_http_requests_total{{{listener}"),
        ],
    );
}

#[test]
fn operators_get_an_answer_while_the_loop_of_requests_is_busy() {
    let _alone = no_forks();
    let world = World::new("[route.r]\nrespond = 200\n");
    let (free, busy) = channel::<()>();
    let task = world.parts.group.loops().next().submit(move || busy.recv());
    assert_eq!(world.get("/ready").status(), "200");
    assert_eq!(world.get("/api/snapshot").status(), "200");
    assert_eq!(world.get("/metrics").status(), "200");
    drop(free);
    task.unwrap().wait().unwrap().unwrap_err();
}

#[test]
fn a_drain_during_a_reload_announces_the_end_on_its_new_listeners() {
    let world = World::new("[route.r]\nrespond = 200\n[drain]\nannounce = \"5s\"\n");
    let new = "[upstream.back]\nservers = [\"127.0.0.1:1\"]\n[route.shop]\npath = \"/shop\"\n\
               upstream = \"back\"\n[route.r]\nrespond = 201\n[drain]\nannounce = \"5s\"\n";
    let changed = "http = { at = \"127.0.0.1:0\", limits = { head_time = \"5s\" } }";
    let new = operated(new).replace("http = \"127.0.0.1:0\"", changed);
    world.write(&new);
    let (free, busy) = channel::<()>();
    let task = world.parts.group.loops().next().submit(move || busy.recv());
    let drained = std::thread::scope(|scope| {
        let reload = scope.spawn(|| world.operation.reload("SIGHUP"));
        let gateway = world.operation.gateway();
        // It waits for the loop, to move the socket.
        tidegate_testkit::until("it is in force", || !gateway.upstreams().is_empty());
        let drained = world.operation.drain();
        assert_eq!(world.get("/ready").status(), "503");
        drop(free);
        reload.join().unwrap().unwrap();
        drained
    });
    task.unwrap().wait().unwrap().unwrap_err();
    let response = world.send(GET).message();
    response.is_last("201");
    assert!(!drained.is_done());
    until_done(&world.clock, &drained);
    assert!(world.refuses("http"));
}

#[test]
fn the_listener_for_operators_can_be_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("tidegate-admin-{}.sock", std::process::id()));
    let at = format!("at = \"unix:{}\"", path.display());
    let text = operated("[route.r]\nrespond = 200\n").replace("at = \"127.0.0.1:0\"", &at);
    let world = World::with(text);
    assert_eq!(world.address("admin"), format!("unix:{}", path.display()));
    let ask = |line: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n");
        let fields = "Content-Length: 0\r\nAuthorization: Bearer full-token\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(fields.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    assert!(ask("GET /api/snapshot").starts_with("HTTP/1.1 200 "));
    assert!(ask("POST /api/reload").starts_with("HTTP/1.1 200 "));
    assert_eq!(
        world.last_change(),
        ("admin".to_owned(), "reload".to_owned())
    );
    drop(world);
    assert!(!path.exists());
}

#[test]
fn without_a_token_another_address_is_an_error() {
    let text = "[listen]\nhttp = \"127.0.0.1:0\"\n[listen.admin]\nat = \"0.0.0.0:0\"\n[route.r]\nrespond = 200\n";
    let loaded = load(Path::new("/tidegate.toml"), &OneFile(text), &|_| None).unwrap();
    let mistakes = loaded.mistakes.render(&loaded.sources);
    has(&mistakes, ["token"]);
    assert!(loaded.config.is_none());
}

#[test]
fn the_result_of_health_checks_is_an_event() {
    let back = Upstream::new();
    let text = route(&[&back], "").replace(
        "balance",
        "health = { every = \"10s\", timeout = \"9s\", down = 1 }\nbalance",
    );
    let world = World::new(&text);
    world.clock.advance(Duration::from_millis(200));
    back.accept()
        .serve("HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let address = back.address();
    tidegate_testkit::until("the server is down", || {
        !world.parts.reports.events.latest().is_empty()
    });
    let what = format!("upstream.back {address}: is down: status 500");
    assert_eq!(world.last_change(), ("health".to_owned(), what));
    let snapshot = world.get("/api/snapshot").body;
    has(&snapshot, ["\"up\":false"]);
}

/// Watches the files. Each change that is noticed can be received.
fn watch(world: &World) -> Receiver<()> {
    let (send, changes) = channel();
    let changed = move || send.send(()).unwrap_or_default();
    world.operation.watch(changed).unwrap();
    changes
}

#[test]
fn a_change_of_the_files_is_noticed_when_they_are_quiet() {
    let world = World::new("[route.r]\nrespond = 200\n");
    let changes = watch(&world);
    let noticed = |what: &str| {
        tidegate_testkit::until(what, || {
            world.clock.advance(Duration::from_millis(100));
            changes.try_recv().is_ok()
        });
    };
    world.write(&operated("[route.r]\nrespond = 201\n"));
    noticed("the change is noticed");
    world.operation.reload("file change").unwrap();
    world.responds("201");
    // A file that is new in a configuration with mistakes counts, too.
    let included = operated("[route.r]\nrespond = 202\n");
    let main = format!("include = \"more.toml\"\n{included}");
    world.files.write("/more.toml", "[dran]\n");
    world.write(&main);
    noticed("the include is noticed");
    world.operation.reload("file change").unwrap_err();
    world.files.write("/more.toml", "[drain]\n");
    noticed("the included file is noticed");
    world.operation.reload("file change").unwrap();
    world.responds("202");
}

#[test]
fn without_a_watch_only_a_reload_that_is_asked_for_reads_the_files() {
    let text = |status: u16, watch: bool| {
        operated(&format!(
            "[route.r]\nrespond = {status}\n[reload]\nwatch = {watch}\n"
        ))
    };
    let world = World::with(text(200, false));
    let changes = watch(&world);
    world.write(&text(201, false));
    let look = || {
        world.clock.advance(Duration::from_millis(500));
        let home = world.parts.own.loops().next();
        home.submit(|| ()).unwrap().wait().unwrap();
    };
    (0..100).for_each(|_| look());
    assert!(changes.try_recv().is_err());
    world.responds("200");
    world.operation.reload("SIGHUP").unwrap();
    world.responds("201");
    // From now on the files are watched: that is the first change that is noticed.
    world.reload("SIGHUP", &text(202, true));
    assert!(changes.try_recv().is_err());
    world.write(&text(203, true));
    tidegate_testkit::until("the change is noticed", || {
        look();
        changes.try_recv().is_ok()
    });
}

/// Reads events of a stream until one contains a text.
fn events_until(stream: &mut Peer, text: &str) -> String {
    let mut got = String::new();
    while !(got.contains(text) && got.ends_with("\n\n")) {
        got += &stream.bytes(1);
    }
    got
}

#[test]
fn the_streams_of_a_running_gateway_show_its_routes_at_once_and_each_period() {
    let (back, world) = World::of("");
    let mut stream = world.operator("GET /hystrix.stream", "", "");
    let head = stream.head();
    has(
        &head,
        [
            "HTTP/1.1 200 ",
            "Content-Type: text/event-stream",
            "no-cache",
        ],
    );
    let first = events_until(&mut stream, "\"name\":\"shop\"");
    has(&first, ["\"requestCount\":0"]);
    let mut client = world.send(GET);
    back.accept().serve_ok(&mut client);
    world.clock.advance(Duration::from_millis(500));
    events_until(&mut stream, "\"name\":\"shop\"");
    let more: Vec<Peer> = (0..5)
        .map(|_| world.operator("GET /hystrix.stream", "", ""))
        .collect();
    let refused = more.iter().filter(|peer| {
        let mut peer = Peer::new(peer.0.another());
        peer.head().starts_with("HTTP/1.1 503 ")
    });
    assert_eq!(refused.count(), 1, "at most five clients");
    // At the end the streams end, and the listener with them.
    world.operation.close();
    assert!(stream.rest().ends_with("0\r\n\r\n"));
}
