//! The table of routes: finds the most specific route of a request without an allocation.
//!
//! Hosts come first: the exact name, then the longest wildcard, then the routes without a host. A
//! host whose routes do not fit leaves the request to the next one. Within a host, a tree of
//! segments is walked: a text before `{name}` before `/*`, at each segment. At the end of a path,
//! the routes with methods and fields come first.
//!
//! Invariant: no request fits two routes of the same rank. [`Table::build`] reports such ties.

use std::collections::HashMap;

use super::host::HostPattern;
use super::path::{PathPattern, Segment};
use super::request::RouteRequest;
use super::rule::Rule;

/// The routes of a gateway. A route is known by its position in the list of rules.
#[derive(Clone, Default)]
pub struct Table {
    rules: Vec<Rule>,
    exact: HashMap<String, Tree>,
    below: HashMap<String, Tree>,
    any: Tree,
}

/// Two routes that fit the same requests, and neither is more specific. Each route has at most one tie with
/// those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The position of the first route.
    pub first: usize,
    /// The position of the second route.
    pub second: usize,
}

/// The paths of one host.
#[derive(Clone, Default)]
struct Tree {
    /// By the text of the next segment.
    texts: HashMap<Box<[u8]>, Tree>,
    /// For any next segment.
    any: Option<Box<Tree>>,
    /// The routes that end here, the most specific first.
    ends: Vec<usize>,
    /// The routes that end here or below, the most specific first.
    opens: Vec<usize>,
}

impl Table {
    /// Builds a table. Returns it with the ties; a table with ties must not be used.
    pub fn build(rules: Vec<Rule>) -> (Self, Vec<Tie>) {
        let mut table = Self::default();
        let mut ties = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            if rule.hosts.is_empty() {
                table.any.add(index, &rule.path, &rules, &mut ties);
            }
            for host in &rule.hosts {
                let tree = match host {
                    HostPattern::Exact(name) => table.exact.entry(name.clone()).or_default(),
                    HostPattern::Below(name) => table.below.entry(name.clone()).or_default(),
                };
                tree.add(index, &rule.path, &rules, &mut ties);
            }
        }
        ties.sort_unstable_by_key(|tie| (tie.second, tie.first));
        ties.dedup_by_key(|tie| tie.second);
        table.rules = rules;
        (table, ties)
    }

    /// Returns the position of the most specific route of a request.
    pub fn find(&self, request: &RouteRequest<'_>) -> Option<usize> {
        let in_tree = |tree: Option<&Tree>| tree.and_then(|tree| self.walk(tree, request));
        if let Some(found) = in_tree(self.exact.get(request.host)) {
            return Some(found);
        }
        let mut rest = request.host;
        while !self.below.is_empty()
            && let Some((label, name)) = rest.split_once('.')
        {
            // A wildcard stands for at least one label that is not empty.
            if !label.is_empty()
                && let Some(found) = in_tree(self.below.get(name))
            {
                return Some(found);
            }
            rest = name;
        }
        in_tree(Some(&self.any))
    }

    /// Returns the rules, in the order in which they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns `true` if no request reaches a route, because more specific ones take all of its
    /// requests.
    ///
    /// The requests tried are the general ones of the route: each `{name}`, each wildcard and each
    /// missing condition has a value that no rule names. Only other general rules fit such a
    /// value, so if none of these requests reaches the route, none can. Paths with an empty segment
    /// before the last one are not tried.
    pub fn is_unreachable(&self, route: usize) -> bool {
        let rule = &self.rules[route];
        let hosts: Vec<String> = match rule.hosts.is_empty() {
            true => vec![FRESH.to_owned()],
            false => rule.hosts.iter().map(general_host).collect(),
        };
        let methods = match rule.methods.as_slice() {
            [] => vec![FRESH],
            all => all.iter().map(String::as_str).collect(),
        };
        let has_header = |name: &str, value: &str| {
            let ours = rule.headers.get(name);
            ours.is_some_and(|ours| value.is_empty() || ours == value)
        };
        let paths = self.general_paths(&rule.path);
        let reaches = |host: &str, path: &str, method: &str| {
            let request = RouteRequest {
                host,
                path: path.as_bytes(),
                method,
                has_header: &has_header,
            };
            self.find(&request) == Some(route)
        };
        !hosts.iter().any(|host| {
            let on_host = |path: &String| methods.iter().any(|method| reaches(host, path, method));
            paths.iter().any(on_host)
        })
    }

    /// Returns the general paths of a pattern: for `/*`, one for each number of further segments
    /// up to one more than any rule has.
    fn general_paths(&self, pattern: &PathPattern) -> Vec<String> {
        let mut path = String::new();
        for segment in pattern.segments() {
            path.push('/');
            path.push_str(match segment {
                Segment::Text(text) => text,
                Segment::Any(_) => FRESH,
            });
        }
        let longest = self
            .rules
            .iter()
            .map(|rule| rule.path.segments().len())
            .max();
        let further = match pattern.is_open() {
            true => longest.unwrap_or(0) + 1,
            false => 0,
        };
        let mut paths = vec![path.clone()];
        for _ in 0..further {
            // An empty segment is what no `{name}` contains.
            paths.push(format!("{path}/"));
            path.push('/');
            path.push_str(FRESH);
            paths.push(path.clone());
        }
        paths.retain(|path| !path.is_empty());
        paths
    }

    /// Finds the most specific route of a host.
    fn walk(&self, tree: &Tree, request: &RouteRequest<'_>) -> Option<usize> {
        let path = request.path;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        tree.walk(Some(path), &|routes: &[usize]| {
            let mut fitting = routes.iter().copied();
            fitting.find(|route| self.rules[*route].fits(request))
        })
    }
}

// Prints the number of routes only: their texts may be the values of variables.
tidegate_core::debug_fields!(Table, this => routes: this.rules.len());

/// A text that no rule contains, because a control character is refused there.
const FRESH: &str = "\u{1}";

/// Returns a host of a pattern that no rule names.
fn general_host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Below(name) => format!("{FRESH}.{name}"),
    }
}

impl Tree {
    /// Adds a route at the end of its path, behind the more specific ones.
    fn add(&mut self, route: usize, path: &PathPattern, rules: &[Rule], ties: &mut Vec<Tie>) {
        let mut tree = self;
        for segment in path.segments() {
            tree = match segment {
                Segment::Text(text) => tree.texts.entry(text.as_bytes().into()).or_default(),
                Segment::Any(_) => tree.any.get_or_insert_default().as_mut(),
            };
        }
        let routes = match path.is_open() {
            true => &mut tree.opens,
            false => &mut tree.ends,
        };
        let rule = &rules[route];
        // A route may name a host twice.
        let others = routes.iter().copied().filter(|other| *other != route);
        let tied = others.filter(|other| rules[*other].ties_with(rule));
        // One is enough: the same mistake in many routes has as many messages as routes.
        let tie = tied.min().map(|first| Tie {
            first,
            second: route,
        });
        ties.extend(tie);
        let before = routes.partition_point(|other| rules[*other].rank() >= rule.rank());
        routes.insert(before, route);
    }

    /// Walks down the segments and passes lists of routes to `pick`, the most specific first, until
    /// it picks a route. `rest` is what follows a slash; `None` at the end of the path.
    fn walk(
        &self,
        rest: Option<&[u8]>,
        pick: &impl Fn(&[usize]) -> Option<usize>,
    ) -> Option<usize> {
        if self.texts.is_empty() && self.any.is_none() && self.ends.is_empty() {
            // Whatever follows: the routes of all paths end here.
            return pick(&self.opens);
        }
        let found = match rest {
            Some(rest) => {
                let slash = rest.iter().position(|byte| *byte == b'/');
                let (segment, rest) = match slash {
                    Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
                    None => (rest, None),
                };
                let text = self.texts.get(segment);
                let any = self.any.as_deref().filter(|_| !segment.is_empty());
                let mut trees = text.into_iter().chain(any);
                trees.find_map(|tree| tree.walk(rest, pick))
            }
            None => pick(&self.ends),
        };
        found.or_else(|| pick(&self.opens))
    }
}
