//! Sources of the user's own under each strategy.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::time::Duration;

use tidegate_core::{Blocking, Task};
use tidegate_loop::{Quiet, ShutdownError};
use tidegate_net::source::{Interest, SourceContext, SourceHandle};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Rng, rounds, until};

use super::*;
use crate::{Echo, dial, round_trip, serve};

/// A pipe that blocks: a source that were selected without a reason would never return.
fn counts_bytes(
    group: &NetGroup<Roaming>,
    kind: Blocking,
    bytes: &Counter,
) -> (SourceHandle, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let (bytes, inside) = (bytes.clone(), Counter::new());
    let selected = move |at: &SourceContext<'_, PipeReader>| {
        let (pipe, bytes) = (Arc::clone(at.descriptor()), bytes.clone());
        let (inside, before) = (inside.clone(), inside.count());
        Some(Task::of(kind, move || {
            assert_eq!(inside.count(), before, "one task at a time");
            if pipe.as_ref().read(&mut [0]).unwrap() == 1 {
                bytes.hit();
            }
            inside.hit();
        }))
    };
    let reactor = group.next_reactor();
    let source = reactor.register("pipe", reader, Interest::READ, selected);
    (source.wait().unwrap(), writer)
}

#[test]
fn each_strategy_runs_the_tasks_of_sources_while_interests_change() {
    let mut rng = Rng::seed_from_env_or(17);
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let (bytes, writes) = (Counter::new(), rounds(300));
        for blocking in [Blocking::Never, Blocking::Adapts, Blocking::May] {
            let mut pipes: Vec<_> = (0..4)
                .map(|_| counts_bytes(&group, blocking, &bytes))
                .collect();
            let before = bytes.count();
            for _ in 0..writes {
                let (source, writer) = &mut pipes[rng.index(4)];
                writer.write_all(b"x").unwrap();
                if rng.chance(0.5) {
                    source.set_interests(Interest::NONE).unwrap();
                }
                if rng.chance(0.5) {
                    source.set_interests(Interest::READ).unwrap();
                }
            }
            for (source, _) in &pipes {
                source.set_interests(Interest::READ).unwrap();
            }
            bytes.wait_for(before + writes as u64);
            for (source, _) in pipes {
                source.close().wait().unwrap();
            }
            assert_eq!(bytes.count(), before + writes as u64, "{kind:?}");
        }
        assert!(group.reactors()[0].sources().is_empty());
    }
}

#[test]
fn under_strategies_that_hand_over_a_task_that_blocks_stops_nothing_else() {
    for kind in HAND_OVER {
        let (_pool, group) = roaming_with(kind, 4);
        let server = serve(&group, |p| p.add("echo", Echo));
        let mut client = dial(&server);
        let bytes = Counter::new();
        let (_source, mut other) = counts_bytes(&group, Blocking::May, &bytes);
        let (begun, gate) = (Gate::new(), Gate::new());
        let (held, mut writer) = holds(&group, &begun, &gate);
        writer.write_all(b"x").unwrap();
        begun.wait();
        assert_eq!(round_trip(&mut client, b"hello"), b"hello", "{kind:?}");
        other.write_all(b"abc").unwrap();
        bytes.wait_for(3);
        assert_eq!(group.next_reactor().update(|_| 7).wait().unwrap(), 7);
        gate.open();
        held.close().wait().unwrap();
    }
}

/// Registers a source whose task waits for `gate`.
fn holds(group: &NetGroup<Roaming>, begun: &Gate, gate: &Gate) -> (SourceHandle, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let (begun, gate) = (begun.clone(), gate.clone());
    let selected = move |at: &SourceContext<'_, PipeReader>| {
        let (pipe, begun, gate) = (Arc::clone(at.descriptor()), begun.clone(), gate.clone());
        Some(Task::new(move || {
            begun.open();
            gate.wait();
            pipe.as_ref().read_exact(&mut [0]).unwrap();
        }))
    };
    let reactor = group.next_reactor();
    let held = reactor.register("held", reader, Interest::READ, selected);
    (held.wait().unwrap(), writer)
}

#[test]
fn a_loop_that_passes_its_deadline_names_the_source_whose_task_holds_it() {
    let (_pool, group, clock) = roaming_by(Kind::Eager, 4);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (held, mut writer) = holds(&group, &begun, &gate);
    writer.write_all(b"x").unwrap();
    begun.wait();
    let end = group.shutdown(Quiet::none(Duration::from_secs(1)));
    until("its source is closed", || held.is_closed());
    clock.advance(Duration::from_secs(1));
    let Err(WaitError::Failed(ShutdownError::Stuck { cut, .. })) = end.wait() else {
        panic!("a task still runs");
    };
    assert_eq!(cut, ["held"]);
    gate.open();
}

#[test]
fn sources_that_are_closed_while_they_are_busy_lose_nothing() {
    for kind in KINDS {
        for round in 0..rounds(10) {
            let (_pool, group) = roaming_with(kind, 4);
            let (begun, ended, dropped) = (Counter::new(), Counter::new(), Counter::new());
            let mut kept = Vec::new();
            for _ in 0..8 {
                let (reader, mut writer) = io::pipe().unwrap();
                let alive = tidegate_testkit::DropCount::new(&dropped);
                let (begins, ends) = (begun.clone(), ended.clone());
                let selected = move |at: &SourceContext<'_, PipeReader>| {
                    let _ = &alive;
                    begins.hit();
                    let (ends, source) = (ends.clone(), at.handle().clone());
                    Some(Task::new(move || {
                        drop(source.close());
                        ends.hit();
                    }))
                };
                let reactor = group.next_reactor();
                let source = reactor.register("pipe", reader, Interest::READ, selected);
                writer.write_all(b"x").unwrap();
                if round % 2 == 0 {
                    drop(source.wait().unwrap().close());
                }
                kept.push(writer);
            }
            let end = group.shutdown(Quiet::none(Duration::from_secs(60)));
            end.wait().unwrap();
            assert_eq!(begun.count(), ended.count(), "{kind:?}: each task has run");
            assert_eq!(dropped.count(), 8, "{kind:?}: each source is dropped, once");
        }
    }
}

#[test]
fn the_task_of_a_source_does_not_wait_for_the_end_of_its_own_group() {
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let (reader, mut writer) = io::pipe().unwrap();
        let (refused, mine) = (Gate::new(), group.clone());
        let opens = refused.clone();
        let ends = move |_: &SourceContext<'_, PipeReader>| {
            let (group, refused) = (mine.clone(), opens.clone());
            Some(Task::new(move || {
                let ended = group.shutdown(Quiet::none(Duration::MAX)).wait();
                if ended.is_err_and(|error| error.is_refused()) {
                    refused.open();
                }
            }))
        };
        let reactor = group.next_reactor();
        let source = reactor.register("pipe", reader, Interest::READ, ends);
        source.wait().unwrap();
        writer.write_all(b"x").unwrap();
        refused.wait();
        group.shutdown(Quiet::none(Duration::MAX)).wait().unwrap();
    }
}
