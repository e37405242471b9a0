//! Lines of text with aligned columns.

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

    use super::aligned;

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
}
