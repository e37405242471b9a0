//! Frames by delimiter, with delimiters that the input chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::DelimiterFrames;

const SETS: [&[&str]; 4] = [
    &["||", ";"],
    &["\n", "\r\n"],
    &["abab"],
    &["abc", "bc", "|"],
];

fuzz_target!(|data: &[u8]| {
    let Some((&set, data)) = data.split_first() else {
        return;
    };
    let delimiters = SETS[usize::from(set) % SETS.len()];
    let frames = || {
        let frames = DelimiterFrames::new(delimiters.iter().copied(), 16);
        frames.expect("delimiters that can be found")
    };
    tidegate_fuzz::check(|p| p.add("frames", frames()), data);
});
