//! Frames of a fixed size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::FixedFrames;

fuzz_target!(|data: &[u8]| {
    let frames = || FixedFrames::of(7).expect("not zero");
    tidegate_fuzz::check(|p| p.add("frames", frames()), data);
});
