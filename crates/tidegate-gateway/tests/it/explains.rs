//! `tidegate explain`: the route, the command, each setting and its line.

use tidegate_testkit::{has, lacks};

use crate::files::run;

const FILE: &str = "\
[defaults.route]
timeout = \"2s\"
[upstream.shop]
servers = [\"10.0.0.1:80\", \"${HOST:-h}:${PORT}\"]
[route.cart]
host = \"shop.example\"
path = \"/cart/{id}\"
upstream = \"shop\"
[route.beta]
path = \"/cart/{id}\"
header = { x-beta = \"1\" }
respond = 204
[listen]
http = \"h:80\"
";

fn explain(arguments: &[&str]) -> (String, u8) {
    let mut all = vec!["explain", "t.toml"];
    all.extend(arguments);
    run(&[("t.toml", FILE)], &all)
}

/// Returns the line of a setting, with single spaces.
fn line(output: &str, key: &str) -> String {
    let mut lines = output
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = lines.find(|words| words.first() == Some(&key));
    found
        .unwrap_or_else(|| panic!("{key} is missing in\n{output}"))
        .join(" ")
}

#[test]
fn each_setting_has_the_line_it_comes_from() {
    let (output, status) = explain(&["GET", "http://Shop.example:8080/cart/7?secret=1"]);
    assert_eq!(status, 0);
    assert_eq!(line(&output, "route"), "route cart (t.toml:5:8)");
    assert_eq!(line(&output, "command"), "command cart");
    assert_eq!(line(&output, "path"), "path \"/cart/{id}\" t.toml:7:8");
    for expected in [
        "timeout \"2s\" t.toml:2:11 (inherited)",
        "limit.max 100 default",
        "breaker off default",
        "upstream \"shop\" t.toml:8:12",
        "servers[0].at \"10.0.0.1:80\" t.toml:4:12",
    ] {
        let key = expected.split(' ').next().unwrap();
        assert_eq!(line(&output, key), expected);
    }
    lacks(&output, ["secret"]);
}

#[test]
fn an_address_from_a_variable_is_shown_and_a_text_is_not() {
    let (output, _) = explain(&["GET", "http://shop.example/cart/7"]);
    let value = "servers[1].at \"h:8081\" t.toml:4:27";
    assert_eq!(line(&output, "servers[1].at"), value);
    let file = "[listen]\nhttp = \"h:80\"\n\
                [route.a]\nrespond = { status = 200, body = \"<${PORT}>\" }\n";
    let (output, _) = run(&[("t.toml", file)], &["explain", "t.toml", "GET", "/"]);
    let value = "respond.body \"<${PORT}>\" t.toml:4:34";
    assert_eq!(line(&output, "respond.body"), value);
    lacks(&output, ["8081"]);
}

#[test]
fn the_times_of_a_fallback_are_added_up() {
    let ask = |fallback: &str| {
        let file = format!(
            "[upstream.a]\nservers = \"h:1\"\n[listen]\nhttp = \"h:80\"\n\
             [route.a]\nupstream = \"a\"\ntimeout = \"10s\"\nfallback = {fallback}\n"
        );
        run(&[("t.toml", &file)], &["explain", "t.toml", "GET", "/"]).0
    };
    let output = ask("{ upstream = \"a\" }");
    assert_eq!(
        line(&output, "times"),
        "times at most 10s: 7s 500ms with all attempts, then the fallback with what is left, at least 2s \
         500ms"
    );
    let output = ask("{ upstream = \"a\", timeout = \"500ms\" }");
    has(&output, ["at most 10s: 9s 500ms with"]);
    let output = ask("{ upstream = \"a\", timeout = \"${PORT}ms\" }");
    has(&output, ["at most 10s: 1s 919ms with"]);
    assert!(!ask("{ status = 200 }").contains("times "));
}

#[test]
fn fields_of_the_request_select_the_route() {
    let (output, _) = explain(&["GET", "/cart/7", "-H", "X-Beta: 1"]);
    assert_eq!(line(&output, "route"), "route beta (t.toml:9:8)");
    let (output, status) = explain(&["GET", "/cart/7"]);
    assert_eq!(output, "no route takes GET /cart/7: status 404\n");
    assert_eq!(status, 0);
}

#[test]
fn connect_has_a_host_and_a_port() {
    let file = "[upstream.a]\nservers = \"h:1\"\n[route.a]\nhost = \"db.example\"\nmethod = \"CONNECT\"\n\
                upstream = \"a\"\ntunnel = { connect = true }\n[listen]\nhttp = \"h:80\"\n";
    let run = |url: &str| run(&[("t.toml", file)], &["explain", "t.toml", "CONNECT", url]);
    assert_eq!(
        line(&run("db.example:443").0, "route"),
        "route a (t.toml:3:8)"
    );
    assert_eq!(run("other:443").0, "no route takes CONNECT /: status 405\n");
}

#[test]
fn a_request_that_is_none_is_refused() {
    assert_eq!(explain(&["GET", "cart"]).1, 2);
    assert_eq!(explain(&["GET", "/../x"]).1, 2);
    assert_eq!(explain(&["GET", "/x", "-H", "novalue"]).1, 2);
    // What a listener refuses.
    for (method, url) in [
        ("GET", "/cart/\"x\""),
        ("GET", "/cart/\\x"),
        ("GET", "/cart/x?\u{e4}"),
        ("GET", "/a b"),
        ("GET", "/a#b"),
        ("G T", "/a"),
        ("GET", "http://a b/"),
    ] {
        let (output, status) = explain(&[method, url]);
        assert_eq!(status, 2, "{method} {url}: {output}");
    }
    assert_eq!(explain(&["GET", "http://shop.example/cart/7#top"]).1, 0);
    // What a listener takes.
    for url in [
        "/cart/a|b",
        "/cart/7?filter={a|b}`\\",
        "/cart/7?to=http://a/b",
    ] {
        let (output, _) = explain(&["GET", url, "-H", "X-Beta: 1"]);
        assert_eq!(line(&output, "route"), "route beta (t.toml:9:8)", "{url}");
    }
}

#[test]
fn a_method_is_taken_as_it_is_written() {
    let file = "[listen]\nhttp = \"h:80\"\n[route.a]\nmethod = \"GET\"\nrespond = 200\n";
    let run = |method: &str| run(&[("t.toml", file)], &["explain", "t.toml", method, "/"]).0;
    assert_eq!(line(&run("GET"), "route"), "route a (t.toml:3:8)");
    assert_eq!(run("get"), "no route takes get /: status 404\n");
}
