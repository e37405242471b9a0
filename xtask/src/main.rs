//! `cargo xtask <task>`: reads the arguments and calls the task.
#![forbid(unsafe_code)]

use std::env;
use std::process::{self, Command, ExitCode};

use xtask::step::{self, Outcome};
use xtask::{
    bench, ci, cost, dashboard, deny, features, fuzz, interop, loom, miri, nightly, package, page,
    platforms, root, sanitize, shuttle, tidy, tokio,
};

const USAGE: &str = "\
usage: cargo xtask <task>

  ci                             everything CI runs, in order, until the first failure
  nightly [--minutes N] [part…]  what takes too long for every push, or parts of it: seeds,
                                 loom, shuttle, address, thread, miri, platforms,
                                 package, dashboard, page, fuzz (N minutes for each target, 5 by
                                 default), cost, bench
  tidy                           the rules of the house
  size                           lines of code and of tests by crate, and what else has a limit
  loom [--long] [-- <args>]      model checks: every interleaving within a bound
  shuttle [--long] [-- <args>]   whole loops under schedules, each known by its seed
  sanitize [--long] [-- <args>]  tests under AddressSanitizer and LeakSanitizer (nightly)
  sanitize --thread [-- <args>]  tests under ThreadSanitizer, where nightly has rust-src
  miri [-- <args>]               tests under Miri, where the toolchain has it
  deny                           bans, licences and sources of the dependencies (cargo-deny)
  features [--long]              each library without default features, and the facade with each
                                 feature alone; --long: each library with each feature alone
  platforms                      clippy for Windows, musl, Arm and Apple, where installed
  package [--verify]             the packages of a release; --verify also compiles them
  fuzz                           checks the fuzz targets
  bench                          checks the benchmarks, without running them
  tokio                          the examples beside tokio: axum, tonic, reqwest
  interop [--long] [PART...]     our servers and third-party programs, or the checks with such names
  dashboard                      our stream in the page of the Hystrix dashboard, by Chromium
  page [--debug|--long]          the page of the gateway, by Chromium; --debug as CI does; --long
                                 measures it, too
  cost [isolate|echo|http|client|proxy]
                                 instructions per task and promise, per guarded call, per message of
                                 servers, per request of servers, clients or the gateway, by callgrind

<args> go to the test program, for example the name of one test.
";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    run_in_clean_environment(&args);
    match run(&args) {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Skipped(why)) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program again, and exits with its code, if `cargo run` has set the variables of its
/// package. Build scripts of dependencies read variables of the same names: cargo would build
/// `ring`, and all that needs it, again in place of what `cargo test` has built.
fn run_in_clean_environment(args: &[String]) -> Option<()> {
    env::var_os("CARGO_MANIFEST_DIR")?;
    let mut again = Command::new(env::current_exe().ok()?);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            again.env_remove(&name);
        }
    }
    let status = again.args(args).status().ok()?;
    process::exit(status.code().unwrap_or(1))
}

fn run(args: &[String]) -> step::Result {
    let (own, rest) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[][..]),
    };
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let root = root::find()?;
    match own.as_slice() {
        ["ci"] => ci::run(&root),
        ["nightly", args @ ..] => nightly::run(&root, args),
        ["tidy"] => tidy::run(&root),
        ["size"] => tidy::size(&root),
        ["loom"] => loom::run(&root, false, rest),
        ["loom", "--long"] => loom::run(&root, true, rest),
        ["shuttle"] => shuttle::run(&root, false, rest),
        ["shuttle", "--long"] => shuttle::run(&root, true, rest),
        ["sanitize"] => sanitize::run(&root, false, rest),
        ["sanitize", "--long"] => sanitize::run(&root, true, rest),
        ["sanitize", "--thread"] => sanitize::thread(&root, rest),
        ["miri"] => miri::run(&root, rest),
        ["deny"] => deny::run(&root),
        ["features"] => features::run(&root, false),
        ["features", "--long"] => features::run(&root, true),
        ["platforms"] => platforms::run(&root),
        ["package"] => package::run(&root, false),
        ["package", "--verify"] => package::run(&root, true),
        ["fuzz"] => fuzz::check(&root),
        ["bench"] => bench::check(&root),
        ["tokio"] => tokio::run(&root),
        ["interop", only @ ..] if only.first() != Some(&"--long") => {
            interop::run(&root, false, only)
        }
        ["interop", "--long", only @ ..] => interop::run(&root, true, only),
        ["dashboard"] => dashboard::run(&root),
        ["page"] => page::run(&root, page::Form::Release),
        ["page", "--debug"] => page::run(&root, page::Form::Debug),
        ["page", "--long"] => page::run(&root, page::Form::Long),
        ["cost"] => cost::run(&root, "tasks"),
        ["cost", what] => cost::run(&root, what),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(Outcome::Passed)
        }
        other => Err(format!("no task `{}`\n\n{USAGE}", other.join(" "))),
    }
}
