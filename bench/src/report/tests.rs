//! Tests of the quartiles, the ratios and the table.

use super::{Better, Heading, Quartiles, Ratio, Role, Row, Sample, Table, figure};

fn row(name: &str, role: Role, values: &[f64]) -> Row {
    let sample = |&value: &f64| Sample { value, side: None };
    Row {
        name: name.to_owned(),
        role,
        samples: values.iter().map(sample).collect(),
    }
}

fn table(better: Better, rows: Vec<Row>) -> Table {
    Table {
        heading: Heading {
            title: "handoff".to_owned(),
            unit: "Mtask/s",
            better,
            side: None,
            ratios: vec![
                Ratio::new("x", Role::Peer),
                Ratio::new("x_inline", Role::Inline),
            ],
        },
        rows,
        others: Some(0.01),
    }
}

#[test]
fn quartiles_interpolate_between_adjacent_values() {
    let q = Quartiles::of([4.0, 1.0, 3.0, 2.0]).expect("there are values");
    assert_eq!((q.low, q.median, q.high), (1.75, 2.5, 3.25));
    let q = Quartiles::of([5.0, 1.0, 3.0, 2.0, 4.0]).expect("there are values");
    assert_eq!((q.low, q.median, q.high), (2.0, 3.0, 4.0));
    let q = Quartiles::of([7.0]).expect("there is a value");
    assert_eq!((q.low, q.median, q.high), (7.0, 7.0, 7.0));
    assert_eq!(Quartiles::of([]), None);
}

#[test]
fn noise_is_the_spread_over_the_median() {
    let q = |low, high| Quartiles {
        low,
        median: 2.0,
        high,
    };
    assert!(!q(1.9, 2.1).is_noisy());
    assert!(q(1.8, 2.2).is_noisy());
}

#[test]
fn a_ratio_compares_round_by_round_with_the_best_peer_of_the_whole_run() {
    // Peer `b` wins single rounds, peer `a` has the better median: every round is compared with
    // `a`.
    let rows = vec![
        row("ours", Role::Ours, &[10.0, 20.0, 30.0]),
        row("a", Role::Peer, &[5.0, 5.0, 5.0]),
        row("b", Role::Peer, &[9.0, 1.0, 1.0]),
    ];
    let table = table(Better::More, rows);
    assert_eq!(table.ratio_lines(), ["RATIO x 4.000 3.000 5.000 noisy"]);
}

#[test]
fn a_cost_is_turned_round_so_that_more_is_better() {
    let rows = vec![
        row("a", Role::Peer, &[150.0, 150.0, 150.0]),
        row("b", Role::Peer, &[300.0, 300.0, 300.0]),
        row("floor", Role::Floor, &[1.0, 1.0, 1.0]),
        row("ours", Role::Ours, &[100.0, 100.0, 100.0]),
    ];
    let table = table(Better::Less, rows);
    assert_eq!(table.ratio_lines(), ["RATIO x 1.500 1.500 1.500"]);
}

#[test]
fn closures_and_fixed_messages_are_compared_apart() {
    let rows = vec![
        row("ours", Role::Ours, &[30.0]),
        row("a", Role::Peer, &[10.0]),
        row("a", Role::Inline, &[20.0]),
    ];
    let lines = table(Better::More, rows).ratio_lines();
    assert_eq!(
        lines,
        [
            "RATIO x 3.000 3.000 3.000",
            "RATIO x_inline 1.500 1.500 1.500"
        ]
    );
}

#[test]
fn there_is_no_ratio_without_ours_or_without_a_peer() {
    let peers = vec![row("a", Role::Peer, &[10.0])];
    assert!(table(Better::More, peers).ratio_lines().is_empty());
    let ours = vec![row("ours", Role::Ours, &[10.0])];
    assert!(table(Better::More, ours).ratio_lines().is_empty());
}

#[test]
fn the_columns_of_a_table_are_aligned() {
    let rows = vec![
        row("kanal", Role::Peer, &[1.0, 2.0, 3.0]),
        row("a much longer name", Role::Inline, &[12345.6]),
    ];
    let text = table(Better::More, rows).render();
    let expected = "\
handoff [Mtask/s, more is better]
  contestant          role       median        low       high
  kanal               peer        2.000      1.500      2.500
  a much longer name  inline      12346      12346      12346
";
    assert_eq!(text, expected);
}

#[test]
fn figures_keep_four_digits() {
    assert_eq!(figure(0.1234), "0.123");
    assert_eq!(figure(12.346), "12.35");
    assert_eq!(figure(123.46), "123.5");
    assert_eq!(figure(9876.4), "9876");
}

#[test]
fn roles_have_names_that_read_back() {
    for role in [Role::Ours, Role::Peer, Role::Inline, Role::Floor] {
        assert_eq!(Role::parse(role.name()), Some(role));
    }
    assert_eq!(Role::parse("judge"), None);
}
