//! Calibration: the cost of hand-offs on this machine, before any comparison.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::work::{burn, units_per_micro};
use crate::cpus::pin;

/// Number of round trips of each kind.
const TRIPS: u64 = 20_000;
/// Below this time, in nanoseconds, the two CPUs share a core or a cache.
const SHARED_NS: f64 = 50.0;

/// Returns the figures as text.
pub(crate) fn report() -> String {
    let mut text = String::from("calibration\n");
    let line = line_ns();
    let verdict = if line < SHARED_NS {
        "the CPUs share a core or a cache: the cost of moving data (X) is about nothing here"
    } else {
        "separate cores: moving data costs something"
    };
    let mut say = |what: &str, ns: f64, remark: &str| {
        writeln!(text, "  {what:34} {ns:9.0} ns  {remark}")
            .expect("writing to a String cannot fail");
    };
    say("a cache line there and back, half", line, verdict);
    say("park and unpark, half a round (W)", park_ns(), "");
    let units = units_per_micro();
    let began = Instant::now();
    burn(units * 1_000);
    say(
        "1 µs of work takes",
        began.elapsed().as_nanos() as f64 / 1_000.0,
        "",
    );
    for cache in caches() {
        writeln!(text, "  {cache}").expect("writing to a String cannot fail");
    }
    text
}

/// Returns half of the round-trip time of one cache line between two CPUs.
fn line_ns() -> f64 {
    let ball = Arc::new(AtomicU64::new(0));
    let other = {
        let ball = Arc::clone(&ball);
        thread::spawn(move || {
            pin(1);
            for trip in 0..TRIPS {
                while ball.load(Ordering::Acquire) != 2 * trip + 1 {
                    std::hint::spin_loop();
                }
                ball.store(2 * trip + 2, Ordering::Release);
            }
        })
    };
    let here = thread::spawn(move || {
        pin(0);
        let began = Instant::now();
        for trip in 0..TRIPS {
            ball.store(2 * trip + 1, Ordering::Release);
            while ball.load(Ordering::Acquire) != 2 * trip + 2 {
                std::hint::spin_loop();
            }
        }
        began.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64
    });
    other.join().expect("it does not panic");
    here.join().expect("it does not panic")
}

/// Returns half of the round-trip time of two threads that wake each other.
fn park_ns() -> f64 {
    let flag = Arc::new(AtomicBool::new(false));
    let trips = TRIPS / 10;
    let main = thread::current();
    let other = {
        let flag = Arc::clone(&flag);
        thread::spawn(move || {
            for _ in 0..trips {
                while !flag.swap(false, Ordering::AcqRel) {
                    thread::park();
                }
                main.unpark();
            }
        })
    };
    let began = Instant::now();
    for trip in 0..trips {
        flag.store(true, Ordering::Release);
        other.thread().unpark();
        while trip + 1 < trips && flag.load(Ordering::Acquire) {
            thread::park();
        }
    }
    other.join().expect("it does not panic");
    began.elapsed().as_nanos() as f64 / (2 * trips) as f64
}

/// Returns what the system reports about the caches of the first CPU.
fn caches() -> Vec<String> {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let read = |index: usize, what: &str| {
        let text = fs::read_to_string(format!("{folder}/index{index}/{what}"));
        text.map(|text| text.trim().to_owned()).ok()
    };
    (0..8)
        .map_while(|index| {
            let (level, kind) = (read(index, "level")?, read(index, "type")?);
            let (size, shared) = (read(index, "size")?, read(index, "shared_cpu_list")?);
            Some(format!("L{level} {kind}: {size}, shared by CPUs {shared}"))
        })
        .collect()
}
