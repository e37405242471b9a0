//! Calls on a thread bulkhead: its limits, the settings of the pool, its queue and its counters.

mod bounds;
mod figures;
mod producers;
mod queue;
mod settings;
