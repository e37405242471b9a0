//! Tidegate beside tokio. The programs are in the files beside this one.
//!
//! | name | what it shows |
//! |---|---|
//! | `axum_on_loops` | an `axum::Router` on event loops, with a handler that uses reqwest |
//! | `axum_shop` | axum and reqwest: three dependencies behind commands, one of them hangs, under load |
//! | `tonic_shop` | tonic: a bulkhead for each method, and deadlines from `grpc-timeout` |
