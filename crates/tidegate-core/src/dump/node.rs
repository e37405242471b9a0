//! A node of a dump.
//!
//! # Invariants
//!
//! * A node has at most [`MAX_FACTS`] facts and [`Dump::MAX_CHILDREN`] children.
//! * A tree has at most [`Dump::MAX_NODES`] nodes on [`MAX_DEPTH`] levels.
//! * What does not fit is counted in the node where it is missing.

use super::value::{DumpValue, clean};

/// The maximum number of facts of a node.
const MAX_FACTS: usize = 64;
/// The maximum number of levels. Walking and dropping a tree is recursive.
const MAX_DEPTH: usize = 16;

/// The state of a part at one moment, as a tree: a loop, a pool, a connection.
///
/// A node has a kind (`"pool"`), a name (`"workers"`), facts (`queued`: 3) and children. `Display`
/// prints the tree for people. A program walks it without knowing the parts: kinds and keys are
/// stable, and each value has a type ([`DumpValue`]).
///
/// The size of a dump is limited, however large the part is. A node that could not take all of its
/// children says how many are missing ([`Dump::left_out`]).
///
/// ```
/// use tidegate_core::Dump;
///
/// let threads = (0..250).map(|n| Dump::new("thread", format!("worker-{n}")).fact("state", "idle"));
/// let dump = Dump::new("pool", "workers").fact("queued", 3_u64).list("threads", 250, threads);
///
/// assert_eq!(dump.get("queued").and_then(|queued| queued.as_count()), Some(3));
/// let threads = dump.find("threads").expect("it was listed");
/// assert_eq!((threads.children().len(), threads.left_out()), (100, 150));
/// assert!(dump.to_string().ends_with("+- and 150 more"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a dump is only a value; print it or keep it"]
pub struct Dump {
    kind: &'static str,
    name: String,
    facts: Vec<(&'static str, DumpValue)>,
    children: Vec<Self>,
    left_out: u64,
    /// The number of nodes of this tree, and of its levels.
    nodes: usize,
    depth: usize,
}

impl Dump {
    /// The maximum number of children of a node.
    pub const MAX_CHILDREN: usize = 100;
    /// The maximum number of nodes of a dump.
    pub const MAX_NODES: usize = 10_000;

    /// Creates a node without facts and children. A part of which its parent has only one, such as
    /// a list, has an empty name.
    pub fn new(kind: &'static str, name: impl AsRef<str>) -> Self {
        Self {
            kind,
            name: clean(name.as_ref()),
            facts: Vec::new(),
            children: Vec::new(),
            left_out: 0,
            nodes: 1,
            depth: 1,
        }
    }

    /// Adds a fact. Facts keep their order; more than 64 of them are ignored.
    pub fn fact(mut self, key: &'static str, value: impl Into<DumpValue>) -> Self {
        if self.facts.len() < MAX_FACTS {
            self.facts.push((key, value.into()));
        }
        self
    }

    /// Adds a fact if there is a value.
    pub fn fact_if(self, key: &'static str, value: Option<impl Into<DumpValue>>) -> Self {
        match value {
            Some(value) => self.fact(key, value),
            None => self,
        }
    }

    /// Adds a child, or counts it as left out if the node or the tree would become too large.
    pub fn child(mut self, child: Self) -> Self {
        self.add(child);
        self
    }

    /// Adds a child if there is one.
    pub fn child_if(self, child: Option<Self>) -> Self {
        match child {
            Some(child) => self.child(child),
            None => self,
        }
    }

    /// Adds a child called `kind` that lists the first items of `items`. `total` is the number of
    /// items that exist; those that are not listed are counted as left out. Takes no more items
    /// than it lists.
    pub fn list(
        self,
        kind: &'static str,
        total: usize,
        items: impl IntoIterator<Item = Self>,
    ) -> Self {
        let mut list = Self::new(kind, "");
        for item in items.into_iter().take(Self::MAX_CHILDREN) {
            list.add(item);
        }
        let known = list.children.len() as u64 + list.left_out;
        list.left_out += (total as u64).saturating_sub(known);
        self.child(list)
    }

    /// Counts `more` children that are not listed.
    pub fn leave_out(mut self, more: u64) -> Self {
        self.left_out = self.left_out.saturating_add(more);
        self
    }

    fn add(&mut self, child: Self) {
        let fits = self.children.len() < Self::MAX_CHILDREN
            && self.nodes + child.nodes <= Self::MAX_NODES
            && child.depth < MAX_DEPTH;
        if !fits {
            self.left_out += 1;
            return;
        }
        self.nodes += child.nodes;
        self.depth = self.depth.max(child.depth + 1);
        self.children.push(child);
    }

    /// Returns the kind of the part: the same word for all parts of that kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the name of the part; empty if it needs none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the facts, in their order.
    pub fn facts(&self) -> &[(&'static str, DumpValue)] {
        &self.facts
    }

    /// Returns the value of a fact.
    pub fn get(&self, key: &str) -> Option<&DumpValue> {
        let found = self.facts.iter().find(|(one, _)| *one == key);
        found.map(|(_, value)| value)
    }

    /// Returns the children that are listed.
    pub fn children(&self) -> &[Self] {
        &self.children
    }

    /// Returns the first child of this kind.
    pub fn find(&self, kind: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.kind == kind)
    }

    /// Returns the number of children that exist and are not listed.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of children, listed or not.
    pub fn total(&self) -> u64 {
        self.children.len() as u64 + self.left_out
    }
}
