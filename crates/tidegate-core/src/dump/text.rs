//! A dump as text: an indented tree.
//!
//! A node with children is a title, one line for each fact, and its children. Children without
//! children of their own are rows of a table: one line each, with their facts in columns.

use std::fmt::{self, Write as _};

use super::node::Dump;
use super::value::grouped;

/// A node with more facts than this is not printed in one line.
const MAX_ROW: usize = 10;

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut indent = String::new();
        f.write_str(&title(self))?;
        write_inside(f, self, &mut indent)
    }
}

/// Writes the facts and the children of `node`, each on a line that begins with `indent`.
fn write_inside(f: &mut fmt::Formatter<'_>, node: &Dump, indent: &mut String) -> fmt::Result {
    let has_children = node.total() > 0;
    let bar = if has_children { "|  " } else { "   " };
    let width = node.facts().iter().map(|(key, _)| width(key)).max();
    for (key, value) in node.facts() {
        write!(f, "\n{indent}{bar}{key:0$}  {value}", width.unwrap_or(0))?;
    }
    let table = Table::of(node);
    let (mut left, more) = (node.children().len(), node.left_out());
    for child in node.children() {
        left -= 1;
        if is_row(child) {
            write!(f, "\n{indent}+- {}", table.row(child))?;
            continue;
        }
        write!(f, "\n{indent}+- {}", title(child))?;
        let outer = indent.len();
        let is_last = left == 0 && more == 0;
        indent.push_str(if is_last { "   " } else { "|  " });
        write_inside(f, child, indent)?;
        indent.truncate(outer);
    }
    if more > 0 {
        write!(f, "\n{indent}+- and {} more", grouped(more))?;
    }
    Ok(())
}

fn title(node: &Dump) -> String {
    let (kind, name) = (node.kind(), node.name());
    match name {
        "" if node.facts().is_empty() => format!("{kind} ({})", grouped(node.total())),
        "" => kind.to_owned(),
        name => format!("{kind} {name}"),
    }
}

/// Returns `true` if the node is printed in one line.
fn is_row(node: &Dump) -> bool {
    node.total() == 0 && node.facts().len() <= MAX_ROW
}

/// The columns of the children that are printed in one line each.
#[derive(Default)]
struct Table {
    title: usize,
    /// The keys in the order in which they first appear, and the width of their values.
    columns: Vec<(&'static str, usize)>,
}

impl Table {
    fn of(node: &Dump) -> Self {
        let mut table = Self::default();
        for child in node.children().iter().filter(|child| is_row(child)) {
            table.title = table.title.max(width(&title(child)));
            for (key, value) in child.facts() {
                let wide = width(&value.to_string());
                match table.columns.iter_mut().find(|(one, _)| one == key) {
                    Some((_, widest)) => *widest = wide.max(*widest),
                    None => table.columns.push((*key, wide)),
                }
            }
        }
        table
    }

    fn row(&self, child: &Dump) -> String {
        let mut row = format!("{:1$}", title(child), self.title);
        for &(key, widest) in &self.columns {
            let _ = match child.get(key) {
                Some(value) => write!(row, "  {key} {value:widest$}"),
                None => write!(row, "  {:1$}", "", width(key) + 1 + widest),
            };
        }
        row.truncate(row.trim_end().len());
        row
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}
