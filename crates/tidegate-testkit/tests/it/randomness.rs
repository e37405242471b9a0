//! The generator, and the seed from the environment.

use std::env;
use std::process::{Command, Output};

use tidegate_testkit::{Rng, SEED_VARIABLE, model};

/// Set in the child processes of these tests, whose bodies then behave differently.
const CHILD: &str = "TIDEGATE_TESTKIT_CHILD";

/// Runs one test of this file in a separate process, with a seed.
fn rerun(test: &str, seed: &str) -> Output {
    let this_program = env::current_exe().expect("a test knows its program");
    Command::new(this_program)
        .args(["--exact", &format!("randomness::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .env(SEED_VARIABLE, seed)
        .output()
        .expect("a test program can be started again")
}

fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

#[test]
fn one_seed_is_one_sequence() {
    let mut first = Rng::new(7);
    let mut second = Rng::new(7);
    let mut other = Rng::new(8);
    let drawn = [0; 8].map(|_| first.next_u64());
    assert_eq!(drawn, [0; 8].map(|_| second.next_u64()));
    assert_ne!(drawn, [0; 8].map(|_| other.next_u64()));
    assert_eq!(first.seed(), 7);
}

#[test]
fn numbers_below_n_are_all_reached_and_none_other() {
    let mut rng = Rng::new(1);
    let mut seen = [0; 5];
    for _ in 0..5_000 {
        seen[rng.index(5)] += 1;
    }
    assert!(seen.iter().all(|times| (800..1_200).contains(times)));
    assert_eq!(rng.below(1), 0);
    assert!(rng.below(u64::MAX) < u64::MAX);
}

#[test]
#[should_panic(expected = "there is no number below zero to draw")]
fn nothing_is_below_zero() {
    Rng::new(1).below(0);
}

#[test]
fn a_chance_of_nothing_and_of_everything_is_certain() {
    let mut rng = Rng::new(1);
    for _ in 0..1_000 {
        assert!(!rng.chance(0.0));
        assert!(rng.chance(1.0));
    }
}

#[test]
fn a_shuffle_reaches_every_order() {
    let mut rng = Rng::new(1);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..6_000 {
        let mut order = [0, 1, 2];
        rng.shuffle(&mut order);
        *seen.entry(order).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.values().all(|times| (800..1_200).contains(times)));
    rng.shuffle::<u8>(&mut []);
}

#[test]
fn a_fork_is_repeated_by_the_seed_of_its_parent() {
    let draw = |seed| Rng::new(seed).fork().next_u64();
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn the_environment_replaces_the_seed() {
    if is_child() {
        assert_eq!(Rng::seed_from_env_or(1).seed(), 77);
        let mut ran = Vec::new();
        model(0..10, |rng| ran.push(rng.seed()));
        assert_eq!(ran, [77]);
        return;
    }
    let output = rerun("the_environment_replaces_the_seed", "0x4D");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_panic_names_the_seed() {
    if is_child() {
        let rng = Rng::seed_from_env_or(1);
        panic!("on purpose, with seed {}", rng.seed());
    }
    let output = rerun("a_panic_names_the_seed", "77");
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("to repeat this: TIDEGATE_SEED=77"),
        "{errors}"
    );
}
