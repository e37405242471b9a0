//! Frames by line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::LineFrames;

fuzz_target!(|data: &[u8]| {
    tidegate_fuzz::check(|p| p.add("lines", LineFrames::max(16)), data);
});
