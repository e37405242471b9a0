//! Responses of the gateway itself: redirects, fixed ones, files.

use tidegate_testkit::Folder;

use crate::*;

#[test]
fn a_redirect_names_the_new_place() {
    let fixture = Fixture::new(
        "[route.old]\npath = \"/shop/*\"\nredirect = { to = \"https://new.example{path}\", status = 307 }\n",
    );
    for target in ["/shop/1?x=y", "/shop/a|b?x={y}|`\\"] {
        let response = fixture.send(&GET.replace("/a", target)).message();
        assert_eq!(response.status(), "307");
        let expected = format!("https://new.example{target}");
        assert_eq!(response.field("location"), Some(expected.as_str()));
    }
}

#[test]
fn the_path_of_a_request_is_not_the_host_of_a_redirect() {
    let fixture = Fixture::new("[route.old]\nredirect = \"{path}/\"\n");
    for path in ["//evil.example", "/.//evil.example", "/x/..//evil.example"] {
        let response = fixture.send(&GET.replace("/a", path)).message();
        assert_eq!(response.field("location"), Some("/evil.example/"), "{path}");
    }
}

#[test]
fn a_fixed_response_has_its_status_type_and_body() {
    let fixture = Fixture::new(
        "[route.robots]\npath = \"/robots.txt\"\n\
         respond = { status = 203, body = \"none\", content_type = \"text/x\" }\n",
    );
    let response = fixture.send(&GET.replace("/a", "/robots.txt")).message();
    assert_eq!((response.status(), response.body.as_str()), ("203", "none"));
    assert_eq!(response.field("content-type"), Some("text/x"));
}

/// A body of a known length is refused; a chunked one is not read, and so not counted.
#[test]
fn a_chunked_body_is_not_counted_where_it_is_not_passed_on() {
    let routes = [("respond = 200", "200"), ("redirect = \"/b\"", "308")];
    for (action, status) in routes {
        let fixture = Fixture::new(&format!("[route.own]\n{action}\nbody = \"4B\"\n"));
        let head = GET.replace("GET", "POST").replace("\r\n\r\n", "\r\n");
        for (body, status) in [
            ("Content-Length: 5\r\n\r\nhello", "413"),
            (
                "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                status,
            ),
        ] {
            let response = fixture.send(&format!("{head}{body}")).message();
            assert_eq!(response.status(), status, "{action} {body}");
        }
    }
}

#[test]
fn files_of_a_directory_are_sent_and_no_others() {
    let root = Folder::new("files");
    std::fs::write(root.join("a.txt"), "content").unwrap();
    let fixture = Fixture::new(&format!(
        "[route.assets]\npath = \"/assets/*\"\nfiles = {{ root = {root:?} }}\n"
    ));
    let response = fixture.send(&GET.replace("/a", "/assets/a.txt")).message();
    assert_eq!((response.status(), &*response.body), ("200", "content"));
    for path in ["/assets/b.txt", "/assets/../Cargo.toml", "/assets/%2e%2e/a"] {
        let response = fixture.send(&GET.replace("/a", path)).message();
        assert_eq!(response.status(), "404", "{path}");
    }
}

#[test]
fn the_file_of_a_directory_has_the_name_of_the_setting() {
    let root = Folder::new("index");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/index.html"), "usual").unwrap();
    std::fs::write(root.join("sub/start.txt"), "own").unwrap();
    for (setting, expected) in [("", "usual"), (", index = \"start.txt\"", "own")] {
        let fixture = Fixture::new(&format!(
            "[route.f]\nfiles = {{ root = {root:?}{setting} }}\n"
        ));
        compare(&fixture, &[("/sub/", &format!("200 {expected}"))]);
    }
}

/// Compares the status of each path, and the address or the body.
fn compare(fixture: &Fixture, rows: &[(&str, &str)]) {
    for (path, expected) in rows {
        let response = fixture.send(&GET.replace("/a", path)).message();
        let what = response.field("location").unwrap_or(&response.body);
        assert_eq!(format!("{} {what}", response.status()), *expected, "{path}");
    }
}

#[test]
fn files_see_the_normal_path_as_routes_do() {
    let root = Folder::new("normal");
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    for (name, content) in [
        ("a.txt", "a"),
        ("sub/index.html", "i"),
        ("sub/b.txt", "b"),
        ("c|d", "c"),
    ] {
        std::fs::write(root.join(name), content).unwrap();
    }
    let fixture = Fixture::new(&format!(
        "[route.all]\nfiles = {root:?}\n[route.f]\npath = \"/f/*\"\nfiles = {root:?}\n\
         [route.x]\npath = \"/x/{{d}}/*\"\nfiles = {root:?}\n\
         [route.y]\npath = \"/y/{{name}}\"\nfiles = {root:?}\n"
    ));
    let rows = [
        ("/f/./a.txt", "200 a"),
        ("/f/%2e/a.txt", "200 a"),
        ("/f/sub/../a.txt", "200 a"),
        ("/x/../f/%61.txt", "200 a"),
        ("/f/sub/.", "200 i"),
        ("/f/sub/", "200 i"),
        ("/f/sub?q", "301 /f/sub/?q"),
        ("/f/./sub", "301 /f/sub/"),
        ("/f", "301 /f/"),
        ("/f/c|d?{}", "200 c"),
        ("/f/c%7Cd", "200 c"),
        ("/f/sub?a|b\\", "301 /f/sub/?a|b\\"),
        ("/x/any/a.txt", "200 a"),
        ("/x/any/sub/b.txt", "200 b"),
        ("/x/any/sub", "301 /x/any/sub/"),
        ("/x/sub/b.txt", "404 not found\n"),
        ("/y/a.txt", "200 a"),
        ("/a.txt", "200 a"),
        ("//sub", "404 not found\n"),
        ("/.//sub", "404 not found\n"),
        ("/f//a.txt", "404 not found\n"),
        ("/f/sub%2fb.txt", "404 not found\n"),
        ("/f/..%2ff/a.txt", "404 not found\n"),
        ("/f/../../a.txt", "400 the path is not valid\n"),
    ];
    compare(&fixture, &rows);
}

#[test]
fn an_exact_path_is_one_file() {
    let root = Folder::new("exact");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    for name in ["index.html", "robots.txt", "sub/index.html"] {
        std::fs::write(root.join(name), name).unwrap();
    }
    let paths = [
        "/",
        "/robots.txt",
        "/docs/",
        "/x/robots.txt",
        "/x/none",
        "/sub",
        "/y/{d}/",
        "/z/{d}/index.html",
    ];
    let routes = paths
        .iter()
        .enumerate()
        .map(|(number, path)| format!("[route.r{number}]\npath = {path:?}\nfiles = {root:?}\n"));
    let fixture = Fixture::new(&routes.collect::<String>());
    let rows = [
        ("/", "200 index.html"),
        ("/.", "200 index.html"),
        ("/robots.txt", "200 robots.txt"),
        ("/x/../robots.txt", "200 robots.txt"),
        ("/docs/", "200 index.html"),
        ("/x/robots.txt", "200 robots.txt"),
        ("/x/none", "404 not found\n"),
        ("/sub?q", "301 /sub/?q"),
        ("/y/sub/", "200 sub/index.html"),
        ("/z/sub/index.html", "200 sub/index.html"),
        ("/y/none/", "404 not found\n"),
    ];
    compare(&fixture, &rows);
}

#[test]
fn a_socket_among_the_files_is_not_found() {
    let root = Folder::new("special");
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let fixture = Fixture::new(&format!("[route.all]\nfiles = {root:?}\n"));
    let response = fixture.send(&GET.replace("/a", "/socket")).message();
    assert_eq!(response.status(), "404");
}
