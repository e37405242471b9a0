//! A whole connection of a server without a socket, with a service that responds in every way: the
//! pieces change neither the calls nor the responses, and the responses are those to the requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::connection;

fuzz_target!(|data: &[u8]| {
    if let Some((&size, data)) = data.split_first() {
        connection::check(data, usize::from(size));
    }
});
