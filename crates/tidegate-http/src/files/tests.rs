//! The service over an embedded channel: what is sent, and what is refused.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use tidegate_core::permits::Permit;
use tidegate_testkit::until_some;

use super::builder::FilesBuilder;
use super::directory::Directory;
use super::*;
use crate::server::tests::Client;

/// 2020-01-02 03:04:05.
const MODIFIED: u64 = 1_577_934_245;
const DATE: &str = "Thu, 02 Jan 2020 03:04:05 GMT";
const BEFORE: &str = "Thu, 02 Jan 2020 03:04:04 GMT";
const AFTER: &str = "Thu, 02 Jan 2020 03:04:06 GMT";

/// A directory that is removed at the end of its test. Next to the served one it has a secret file.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-files-{}-{number}", std::process::id());
        let dir = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(dir.served().join("sub/empty")).unwrap();
        fs::write(dir.0.join("secret.txt"), "secret").unwrap();
        for (path, content) in [
            ("a.txt", "0123456789"),
            ("empty.css", ""),
            ("index.html", "home"),
            ("sub/index.html", "sub home"),
            ("sub/b c.json", "{}"),
            (".hidden", "hidden"),
        ] {
            dir.write(path, content, Some(MODIFIED));
        }
        dir
    }

    fn served(&self) -> PathBuf {
        self.0.join("served")
    }

    /// Writes a file. Without a time it was changed just now.
    fn write(&self, path: &str, content: &str, modified: Option<u64>) {
        let path = self.served().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        if let Some(modified) = modified {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(modified))
                .unwrap();
        }
    }

    fn files(&self) -> FilesBuilder {
        Files::builder(self.served())
    }

    fn client(&self) -> Client {
        client(self.files().build().unwrap())
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn client(files: Files) -> Client {
    Client::new(move |request, response| files.respond(request, response))
}

/// A response: its status, its head, its body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn shown(&self) -> (u16, &str) {
        (self.status, &self.body)
    }

    fn with(&self, field: &str) -> (u16, Option<&str>) {
        (self.status, self.field(field))
    }

    fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
    }
}

/// Sends a request with these fields and waits for its response.
fn ask(client: &mut Client, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let fields: String = fields.collect();
    let mut text = client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
    ));
    until_some("the response has come", || {
        text.push_str(&client.responses());
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.get(9..12)?.parse().ok()?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let has_body = method != "HEAD" && status != 304 && status != 204;
        (!has_body || body.len() >= length).then(|| Reply {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    })
}

fn all_places(files: &Files) -> Vec<Permit> {
    std::iter::from_fn(|| files.take_place()).collect()
}

fn get(client: &mut Client, path: &str) -> Reply {
    ask(client, "GET", path, &[])
}

#[test]
fn fields_that_were_set_before_are_sent_with_each_response() {
    let dir = TestDir::new();
    let files = dir.files().build().unwrap();
    let mut client = Client::new(move |request, response| {
        let response = response.status(299).field("X-Id", "7");
        files.respond(request, response);
    });
    let rows = [
        ("GET", "/a.txt", 200),
        ("HEAD", "/a.txt", 200),
        ("GET", "/none", 404),
        ("GET", "/sub", 301),
        ("GET", "/../a.txt", 404),
        ("POST", "/a.txt", 405),
    ];
    for (method, path, status) in rows {
        let reply = ask(&mut client, method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}");
        assert_eq!(reply.field("X-Id"), Some("7"), "{method} {path}");
        assert_eq!(reply.head.matches("HTTP/1.1").count(), 1, "{}", reply.head);
    }
}

#[test]
fn a_file_is_sent_with_its_type_its_tag_and_its_date() {
    let dir = TestDir::new();
    let mut client = dir.client();
    let reply = get(&mut client, "/a.txt?query");
    assert_eq!(reply.shown(), (200, "0123456789"));
    assert_eq!(
        reply.field("Content-Type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(reply.field("Last-Modified"), Some(DATE));
    assert_eq!(reply.field("Accept-Ranges"), Some("bytes"));
    let tag = reply.field("ETag").unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.ends_with("-a\""), "{tag}");

    let reply = ask(&mut client, "HEAD", "/a.txt", &[]);
    assert_eq!(reply.shown(), (200, ""));
    assert_eq!(reply.field("Content-Length"), Some("10"));
    assert_eq!(reply.field("ETag"), Some(tag.as_str()));

    for (path, body, content_type) in [
        ("/", "home", "text/html; charset=utf-8"),
        ("/index.html", "home", "text/html; charset=utf-8"),
        ("/sub/", "sub home", "text/html; charset=utf-8"),
        ("/sub/b%20c.json", "{}", "application/json"),
        ("/empty.css", "", "text/css; charset=utf-8"),
    ] {
        let reply = get(&mut client, path);
        assert_eq!(reply.shown(), (200, body), "{path}");
        assert_eq!(reply.field("Content-Type"), Some(content_type), "{path}");
    }
}

#[test]
fn a_directory_without_its_slash_is_redirected() {
    let dir = TestDir::new();
    let mut client = dir.client();
    for (path, location) in [("/sub", "/sub/"), ("/sub/empty?a=b", "/sub/empty/?a=b")] {
        let reply = get(&mut client, path);
        assert_eq!(reply.with("Location"), (301, Some(location)));
    }
    assert_eq!(
        get(&mut client, "/sub/empty/").status,
        404,
        "it has no index"
    );
    let mut client = self::client(dir.files().prefix("/static/").build().unwrap());
    let reply = get(&mut client, "/static");
    assert_eq!(reply.with("Location"), (301, Some("/static/")));
    assert_eq!(get(&mut client, "/static/").body, "home");
    assert_eq!(get(&mut client, "/static/sub/").body, "sub home");
    assert_eq!(get(&mut client, "/a.txt").status, 404);
}

#[test]
fn hostile_paths_find_nothing() {
    let dir = TestDir::new();
    let mut client = dir.client();
    let secret = dir.0.join("secret.txt");
    let absolute = format!("/{}", secret.display());
    let encoded = format!("/{}", absolute.replace('/', "%2F"));
    let hostile = [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%5csecret.txt",
        "/sub/%2e%2e/%2e%2e/secret.txt",
        "/%252e%252e/secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/....//secret.txt",
        "/a.txt%00",
        "/a.txt%00.html",
        "/a.txt/",
        "/a.txt/b",
        "/sub//index.html",
        "/./a.txt",
        "/.hidden",
        "/%2ehidden",
        "/missing",
        "/A%00",
        &absolute,
        &encoded,
    ];
    for path in hostile {
        let reply = get(&mut client, path);
        assert_eq!(reply.shown(), (404, "not found\n"), "{path}");
    }
    let long = format!("/{}", "a".repeat(5000));
    assert_eq!(get(&mut client, &long).status, 404);
}

#[cfg(unix)]
#[test]
fn a_link_may_lead_to_a_place_inside_and_not_out() {
    use std::os::unix::fs::symlink;

    let dir = TestDir::new();
    let served = dir.served();
    symlink("a.txt", served.join("inside")).unwrap();
    symlink("../a.txt", served.join("sub/inside")).unwrap();
    symlink("../secret.txt", served.join("outside")).unwrap();
    symlink(dir.0.join("secret.txt"), served.join("absolute")).unwrap();
    symlink("..", served.join("parent")).unwrap();
    symlink("outside", served.join("twice")).unwrap();
    symlink("circle", served.join("circle")).unwrap();
    symlink("nowhere", served.join("broken")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        served.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let portable = || Directory::open(&served).unwrap().portable();
    for files in [
        dir.files().build().unwrap(),
        dir.files().build_for(portable()).unwrap(),
    ] {
        let mut client = client(files);
        for path in ["/inside", "/sub/inside"] {
            assert_eq!(get(&mut client, path).body, "0123456789", "{path}");
        }
        for path in [
            "/outside",
            "/absolute",
            "/parent/secret.txt",
            "/parent/served/a.txt",
            "/twice",
            "/broken",
            "/pipe",
        ] {
            let status = get(&mut client, path).status;
            let inside = path == "/parent/served/a.txt";
            assert!(status == 404 || inside && status == 200, "{path}: {status}");
        }
        assert!(get(&mut client, "/circle").status >= 400);
    }
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_replaced_counts_at_once() {
    use std::os::unix::fs::symlink;

    let dir = TestDir::new();
    let (old, new, link) = (dir.served(), dir.0.join("new"), dir.0.join("link"));
    for is_portable in [false, true] {
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("a.txt"), "new").unwrap();
        symlink(&old, &link).unwrap();
        let directory = Directory::open(&link).unwrap();
        let directory = match is_portable {
            true => directory.portable(),
            false => directory,
        };
        let mut client = client(dir.files().build_for(directory).unwrap());
        assert_eq!(get(&mut client, "/a.txt").body, "0123456789");
        symlink(&new, dir.0.join("next")).unwrap();
        std::fs::rename(dir.0.join("next"), &link).unwrap();
        assert_eq!(get(&mut client, "/a.txt").body, "new");
        std::fs::remove_dir_all(&new).unwrap();
        assert_eq!(get(&mut client, "/a.txt").status, 404);
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("a.txt"), "again").unwrap();
        assert_eq!(get(&mut client, "/a.txt").body, "again");
        std::fs::remove_dir_all(&new).unwrap();
        std::fs::remove_file(&link).unwrap();
    }
}

#[test]
fn conditions_are_evaluated_in_their_order() {
    let dir = TestDir::new();
    let mut client = dir.client();
    let tag = get(&mut client, "/a.txt").field("ETag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    let list = format!("\"x\", {tag}, \"y\"");
    let (tag, weak, list) = (tag.as_str(), weak.as_str(), list.as_str());
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("If-Match", tag)], 200),
        (&[("If-Match", "*")], 200),
        (&[("If-Match", list)], 200),
        (&[("If-Match", "\"x\"")], 412),
        (&[("If-Match", weak)], 412),
        (&[("If-Match", "\"x\""), ("If-Match", tag)], 200),
        (&[("If-Match", "")], 412),
        (&[("If-Unmodified-Since", DATE)], 200),
        (&[("If-Unmodified-Since", AFTER)], 200),
        (&[("If-Unmodified-Since", BEFORE)], 412),
        (&[("If-Unmodified-Since", "yesterday")], 200),
        (&[("If-Match", tag), ("If-Unmodified-Since", BEFORE)], 200),
        (&[("If-None-Match", tag)], 304),
        (&[("If-None-Match", weak)], 304),
        (&[("If-None-Match", list)], 304),
        (&[("If-None-Match", "*")], 304),
        (&[("If-None-Match", "\"x\"")], 200),
        (&[("If-None-Match", "x")], 200),
        (&[("If-Modified-Since", DATE)], 304),
        (&[("If-Modified-Since", AFTER)], 304),
        (&[("If-Modified-Since", BEFORE)], 200),
        (&[("If-Modified-Since", "0")], 200),
        (
            &[("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)],
            200,
        ),
        (
            &[("If-None-Match", tag), ("If-Modified-Since", BEFORE)],
            304,
        ),
        (&[("If-Match", "\"x\""), ("If-None-Match", tag)], 412),
        (&[("If-Match", tag), ("If-None-Match", tag)], 304),
        (&[("If-None-Match", tag), ("Range", "bytes=0-1")], 304),
        (&[("If-Match", "\"x\""), ("Range", "bytes=0-1")], 412),
    ];
    for method in ["GET", "HEAD"] {
        for (fields, status) in cases {
            let reply = ask(&mut client, method, "/a.txt", fields);
            assert_eq!(reply.status, *status, "{method} {fields:?}");
            assert_eq!(reply.field("ETag"), Some(tag), "{method} {fields:?}");
            if *status == 304 {
                // The length that status 200 would have.
                assert_eq!(reply.field("Content-Length"), Some("10"));
                assert_eq!(
                    (reply.field("Content-Type"), reply.body.as_str()),
                    (None, "")
                );
            }
        }
    }
}

#[test]
fn ranges_send_a_part() {
    let dir = TestDir::new();
    let mut client = dir.client();
    let tag = get(&mut client, "/a.txt").field("ETag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    let whole = (200, "0123456789", None);
    let part = (206, "23", Some("bytes 2-3/10"));
    let cases = [
        ("bytes=2-3", None, part),
        ("bytes=0-", None, (206, "0123456789", Some("bytes 0-9/10"))),
        ("bytes=-1", None, (206, "9", Some("bytes 9-9/10"))),
        ("bytes=8-100", None, (206, "89", Some("bytes 8-9/10"))),
        ("bytes=10-", None, (416, "", Some("bytes */10"))),
        ("bytes=0-0,5-5", None, whole),
        ("bytes=50-60,2-3", None, part),
        ("bytes=x", None, whole),
        ("bytes=2-3", Some(tag.as_str()), part),
        ("bytes=2-3", Some(DATE), part),
        ("bytes=2-3", Some(weak.as_str()), whole),
        ("bytes=2-3", Some("\"x\""), whole),
        ("bytes=2-3", Some(BEFORE), whole),
        ("bytes=2-3", Some(AFTER), whole),
        ("bytes=10-", Some("\"x\""), whole),
    ];
    for (range, if_range, (status, body, content_range)) in cases {
        let mut fields = vec![("Range", range)];
        fields.extend(if_range.map(|value| ("If-Range", value)));
        let reply = ask(&mut client, "GET", "/a.txt", &fields);
        assert_eq!(reply.shown(), (status, body), "{fields:?}");
        assert_eq!(reply.field("Content-Range"), content_range, "{fields:?}");
    }
    let reply = ask(&mut client, "HEAD", "/a.txt", &[("Range", "bytes=2-3")]);
    assert_eq!(reply.with("Content-Length"), (200, Some("10")));
    let reply = ask(&mut client, "GET", "/empty.css", &[("Range", "bytes=0-")]);
    assert_eq!(reply.with("Content-Range"), (416, Some("bytes */0")));
}

#[test]
fn a_file_that_was_just_changed_has_a_weak_tag_and_no_ranges_by_it() {
    let dir = TestDir::new();
    let future = SystemTime::now() + Duration::from_secs(3600);
    let future = future.duration_since(UNIX_EPOCH).unwrap().as_secs();
    dir.write("new.txt", "0123456789", Some(future));
    let mut client = dir.client();
    let reply = get(&mut client, "/new.txt");
    let tag = reply.field("ETag").unwrap();
    assert!(tag.starts_with("W/\""), "{tag}");
    let modified = reply.field("Last-Modified").unwrap();
    let modified = crate::codec::HttpDate::parse(modified.as_bytes()).unwrap();
    assert!(modified < future, "not later than the date of the response");
    let reply = ask(&mut client, "GET", "/new.txt", &[("If-None-Match", tag)]);
    assert_eq!(reply.status, 304);
    let strong = &tag[2..];
    for tag in [tag, strong] {
        let fields = [("Range", "bytes=0-1"), ("If-Range", tag)];
        assert_eq!(ask(&mut client, "GET", "/new.txt", &fields).status, 200);
        let fields = [("If-Match", tag)];
        assert_eq!(ask(&mut client, "GET", "/new.txt", &fields).status, 412);
    }
}

#[test]
fn other_methods_are_refused() {
    let dir = TestDir::new();
    let mut client = dir.client();
    for (method, status) in [
        ("POST", 405),
        ("DELETE", 405),
        ("PURGE", 405),
        ("OPTIONS", 204),
    ] {
        let reply = ask(&mut client, method, "/a.txt", &[]);
        assert_eq!(reply.with("Allow"), (status, Some("GET, HEAD, OPTIONS")));
    }
}

#[test]
fn requests_above_the_limit_are_refused_until_there_is_room() {
    let dir = TestDir::new();
    let files = dir.files().threads(1, 1).build().unwrap();
    let mut client = client(files.clone());
    let places = all_places(&files);
    assert_eq!(places.len(), 2);
    let reply = get(&mut client, "/a.txt");
    assert_eq!(reply.with("Retry-After"), (503, Some("1")));
    drop(places);
    assert_eq!(get(&mut client, "/a.txt").status, 200);
    until_some("the place is free again", || {
        let places = all_places(&files);
        (places.len() == 2).then_some(())
    });
}

#[test]
fn who_asks_is_told_the_status_and_the_length() {
    let dir = TestDir::new();
    let files = dir.files().threads(1, 1).build().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (seen, own) = (Arc::clone(&told), files.clone());
    let mut client = Client::new(move |request, response| {
        let seen = Arc::clone(&seen);
        let path = request.path();
        own.respond_at(
            (path, 0),
            request,
            response,
            move |status, length, error| {
                let error = error.map(io::Error::kind);
                seen.lock().unwrap().push((status, length, error));
            },
        );
    });
    let range = [("Range", "bytes=2-4")];
    for (method, path, fields) in [
        ("GET", "/a.txt", &[][..]),
        ("HEAD", "/a.txt", &[]),
        ("GET", "/a.txt", &range),
        ("GET", "/missing", &[]),
        ("GET", "/../a.txt", &[]),
        ("GET", "/sub", &[]),
        ("POST", "/a.txt", &[]),
    ] {
        ask(&mut client, method, path, fields);
    }
    let places: Vec<_> = until_some("the places are free", || {
        let places = all_places(&files);
        (places.len() == 2).then_some(places)
    });
    get(&mut client, "/a.txt");
    drop(places);
    // Some are told by the thread of the connection, others by one of the pool.
    let mut told = told.lock().unwrap().clone();
    told.sort_unstable_by_key(|(status, length, error)| (*status, *length, error.is_some()));
    let missing = Some(io::ErrorKind::NotFound);
    let expected = [
        (200, 0, None),
        (200, 10, None),
        (206, 3, None),
        (301, 0, None),
        (404, 10, None),
        (404, 10, missing),
        (405, 18, None),
        (503, 28, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn settings_are_used_and_mistakes_in_them_are_error_values() {
    let dir = TestDir::new();
    let files = dir.files().index("a.txt").cache_control("max-age=60");
    let mut client = client(files.build().unwrap());
    let reply = get(&mut client, "/");
    assert_eq!(reply.body, "0123456789");
    assert_eq!(reply.field("Cache-Control"), Some("max-age=60"));

    let missing = dir.0.join("missing");
    let cases = [
        (Files::builder(&missing), "missing"),
        (Files::builder(dir.0.join("secret.txt")), "cannot be served"),
        (dir.files().cache_control("a\r\nb: c"), "Cache-Control"),
        (dir.files().threads(0, 5), "0 threads"),
        (dir.files().threads(1, usize::MAX), "1 threads"),
    ];
    for (files, expected) in cases {
        let mistake = files.build().unwrap_err().to_string();
        assert!(mistake.contains(expected), "{mistake}");
    }
    assert!(Files::new(dir.served()).is_ok());
}
