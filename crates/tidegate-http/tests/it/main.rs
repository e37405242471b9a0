//! Tests of the codec through its public names. Every message of a table is also split at every byte
//! and into one-byte pieces.

mod accepted;
mod bodies;
#[expect(unreachable_pub, reason = "the fuzz targets include the file")]
mod connection;
mod encoding;
#[expect(unreachable_pub, reason = "the fuzz targets include the file")]
mod events;
mod limits;
mod patching;
mod random;
mod refused;
mod responses;
