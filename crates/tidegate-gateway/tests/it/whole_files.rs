//! Mistakes of whole files: parts that are missing, includes, files that cannot be read.

use std::path::Path;

use tidegate_gateway::config::{Disk as _, RealDisk, load};

use tidegate_testkit::{Folder, begins, has, lacks};

use crate::files::{check, fails, machine, run, says};
use crate::mistakes::GOOD;
use crate::start_files::check_in;

/// A file that was cut off while it was written must not replace one that serves.
#[test]
fn a_file_without_a_listener_for_requests_is_one_error() {
    let rows = [
        ("", "1:1"),
        ("# moved\n", "1:1"),
        ("[route.a]\nrespond = 200\n", "1:1"),
        ("[log]\nquery = true\n[listen]\n", "3:1"),
        ("[listen]\nadmin = \"127.0.0.1:9090\"\n", "1:1"),
        ("[listen.admin]\nat = \"127.0.0.1:9090\"\n", "1:2"),
    ];
    for (text, place) in rows {
        let message = format!("t.toml:{place}: listen: no listener: nothing to serve");
        let example = "such as `http = \"0.0.0.0:80\"`";
        fails(text, [&*message, example, "\n1 error, 0 warnings"]);
    }
    // It is said beside mistakes elsewhere.
    for text in [
        "[route.a]\nrespond = {\n",
        "[listen]\nadmin = \"h:1\"\n[route.a]\nrespond = \n",
        "# listen\n[log\n",
    ] {
        lacks(fails(text, ["no listener"]), ["\n1 error"]);
    }
    // It is not said beside a mistake that may be the reason.
    for text in [
        "[listen",
        "a = \"\"\"\n[listen]\nhttp = \"h:1\"\n[log]\n",
        "[listen]\nadmin = \"h:1\"\nhttp = \"h\n[log]\n",
        "[listen]\nhttp = 7\n",
        "listen = 7\n",
        "include = \"n.toml\"\n",
    ] {
        lacks(fails(text, [""]), ["no listener"]);
    }
}

#[test]
fn a_file_without_a_route_is_a_warning() {
    let no_route = "warning: route: no route: each request gets status 404";
    for (text, place) in [
        ("[listen]\nhttp = \"h:1\"\n", "1:1"),
        ("[listen]\nhttp = \"h:1\"\n[route]\n", "3:1"),
        (
            "[defaults.route]\nlimit = 3\n[listen]\nhttp = \"h:1\"\n",
            "1:1",
        ),
    ] {
        let message = format!("t.toml:{place}: {no_route}");
        says(text, check(text), 0, [&message, "0 errors, 1 warning"]);
    }
    // It may be in what could not be read, or is wrong itself.
    for text in [
        "[listen]\nhttp = \"h:1\"\n[route.a\nrespond = 200\n",
        "[listen]\nhttp = \"h:1\"\n[route.a]\nrespond = 7000\n",
        "[listen]\nhttp = \"h:1\"\n[listen.b]\nat = \"h\n[route.a]\nrespond = 200\n",
    ] {
        lacks(fails(text, [""]), ["no route"]);
    }
}

/// Each file includes the other one by a path that grows; without a stop the files would be read
/// forever.
#[test]
fn a_circle_of_includes_ends() {
    let files = [
        ("d/a.toml", "include = \"../d/*.toml\"\n"),
        (
            "d/b.toml",
            "include = [\"../d/./a.toml\", \"../d/*.toml\"]\n",
        ),
        ("d/c.toml", "include = \"../d/*.toml\"\n"),
    ];
    let found = run(&files, &["check", "d/a.toml"]);
    let message = "d/a.toml:1:11: include: the file includes itself";
    says("a circle", found, 1, [message]);
}

/// Files that include each other are read once each: nine of them had more than 100,000 chains.
#[test]
fn a_file_that_is_included_twice_is_a_mistake_with_both_places() {
    let files = [
        ("t.toml", "include = [\"a.toml\", \"b.toml\"]\n"),
        ("a.toml", "include = \"./c.toml\"\n"),
        ("b.toml", "include = \"c.toml\"\n"),
        ("c.toml", GOOD),
    ];
    let parts = [
        "b.toml:1:11: include: `c.toml` is included already\n",
        "a.toml:1:11: the first time\n",
        "\n1 error, 0 warnings",
    ];
    says("twice", run(&files, &["check", "t.toml"]), 1, parts);
    let names: Vec<String> = (0..60).map(|number| format!("d/{number}.toml")).collect();
    let all = names
        .iter()
        .map(|name| (name.as_str(), "include = \"*.toml\"\n"));
    let files: Vec<_> = all
        .chain([("t.toml", "include = \"d/*.toml\"\n")])
        .collect();
    let found = run(&files, &["check", "t.toml"]);
    says("many", found, 1, ["is included already"]);
}

#[test]
fn a_file_that_is_included_by_two_links_is_included_twice() {
    let folder = Folder::new("links");
    std::fs::write(folder.join("part.toml"), "[log]\n").unwrap();
    std::os::unix::fs::symlink(&*folder, folder.join("self")).unwrap();
    let include = "include = [\"part.toml\", \"self/part.toml\"]\n";
    let found = check_in(&folder, format!("{include}{GOOD}"));
    says("links", found, 1, ["part.toml` is included already"]);
}

/// The folder of a bare name is that of the process.
#[test]
fn a_pattern_of_an_include_may_be_beside_a_file_with_a_bare_name() {
    let files = [("t.toml", "include = \"x-*.toml\"\n"), ("x-1.toml", GOOD)];
    let (output, status) = run(&files, &["check", "t.toml"]);
    assert_eq!(status, 0, "{output}");
    let machine = machine(&files);
    let loaded = load(Path::new("t.toml"), &*machine.disk, &*machine.variables).unwrap();
    assert_eq!(loaded.sources.folders(), [Path::new(".")]);
    let names: Vec<&str> = loaded.sources.files().collect();
    assert_eq!(names, ["t.toml", "x-1.toml"]);
}

#[test]
fn an_include_without_files_is_a_warning() {
    let text = format!("include = \"parts/*.toml\"\n{GOOD}");
    let message = "t.toml:1:11: warning: include: no file has such a name";
    says(&text, check(&text), 0, [message]);
}

/// Reading these files does not end.
#[test]
fn only_regular_files_are_read() {
    for path in ["/dev/zero", "/dev", "/dev/tty"] {
        let why = RealDisk.read(std::path::Path::new(path)).unwrap_err();
        assert_eq!(why.to_string(), "it is not a regular file", "{path}");
    }
}

#[test]
fn one_mistake_in_many_routes_has_one_message_for_each() {
    let route = |number| format!("[route.r{number}]\nrespond = 200\n");
    let routes: String = (0..90).map(route).collect();
    let (output, status) = check(&format!("{GOOD}{routes}"));
    let ties = output.matches("takes the same requests as `route.r0`");
    assert_eq!(ties.count(), 89, "{output}");
    assert_eq!(status, 1);
}

/// The time of these was the square of their size. The tests have no limit of time: these would take
/// minutes.
#[test]
fn of_many_mistakes_a_hundred_are_shown_and_all_are_counted() {
    let listener = |number| format!("l{number} = \"h{number}:1\"\n");
    let listeners: String = (0..10_000).map(listener).collect();
    let route = |number| format!("[route.r{number}]\nrespond = 1000\nlimit = 5\n");
    let rows = [
        ("= \n".repeat(8000), "and 23901 more\n24001 errors, 0"),
        ("timeuot = 1\n".repeat(20_000), "errors, 0 warnings"),
        (
            format!("[listen]\n{listeners}a = \"h1:1\"\n"),
            "1 error, 1 warning\n",
        ),
        (
            (0..3000).map(route).collect(),
            "and 5900 more\n6000 errors, 0",
        ),
        (format!("{{{}", "\"a\":1, ".repeat(100_000)), " error"),
    ];
    for (text, end) in rows {
        let (output, status) = check(&text);
        let end_of_output = &output[output.len().saturating_sub(80)..];
        has(end_of_output, [end]);
        assert!(output.matches(" | ").count() <= 400, "{end}");
        let longest = output.lines().map(|line| line.chars().count()).max();
        assert!(longest < Some(500), "{end}: {longest:?}");
        assert_eq!(status, 1);
    }
}

#[test]
fn mistakes_of_includes_name_both_files() {
    let main = format!("include = [\"parts/*.toml\", \"none.toml\", 5]\n{GOOD}");
    let part = "include = \"../t.toml\"\n[route.a]\nrespond = 200\n[route.b]\ntimeout = 1\n";
    let files = [("t.toml", main.as_str()), ("parts/b.toml", part)];
    says(
        "both",
        run(&files, &["check", "t.toml"]),
        1,
        [
            "parts/b.toml:2:8: route.a: the key is defined twice",
            "t.toml:6:8: the other definition",
            "parts/b.toml:5:11: route.b.timeout: 1 is not a duration",
            "t.toml:1:28: include: `none.toml` cannot be read",
            "t.toml:1:41: include: 5 is not a path without variables",
            "parts/b.toml:1:11: include: the file includes itself",
        ],
    );
}

#[test]
fn a_file_that_does_not_exist_is_status_2() {
    let (output, status) = run(&[], &["check", "none.toml"]);
    begins(&output, "none.toml: cannot be read: ");
    assert_eq!(status, 2);
}

#[test]
fn one_value_has_one_message() {
    let admin = "[listen.admin]\nat = \"127.0.0.1:1\"\n";
    let rows = [
        (
            format!("{GOOD}limit = 99999999999999999999\n"),
            "does not fit",
        ),
        (format!("{GOOD}timeout = \"${{NONE}}\"\n"), "NONE"),
        (format!("{GOOD}{admin}token = \"${{NONE}}\"\n"), "NONE"),
    ];
    for (text, message) in rows {
        let output = fails(&text, [message]);
        assert!(output.ends_with("\n1 error, 0 warnings\n"), "{output}");
    }
}

#[test]
fn a_token_file_that_is_missing_is_found() {
    let text = format!("{GOOD}[listen.admin]\nat = \"127.0.0.1:1\"\ntoken = \"file:/nope\"\n");
    let message = "t.toml:10:9: listen.admin.token: the file cannot be read";
    fails(&text, [message]);
}

/// What `run` refuses, `check` finds, on the disk of the machine.
#[test]
fn folders_that_are_missing_and_bytes_that_are_no_text_are_found() {
    let folder = Folder::new("check");
    let none = folder.join("none");
    let text = format!(
        "[listen]\nhttp = \"h:1\"\n[log]\nfile = {:?}\n",
        none.join("log")
    );
    let text = format!("{text}[route.a]\nfiles = {none:?}\n");
    says(
        &text,
        check_in(&folder, &text),
        1,
        [
            ":4:8: log.file: the folder of the file does not exist",
            ":6:9: route.a.files.root: the directory does not exist",
            "\n2 errors, 0 warnings",
        ],
    );
    std::fs::create_dir(&none).unwrap();
    assert_eq!(check_in(&folder, &text).1, 0);
    let mut bytes = format!("{text}a = 7\nä = \"").into_bytes();
    bytes.extend(b"\xff\xfe\"\n");
    let path = folder.join("t.toml");
    let path = path.display();
    let message = format!(
        "{path}:8:6: the byte 0xff is not UTF-8\n  8 | ä = \"\u{fffd}\u{fffd}\"\n    |      ^ "
    );
    let unknown = format!("{path}:7:1: route.a.a: the key is unknown");
    says("bytes", check_in(&folder, &bytes), 1, [message, unknown]);
}

#[test]
fn a_token_that_no_client_can_send_is_refused() {
    let text = format!("{GOOD}[listen.admin]\nat = \"127.0.0.1:1\"\ntoken = \"file:/t\"\n");
    for (token, status) in [("marker\n", 0), ("marker\nmore\n", 1), ("mar\u{7}ker", 1)] {
        let files = [("t.toml", text.as_str()), ("/t", token)];
        let (output, found) = run(&files, &["check", "t.toml"]);
        assert_eq!(found, status, "{output}");
        let message = "t.toml:10:9: listen.admin.token: the token has several lines or control";
        assert_eq!(output.contains(message), status == 1, "{output}");
        lacks(&output, ["mar"]);
    }
}
