//! Responses of the gateway itself: redirects, fixed ones, files.

use crate::*;

#[test]
fn a_redirect_names_the_new_place() {
    let fixture = Fixture::new(
        "[route.old]\npath = \"/shop/*\"\nredirect = { to = \"https://new.example{path}\", status = 307 }\n",
    );
    let response = fixture.send(&GET.replace("/a", "/shop/1?x=y")).message();
    assert_eq!(response.status(), "307");
    assert_eq!(
        response.field("location"),
        Some("https://new.example/shop/1?x=y")
    );
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

#[test]
fn files_of_a_directory_are_sent_and_no_others() {
    let root = std::env::temp_dir().join(format!("tidegate-files-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("a.txt"), "content").unwrap();
    let fixture = Fixture::new(&format!(
        "[route.assets]\npath = \"/assets/*\"\nfiles = {{ root = {root:?} }}\n"
    ));
    let response = fixture.send(&GET.replace("/a", "/assets/a.txt")).message();
    assert_eq!(
        (response.status(), response.body.as_str()),
        ("200", "content")
    );
    for path in ["/assets/b.txt", "/assets/../Cargo.toml", "/assets/%2e%2e/a"] {
        let response = fixture.send(&GET.replace("/a", path)).message();
        assert_eq!(response.status(), "404", "{path}");
    }
    std::fs::remove_dir_all(root).unwrap();
}
