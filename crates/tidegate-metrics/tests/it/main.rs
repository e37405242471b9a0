//! What the exporter writes, read by a strict parser and by `promtool`; what the event streams
//! write, read as JSON.

mod export;
mod hostile;
mod parser;
mod promtool;
mod streams;
