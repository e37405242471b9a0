//! What the exporter writes, read by a strict parser and by `promtool`.

mod export;
mod parser;
mod promtool;
