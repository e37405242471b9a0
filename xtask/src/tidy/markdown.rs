//! Reads the subset of Markdown that the checks need: prose, code spans, table rows.

/// Returns the lines outside fenced blocks, with their numbers, counted from one.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((i + 1, line))
    })
}

/// Returns the contents of the code spans of one line.
pub(super) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the trimmed cells of a table row, or `None` if the line is not a row.
pub(super) fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.trim().strip_prefix('|')?;
    let inside = inside.strip_suffix('|').unwrap_or(inside);
    // A bar inside a cell is written with a backslash.
    let unescaped = inside.replace("\\|", "\u{0}");
    let cells = unescaped.split('|');
    Some(
        cells
            .map(|cell| cell.trim().replace('\u{0}', "|"))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_leaves_out_fenced_blocks() {
        let lines: Vec<_> = prose("a\n```rust\nb\n```\nc").collect();
        assert_eq!(lines, [(1, "a"), (5, "c")]);
    }

    #[test]
    fn code_spans_are_what_is_between_backticks() {
        let spans: Vec<_> = code_spans("`Wheel` and `Heap`, not Map").collect();
        assert_eq!(spans, ["Wheel", "Heap"]);
    }

    #[test]
    fn cells_may_hold_an_escaped_bar() {
        assert_eq!(
            cells("| a | b \\| c |"),
            Some(vec!["a".into(), "b | c".into()])
        );
        assert_eq!(cells("prose"), None);
    }
}
