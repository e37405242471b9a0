//! Decoding of bytes as UTF-8 text.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidegate_net::EmbeddedChannel;
use tidegate_net::handlers::Strings;

fuzz_target!(|data: &[u8]| {
    let assemble = |p: tidegate_net::PipelineBuilder| p.add_duplex("strings", Strings::utf8());
    let mut channel = EmbeddedChannel::new(assemble).expect("the chain fits");
    channel.write_inbound(Bytes::copy_from_slice(data));
    let text = channel.read_inbound::<String>();
    assert_eq!(text, String::from_utf8(data.to_vec()).ok());
});
