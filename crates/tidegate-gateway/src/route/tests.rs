//! Tests of the table: the most specific route wins, ties and unreachable routes are found.

use std::collections::BTreeMap;

use super::{HostPattern, PathPattern, RouteRequest, Rule, Table, Tie};

/// Returns a rule from a line such as `GET *.example/a/{b} x=1`. A `-` stands for no host, a `*`
/// for all methods.
fn rule(line: &str) -> Rule {
    let mut words = line.split(' ');
    let methods = words.next().unwrap();
    let place = words.next().unwrap();
    let slash = place.find('/').unwrap();
    let hosts = place[..slash].split(',').filter(|host| *host != "-");
    let headers = words.map(|word| word.split_once('=').unwrap_or((word, "")));
    Rule {
        hosts: hosts
            .map(|host| HostPattern::parse(host).unwrap())
            .collect(),
        path: PathPattern::parse(&place[slash..]).unwrap(),
        methods: methods
            .split(',')
            .filter(|m| *m != "*")
            .map(str::to_owned)
            .collect(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

fn build(lines: &[&str]) -> (Table, Vec<Tie>) {
    Table::build(lines.iter().map(|line| rule(line)).collect())
}

/// Returns the route of a request such as `GET a.example/b x=1`.
fn find(table: &Table, line: &str) -> Option<usize> {
    let mut words = line.split(' ');
    let method = words.next().unwrap();
    let place = words.next().unwrap();
    let (host, path) = place.split_at(place.find('/').unwrap());
    let headers: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let has_header = |name: &str, value: &str| {
        let found = headers.get(name);
        found.is_some_and(|found| value.is_empty() || *found == value)
    };
    table.find(&RouteRequest {
        host,
        path: path.as_bytes(),
        method,
        has_header: &has_header,
    })
}

#[test]
fn the_most_specific_route_wins_in_any_order() {
    let mut lines = [
        "* -/*",
        "* -/a/*",
        "* -/a/{x}",
        "* -/a/b",
        "GET -/a/b",
        "GET -/a/b k",
        "GET -/a/b k=1",
        "* *.example/*",
        "* *.shop.example/*",
        "* www.shop.example/*",
    ];
    let rows = [
        ("PUT o/", "* -/*"),
        ("PUT o/a", "* -/a/*"),
        ("PUT o/a/x/y", "* -/a/*"),
        ("PUT o/a/x", "* -/a/{x}"),
        ("PUT o/a/b", "* -/a/b"),
        ("GET o/a/b", "GET -/a/b"),
        ("GET o/a/b k=2", "GET -/a/b k"),
        ("GET o/a/b k=1", "GET -/a/b k=1"),
        ("GET x.example/a/b", "* *.example/*"),
        ("GET example/a/b", "GET -/a/b"),
        ("GET x.shop.example/", "* *.shop.example/*"),
        ("GET y.www.shop.example/", "* *.shop.example/*"),
        ("GET www.shop.example/", "* www.shop.example/*"),
    ];
    for _ in 0..lines.len() {
        let (table, ties) = build(&lines);
        assert!(ties.is_empty());
        for (request, expected) in rows {
            let found = find(&table, request).map(|route| lines[route]);
            assert_eq!(found, Some(expected), "{request}");
        }
        lines.rotate_left(1);
    }
}

#[test]
fn a_request_that_a_host_does_not_serve_goes_to_a_more_general_host() {
    let (table, _) = build(&["* a.example/x", "* *.example/y", "* -/z"]);
    assert_eq!(find(&table, "GET a.example/y"), Some(1));
    assert_eq!(find(&table, "GET a.example/z"), Some(2));
    assert_eq!(find(&table, "GET a.example/other"), None);
}

#[test]
fn connect_is_taken_only_by_a_route_that_names_it() {
    let (table, ties) = build(&["* -/*", "CONNECT -/*"]);
    assert!(ties.is_empty());
    assert_eq!(find(&table, "CONNECT o/"), Some(1));
    assert_eq!(find(&table, "GET o/"), Some(0));
    let (table, _) = build(&["* -/*"]);
    assert_eq!(find(&table, "CONNECT o/"), None);
}

#[test]
fn a_text_that_leads_nowhere_gives_way_to_a_name() {
    let (table, _) = build(&["* -/a/b", "* -/{x}/c", "* -/*"]);
    assert_eq!(find(&table, "GET o/a/c"), Some(1));
    assert_eq!(find(&table, "GET o/a/d"), Some(2));
}

#[test]
fn a_tie_is_found_and_nothing_else() {
    let rows: [(&[&str], bool); 11] = [
        (&["* -/a", "* -/a"], true),
        (&["* -/{x}", "* -/{y}"], true),
        (&["GET -/a", "GET,PUT -/a"], true),
        (&["GET -/a", "PUT -/a"], false),
        (&["GET -/a", "* -/a"], false),
        (&["* -/a k=1", "* -/a k=2"], false),
        (&["* -/a k=1", "* -/a l=1"], true),
        (&["* -/a k=1", "* -/a k"], false),
        (&["* a.example,b.example/a", "* b.example/a"], true),
        (&["* a.example/a", "* *.example/a"], false),
        (&["* a.example,a.example/a"], false),
    ];
    for (lines, expected) in rows {
        let (_, ties) = build(lines);
        assert_eq!(!ties.is_empty(), expected, "{lines:?}");
    }
}

#[test]
fn each_route_has_one_tie_with_the_first_that_it_ties_with() {
    let (_, ties) = build(&["GET -/a", "* b,c/a", "GET -/a", "* c,b/a", "GET -/a"]);
    let ties: Vec<_> = ties.iter().map(|tie| (tie.first, tie.second)).collect();
    assert_eq!(ties, [(0, 2), (1, 3), (0, 4)]);
}

#[test]
fn a_route_is_unreachable_if_others_take_all_its_requests() {
    let rows: [(&[&str], &[usize]); 5] = [
        // `/a/` is left.
        (&["* -/a/*", "* -/a", "* -/a/{x}/*"], &[]),
        (&["* -/a/*", "* -/a", "* -/a/", "* -/a/{x}/*"], &[0]),
        (&["* -/a/*", "* -/a/b"], &[]),
        (&["* *.example/*", "* a.example/*"], &[]),
        (&["* -/a k", "* -/a"], &[]),
    ];
    for (lines, expected) in rows {
        let (table, _) = build(lines);
        let all = 0..lines.len();
        let found: Vec<usize> = all.filter(|route| table.is_unreachable(*route)).collect();
        assert_eq!(found, expected, "{lines:?}");
    }
}
