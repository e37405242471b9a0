//! Routes, and what a router responds without one.

use tidegate_testkit::{begins, has};

use super::*;
use crate::server::tests::{Client, get, ok};
use crate::{Request, Response};

/// Responds with the name of the route and its parameters.
fn named(name: &'static str) -> impl Fn(Request<'_>, Response<'_>) + Send + Sync {
    move |request, response| {
        let params = ["id", "name", "rest", "a", "b", "c", "d"];
        let params = params.iter().filter_map(|param| request.param(param));
        let params: Vec<_> = params.map(|param| format!("({param})")).collect();
        response.body(format!("{name}{}", params.concat()));
    }
}

fn client(router: Router) -> Client {
    Client::new(move |request, response| router.respond(request, response))
}

/// Sends a request, and returns the status and the body of the response.
fn ask(client: &mut Client, method: &str, path: &str) -> (String, String) {
    let response = client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn the_most_specific_route_is_called_with_decoded_parameters() {
    let router = Router::builder()
        .get("/", named("root"))
        .get("/users", named("users"))
        .get("/users/{id}", named("user"))
        .get("/users/me", named("me"))
        .get("/users/{id}/posts/{name}", named("post"))
        .get("/files/{*rest}", named("file"))
        .get("/four/{a}/{b}/{c}/{d}", named("four"))
        .build()
        .unwrap();
    let mut client = client(router);
    let cases = [
        ("/", "root"),
        ("/?a=b", "root"),
        ("http://a/", "root"),
        ("http://a", "root"),
        ("/users", "users"),
        ("/users/7", "user(7)"),
        ("/users/7?x=/users/me", "user(7)"),
        ("/users/me", "me"),
        ("/users/%6de", "user(me)"),
        ("/users/a%2Fb", "user(a/b)"),
        ("/users/..", "user(..)"),
        ("/users/caf%C3%A9", "user(café)"),
        ("/users/7/posts/a%20b", "post(7)(a b)"),
        ("/files/a/b.txt", "file(a/b.txt)"),
        ("/files//", "file(/)"),
        ("/four/1/2/3/4", "four(1)(2)(3)(4)"),
        ("/users/", "-"),
        ("//users", "-"),
        ("/%75sers", "-"),
        ("/files/", "-"),
        ("/Users", "-"),
    ];
    for (path, expected) in cases {
        let (head, body) = ask(&mut client, "GET", path);
        match expected {
            "-" => assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head} {body}"),
            _ => assert_eq!(body, expected, "{path}"),
        }
    }
}

#[test]
fn a_parameter_that_is_not_text_is_refused() {
    let router = Router::builder().get("/{id}", named("one")).build();
    let mut client = client(router.unwrap());
    for path in ["/%ff", "/%zz", "/%", "/%e2%82"] {
        let (head, _) = ask(&mut client, "GET", path);
        assert!(head.starts_with("HTTP/1.1 400 "), "{path}: {head}");
    }
    assert_eq!(
        client.send(get("/x")),
        ok("one(x)"),
        "the connection goes on"
    );
}

#[test]
fn methods_have_handlers_of_their_own() {
    let router = Router::builder()
        .get("/a", named("get"))
        .post("/a", named("post"))
        .put("/a", named("put"))
        .patch("/a", named("patch"))
        .delete("/a", named("delete"))
        .route("PURGE", "/a", named("purge"))
        .route("OPTIONS", "/own", named("options"))
        .route("HEAD", "/own", named("head"))
        .get("/own", named("get"))
        .any("/any", named("any"))
        .get("/any", named("get"))
        .build()
        .unwrap();
    let mut client = client(router);
    let cases = [
        ("GET", "/a", "get"),
        ("POST", "/a", "post"),
        ("PUT", "/a", "put"),
        ("PATCH", "/a", "patch"),
        ("DELETE", "/a", "delete"),
        ("PURGE", "/a", "purge"),
        ("OPTIONS", "/own", "options"),
        ("GET", "/any", "get"),
        ("POST", "/any", "any"),
        ("FOO", "/any", "any"),
    ];
    for (method, path, expected) in cases {
        let (head, body) = ask(&mut client, method, path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{method} {path}: {head}");
        assert_eq!(body, expected, "{method} {path}");
    }
    let (head, body) = ask(&mut client, "HEAD", "/a");
    assert!(
        head.contains("Content-Length: 3") && body.is_empty(),
        "{head}"
    );
    let (head, body) = ask(&mut client, "HEAD", "/own");
    assert!(
        head.contains("Content-Length: 4") && body.is_empty(),
        "{head}"
    );
}

#[test]
fn a_method_without_a_handler_gets_the_methods_that_have_one() {
    let router = Router::builder()
        .get("/a/{id}", named("get"))
        .route("PURGE", "/a/{id}", named("purge"))
        .post("/b", named("post"))
        .build()
        .unwrap();
    let mut client = client(router);
    let allow = "Allow: GET, HEAD, OPTIONS, PURGE\r\n";
    for method in ["POST", "TRACE", "get", "FOO"] {
        let (head, _) = ask(&mut client, method, "/a/1");
        assert!(head.starts_with("HTTP/1.1 405 "), "{method}: {head}");
        assert!(head.contains(allow), "{method}: {head}");
    }
    let (head, body) = ask(&mut client, "OPTIONS", "/a/1");
    begins(&head, "HTTP/1.1 204 ");
    has(&head, ["Allow: GET"]);
    assert!(body.is_empty());
    let (head, _) = ask(&mut client, "GET", "/b");
    assert!(head.contains("Allow: OPTIONS, POST\r\n"), "{head}");
    let (head, _) = ask(&mut client, "OPTIONS", "*");
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
}

#[test]
fn a_fallback_gets_the_requests_without_a_route() {
    let router = Router::builder()
        .get("/a", named("a"))
        .fallback(|request, response| {
            response.status(404).body(format!("no {}", request.path()));
        })
        .build()
        .unwrap();
    let mut client = client(router);
    let (head, body) = ask(&mut client, "GET", "/b");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert_eq!(body, "no /b");
    let (head, _) = ask(&mut client, "POST", "/a");
    assert!(
        head.starts_with("HTTP/1.1 405 "),
        "a path that has routes: {head}"
    );
}

#[test]
fn a_mounted_handler_gets_everything_below_its_prefix() {
    let router = Router::builder()
        .mount("/static/", named("mounted"))
        .get("/static/own", named("own"))
        .build()
        .unwrap();
    let mut client = client(router);
    for (path, expected) in [
        ("/static", "mounted"),
        ("/static/", "mounted"),
        ("/static/a/b", "mounted(a/b)"),
        ("/static/own", "own"),
    ] {
        assert_eq!(ask(&mut client, "GET", path).1, expected, "{path}");
    }
    assert_eq!(ask(&mut client, "PUT", "/static/a").1, "mounted(a)");
    assert!(ask(&mut client, "GET", "/statics").0.contains(" 404 "));
    let root = Router::builder().mount("/", named("root")).build().unwrap();
    let mut client = self::client(root);
    assert_eq!(ask(&mut client, "GET", "/").1, "root");
    assert_eq!(ask(&mut client, "GET", "/a/b").1, "root(a/b)");
}

#[test]
fn mistakes_in_routes_are_error_values() {
    let build = |router: RouterBuilder| router.build().unwrap_err().to_string();
    let one = || Router::builder().get("/a/{id}", named("a"));
    let cases = [
        (
            one().get("/a/{id}", named("b")),
            "`GET /a/{id}` has two handlers",
        ),
        (
            one().get("/a/{name}", named("b")),
            "`/a/{name}` conflicts with `/a/{id}`",
        ),
        (
            one().any("/b", named("b")).any("/b", named("b")),
            "`* /b` has two",
        ),
        (
            one().get("b", named("b")),
            "`b` is not valid: it does not begin with a slash",
        ),
        (one().get("", named("b")), "does not begin with a slash"),
        (one().get("/{*rest}/b", named("b")), "not at its end"),
        (one().get("/{a}{b}", named("b")), "more than one parameter"),
        (one().get("/{}", named("b")), "no name"),
        (one().get("/{a", named("b")), "no partner"),
        (
            one().route("BAD METHOD", "/b", named("b")),
            "method `BAD METHOD` is not valid",
        ),
        (one().route("", "/b", named("b")), "method `` is not valid"),
        (
            one().mount("/a", named("b")).mount("/a", named("b")),
            "has two handlers",
        ),
    ];
    for (router, expected) in cases {
        let mistake = build(router);
        assert!(mistake.contains(expected), "{mistake}");
    }
}
