//! The PROXY protocol header; the bytes after it are joined before the comparison.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_net::handlers::ProxyProtocol;

fuzz_target!(|data: &[u8]| {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let join = |size| {
        let seen = tidegate_fuzz::decode(|p| p.add("proxy", ProxyProtocol::new()), data, size);
        let errors = seen.iter().filter(|one| one.is_none()).count();
        (
            seen.into_iter().flatten().flatten().collect::<Vec<u8>>(),
            errors,
        )
    };
    assert_eq!(join(usize::from(size)), join(data.len()));
});
