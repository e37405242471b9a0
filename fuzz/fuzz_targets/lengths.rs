//! Frames with a length field, whose layout the input chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::{LengthField, LengthFrames};

fuzz_target!(|data: &[u8]| {
    let Some((&[offset, size, adjust, strip], data)) = data.split_first_chunk() else {
        return;
    };
    let field = LengthField {
        offset: usize::from(offset % 8),
        size: [1, 2, 3, 4, 8][usize::from(size % 5)],
        little_endian: size >= 128,
        adjust: i64::from(adjust.cast_signed()),
        strip: usize::from(strip % 16),
    };
    let frames = || LengthFrames::new(field, 64).expect("a size that is one of five");
    tidegate_fuzz::check(|p| p.add("frames", frames()), data);
});
