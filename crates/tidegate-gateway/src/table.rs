//! Tables of text with aligned columns.

use std::fmt;

/// A table of three columns with a heading.
pub(crate) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    pub(crate) fn new(heading: [&str; 3]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned)],
        }
    }

    pub(crate) fn row(&mut self, cells: [String; 3]) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.max().unwrap_or(0)
        };
        let (first, second) = (width(0), width(1));
        let mut before = "";
        for (at, [part, done, came]) in self.rows.iter().enumerate() {
            let shown = if part == before { "" } else { part };
            writeln!(f, "{shown:<first$}  {done:<second$}  {came}")?;
            if at == 0 {
                writeln!(f, "{}", "-".repeat(first + second + width(2) + 4))?;
            }
            before = part;
        }
        Ok(())
    }
}

/// Returns one line for each row. Columns are two spaces apart, and no line ends with a space.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    //! Tests of the column alignment.

    use super::{Table, aligned};

    #[test]
    fn rows_of_any_length_line_up() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = [
            row(&["a", "b"]),
            row(&["long", "é", "c"]),
            row(&[]),
            row(&["x"]),
        ];
        assert_eq!(aligned(&rows), ["a     b", "long  é  c", "", "x"]);
        assert!(aligned(&[]).is_empty());
    }

    #[test]
    fn columns_line_up_and_a_repeated_part_is_shown_once() {
        let mut table = Table::new(["part", "done", "came"]);
        table.row(["a".into(), "long thing".into(), "1".into()]);
        table.row(["a".into(), "b".into(), "2".into()]);
        let lines: Vec<String> = table.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "part  done        came");
        assert_eq!(lines[2], "a     long thing  1");
        assert_eq!(lines[3], "      b           2");
    }
}
