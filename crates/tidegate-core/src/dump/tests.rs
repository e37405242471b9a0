//! The text of a dump, and the limits of its size.

use std::time::Duration;

use super::*;

fn sample() -> Dump {
    let busy = Dump::new("thread", "worker-0")
        .fact("state", "running")
        .fact("task", "report");
    let idle = Dump::new("thread", "worker-10").fact("state", "idle");
    let pool = Dump::new("pool", "workers")
        .fact("state", "open")
        .fact("queue_limit", 65_536_u64)
        .list("threads", 2, [busy, idle])
        .list("leases", 0, []);
    Dump::new("group", "io")
        .child(pool)
        .child(Dump::new("loop", "io-0").fact("age", Duration::from_millis(1500)))
}

#[test]
fn the_text_is_an_aligned_tree() {
    let expected = "\
group io
+- pool workers
|  |  state        open
|  |  queue_limit  65,536
|  +- threads (2)
|  |  +- thread worker-0   state running  task report
|  |  +- thread worker-10  state idle
|  +- leases (0)
+- loop io-0  age 1.5s";
    assert_eq!(sample().to_string(), expected);
}

#[test]
fn the_root_shows_its_facts_below_its_title() {
    let dump = Dump::new("pool", "workers").fact("low", true);
    assert_eq!(dump.to_string(), "pool workers\n   low  yes");
}

#[test]
fn a_list_takes_no_more_items_than_it_shows() {
    let mut asked = 0;
    let items = (0..).map(|n: u32| {
        asked += 1;
        Dump::new("connection", n.to_string())
    });
    let dump = Dump::new("loop", "io-0").list("connections", 10_000, items);
    let list = dump.find("connections").expect("it was added");
    assert_eq!(list.children().len(), Dump::MAX_CHILDREN);
    assert_eq!((list.left_out(), list.total()), (9_900, 10_000));
    assert_eq!(asked, 100);
    assert!(dump.to_string().ends_with("+- and 9,900 more"));
}

#[test]
fn a_tree_has_a_limited_number_of_nodes() {
    let leaves = || (0..100).map(|n: u32| Dump::new("leaf", n.to_string()));
    let branches =
        || (0..100).map(|n: u32| Dump::new("branch", n.to_string()).list("l", 100, leaves()));
    let dump = Dump::new("root", "").list("branches", 100, branches());
    let branches = dump.find("branches").expect("it was added");
    assert!(branches.left_out() > 0 && branches.total() == 100);
    assert!(count(&dump) <= Dump::MAX_NODES);
}

#[test]
fn a_tree_has_a_limited_depth() {
    let mut dump = Dump::new("leaf", "");
    for _ in 0..100_000 {
        dump = Dump::new("node", "").child(dump);
    }
    assert!(depth(&dump) <= 16);
}

#[test]
fn a_name_breaks_neither_the_lines_nor_the_size() {
    let long = "x".repeat(100_000);
    let dump = Dump::new("thread", "a\nb\tc")
        .fact("task", &*long)
        .fact("other", "é\u{7}");
    assert_eq!(dump.name(), "a\\nb\\tc");
    let text = dump.to_string();
    assert_eq!(text.lines().count(), 3);
    assert!(text.len() < 1_000 && text.contains('…'));
    assert!(text.contains("é\\u{7}"));
}

#[test]
fn a_node_has_a_limited_number_of_facts() {
    let mut dump = Dump::new("node", "");
    for _ in 0..1_000 {
        dump = dump.fact("again", 1_u64);
    }
    assert_eq!(dump.facts().len(), 64);
}

/// A program can walk any dump: here one that knows only the two types writes it as JSON.
#[test]
fn a_program_that_knows_no_part_can_walk_a_dump() {
    fn json(dump: &Dump) -> String {
        let facts = dump.facts().iter().map(|(key, value)| match value {
            DumpValue::Count(count) => format!("{key:?}:{count}"),
            DumpValue::Ratio(ratio) => format!("{key:?}:{ratio}"),
            DumpValue::Flag(yes) => format!("{key:?}:{yes}"),
            DumpValue::Time(time) => format!("{key:?}:{}", time.as_secs_f64()),
            DumpValue::Text(text) => format!("{key:?}:{text:?}"),
        });
        let children = dump.children().iter().map(json).collect::<Vec<_>>();
        let head = [
            format!("\"kind\":{:?}", dump.kind()),
            format!("\"name\":{:?}", dump.name()),
        ];
        let tail = format!("\"children\":[{}]", children.join(","));
        let all = head.into_iter().chain(facts).chain([tail]);
        format!("{{{}}}", all.collect::<Vec<_>>().join(","))
    }
    let json = json(&sample());
    assert!(
        json.starts_with("{\"kind\":\"group\",\"name\":\"io\",\"children\":[{\"kind\":\"pool\"")
    );
    assert!(json.contains("\"queue_limit\":65536") && json.contains("\"age\":1.5"));
}

fn count(dump: &Dump) -> usize {
    1 + dump.children().iter().map(count).sum::<usize>()
}

fn depth(dump: &Dump) -> usize {
    1 + dump.children().iter().map(depth).max().unwrap_or(0)
}
