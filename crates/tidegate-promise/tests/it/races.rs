//! Races with real threads.
