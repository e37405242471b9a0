//! Frames by delimiter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::DelimiterFrames;

fuzz_target!(|data: &[u8]| {
    let frames = || DelimiterFrames::new(["||", ";"], 16).expect("two delimiters");
    tidegate_fuzz::check(|p| p.add("frames", frames()), data);
});
