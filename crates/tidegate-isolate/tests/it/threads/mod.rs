//! Calls on threads of their own: their bounds, the settings of the pool, its queue and its figures.

mod bounds;
mod figures;
mod producers;
mod queue;
mod settings;
