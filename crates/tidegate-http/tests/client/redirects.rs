//! Redirects, and the addresses of names.

use std::net::SocketAddr;

use tidegate_testkit::{Counter, begins, has};

use crate::*;

#[test]
fn redirects_are_followed_on_request_without_credentials_for_others() {
    let (first, second, client) = (Upstream::new(), Upstream::new(), client());
    let call = client
        .post(first.url("/a/b"))
        .field("Authorization", "secret")
        .field("X-Own", "1")
        .body("hello")
        .redirects(2)
        .send();
    let mut peer = first.accept();
    assert!(peer.request().starts_with("POST /a/b "));
    peer.respond("HTTP/1.1 307 Temporary Redirect\r\nLocation: c\r\nContent-Length: 4\r\n\r\nhere");
    let request = peer.request();
    assert!(
        request.starts_with("POST /a/c ") && request.ends_with("hello"),
        "{request}"
    );
    assert!(request.contains("Authorization: secret"), "{request}");
    let elsewhere = second.url("/d");
    let response =
        format!("HTTP/1.1 303 See Other\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n");
    peer.respond(&response);
    let mut other = second.accept();
    let request = other.request();
    begins(&request, "GET /d ");
    has(&request, ["X-Own: 1"]);
    assert!(!request.contains("secret"), "{request}");
    other.respond("HTTP/1.1 302 Found\r\nLocation: /e\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        call.wait().unwrap().status(),
        302,
        "the third one is the response"
    );
}

#[test]
fn a_call_follows_at_most_ten_redirects() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.get(upstream.url("/0")).redirects(255).send();
    let mut peer = upstream.accept();
    for round in 0..=10 {
        assert!(peer.request().starts_with(&format!("GET /{round} ")));
        let next = round + 1;
        peer.respond(&format!(
            "HTTP/1.1 302 Found\r\nLocation: /{next}\r\nContent-Length: 0\r\n\r\n"
        ));
    }
    let response = call.wait().unwrap();
    assert_eq!(
        (response.status(), response.get("location")),
        (302, Some(&b"/11"[..]))
    );
}

#[test]
fn credentials_stay_at_their_origin() {
    // Another port, and another name of the same machine, are other origins.
    let (first, second) = (Upstream::new(), Upstream::new());
    let port = first.0.local_addr().unwrap().port();
    let client = builder()
        .resolver(move |_, port| {
            Completion::succeeded(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        })
        .build();
    for target in [second.url("/"), format!("http://other.test:{port}/")] {
        let call = client
            .get(first.url("/"))
            .field("Authorization", "secret-1")
            .field("Cookie", "secret-2")
            .field("Proxy-Authorization", "secret-3")
            .field("Host", "secret-4")
            .redirects(1)
            .send();
        let mut peer = first.accept();
        let request = peer.request();
        assert_eq!(request.matches("secret-").count(), 4, "{request}");
        peer.respond(&format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {target}\r\nConnection: close\r\n\
             Content-Length: 0\r\n\r\n"
        ));
        let mut peer = match target.contains("other.test") {
            true => first.accept(),
            false => second.accept(),
        };
        let request = peer.request();
        assert!(!request.contains("secret-"), "{request}");
        peer.finish(call);
    }
}

#[test]
fn the_location_of_a_redirect_may_be_hostile() {
    let (upstream, client) = (Upstream::new(), client());
    let table = [
        "ftp://127.0.0.1/",
        "http://",
        "http://u:p@127.0.0.1/",
        "http://127.0.0.1:99999/",
        "javascript:alert(1)",
        "/with a space",
        "\u{e9}",
    ];
    for location in table {
        let call = client.get(upstream.url("/")).redirects(3).send();
        let mut peer = upstream.accept_request();
        peer.respond(&format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nConnection: close\r\nContent-Length: \
             0\r\n\r\n"
        ));
        // It cannot be followed, so it is the response.
        assert_eq!(call.wait().unwrap().status(), 302, "{location}");
    }
}

#[test]
fn a_name_is_resolved_again_after_thirty_seconds() {
    let upstream = Upstream::new();
    let address = upstream.0.local_addr().unwrap();
    let (clock, builder) = by_clock();
    let (resolved, count) = Counter::pair();
    let client = builder
        .resolver(move |_, _| {
            count.hit();
            Completion::succeeded(vec![address])
        })
        .build();
    for (seconds, times) in [(0, 1), (29, 1), (2, 2), (29, 2), (2, 3)] {
        clock.advance(Duration::from_secs(seconds));
        let call = client.get("http://name.test/").send();
        let mut peer = upstream.accept_request();
        peer.respond("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(text(call), "ok");
        assert_eq!(resolved.count(), times);
    }
}
