//! The `tidegate` binary.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tidegate_gateway::cli::{self, Machine};

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    cli::run(std::env::args_os(), &Machine::real(), &mut out)
}
