//! The command line: suites and options, parsed by hand.

use crate::pingpong::Case;
use crate::proof::Proof;
use crate::rounds::Settings;

/// The help text.
pub(crate) const HELP: &str = "\
usage: tidegate-bench SUITE [--quick] [--rounds N] [--only a,b]
       tidegate-bench proof [--seconds N] [--only a,b]

suites
  handoff    1, 2 and 4 producers into one loop, million tasks a second
  pingpong   two loops, ns per hop, on two CPUs and on one
  promise    create + listen + complete, 100,000 outstanding, blocking wait
  timer      a million timers: add, cancel, reset, fire, memory, lateness
  strategy   execution strategies: folklore, equal threads, late hand-over
  pool       submit + run + result on four threads: round trip, and with 64 in flight
  isolate    guarded calls, refusals, round trips and throughput of a thread bulkhead
  echo       64-byte messages over TCP: server CPU time per message, fairness, idle memory
  hyper      hyper and axum on our loop and on tokio: server CPU time per request, idle memory
  http       HTTP servers: server CPU time, requests/s, p99, system calls, idle memory
  client     HTTP clients: client CPU time per request; admission, relay, reuse of connections
  proxy      our gateway beside nginx, haproxy and pingora: requests/s, waits, CPU time, memory
  page       `tidegate bench` beside wrk: requests/s, agreement; what open pages cost a gateway
  all        all of them

proof runs the gateway under load and fails if it breaks a promise: isolation (one of four
upstreams hangs, one fails), reload (every 200 ms), drain (SIGTERM)

options
  --quick         fewer rounds, under two minutes a suite
  --rounds N      measured rounds (at least 5 with --quick)
  --only a,b      only contestants whose name contains one of these
  --table a,b     only tables whose title contains one of these; x+y means both
  --seconds N     the length of each run of proof; 60 unless it is set
  --help          this text

output: tables (median, low and high quartile), then lines
  RATIO <name> <median> <low> <high> [noisy]
by what factor ours is better than the peer with the best median, round by round.";

/// One of the suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Throughput of submitting tasks.
    Handoff,
    /// Latency of a hop between two loops.
    Pingpong,
    /// Cost of a promise.
    Promise,
    /// Execution strategies.
    Strategy,
    /// Cost of a job on a thread pool.
    Pool,
    /// Server CPU time for a message over TCP.
    Echo,
    /// Cost of a timer.
    Timer,
    /// Cost of isolation.
    Isolate,
    /// Server CPU time for a request of hyper's servers.
    Hyper,
    /// Our HTTP server and its peers.
    Http,
    /// Our HTTP client and its peers.
    Client,
    /// Our gateway and its peers.
    Proxy,
    /// Our load generator and its peer, and the page of the gateway.
    Page,
}

impl Suite {
    /// Returns the name of the suite on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Handoff => "handoff",
            Suite::Pingpong => "pingpong",
            Suite::Promise => "promise",
            Suite::Strategy => "strategy",
            Suite::Pool => "pool",
            Suite::Echo => "echo",
            Suite::Timer => "timer",
            Suite::Isolate => "isolate",
            Suite::Hyper => "hyper",
            Suite::Http => "http",
            Suite::Client => "client",
            Suite::Proxy => "proxy",
            Suite::Page => "page",
        }
    }

    const ALL: [Suite; 13] = [
        Suite::Handoff,
        Suite::Pingpong,
        Suite::Promise,
        Suite::Timer,
        Suite::Strategy,
        Suite::Pool,
        Suite::Isolate,
        Suite::Echo,
        Suite::Hyper,
        Suite::Http,
        Suite::Client,
        Suite::Proxy,
        Suite::Page,
    ];
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print the help text.
    Help,
    /// Run these suites.
    Run(Vec<Suite>, Settings),
    /// Run one case of the ping-pong in this process, which is a child process.
    Case(Case, Settings),
    /// Serve in this process, which is a child process.
    Serve(String),
    /// Hold connections, or generate load, in this process, which is a child process.
    Idle(String),
    /// Serve in this process while its instructions are counted.
    CostServer(String),
    /// Run as the client of such a server.
    CostClient(String),
    /// Make HTTP requests as the parent process directs.
    Call(String),
    /// Run the gateway in this process, which is a child process.
    Gateway(String),
    /// Run a command of `tidegate` in this process, which is a child process.
    Tidegate(String),
    /// Run the gateway under load.
    Prove(Proof),
}

/// Parses the arguments, without the program's name.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut settings = Settings::default();
    let mut suites = Vec::new();
    let mut case = None;
    let (mut proves, mut seconds) = (false, 60);
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = |what: &str| args.next().ok_or(format!("{arg} needs {what} after it"));
        match arg.as_str() {
            "--help" | "-h" | "help" => return Ok(Command::Help),
            "--quick" => settings.quick = true,
            "--rounds" => settings.rounds = Some(parse_rounds(&value("a number")?)?),
            "--only" => {
                let names = value("names, separated by commas")?;
                settings.only = names.split(',').map(str::to_owned).collect();
            }
            "--table" => {
                let names = value("parts of titles, separated by commas")?;
                settings.tables = names.split(',').map(str::to_owned).collect();
            }
            "--case" => {
                let name = value("2cpu or 1cpu")?;
                case = Some(Case::parse(&name).ok_or(format!("there is no case {name:?}"))?);
            }
            "--serve" => return Ok(Command::Serve(value("the name of a server")?)),
            "--idle" => return Ok(Command::Idle(value("`hold` or `load` with their numbers")?)),
            "--cost" => return Ok(Command::CostServer(value("a server and rounds")?)),
            "--client" => return Ok(Command::CostClient(value("an address and rounds")?)),
            "--call" => return Ok(Command::Call(value("a client and an address")?)),
            "--gateway" => return Ok(Command::Gateway(value("a number and a file")?)),
            "--tidegate" => return Ok(Command::Tidegate(value("a command and its arguments")?)),
            "--seconds" => seconds = parse_seconds(&value("a number")?)?,
            "proof" => proves = true,
            "all" => suites.extend(Suite::ALL),
            name => match Suite::ALL.into_iter().find(|suite| suite.name() == name) {
                Some(suite) => suites.push(suite),
                None => return Err(format!("{name:?} is neither a suite nor an option")),
            },
        }
    }
    if proves {
        return Ok(Command::Prove(Proof {
            seconds,
            only: settings.only,
        }));
    }
    match case {
        Some(case) => Ok(Command::Case(case, settings)),
        None if suites.is_empty() => Err("name a suite".to_owned()),
        None => Ok(Command::Run(suites, settings)),
    }
}

/// Returns the options as arguments for a child process.
pub(crate) fn arguments(settings: &Settings) -> Vec<String> {
    let mut arguments = Vec::new();
    if settings.quick {
        arguments.push("--quick".to_owned());
    }
    if let Some(rounds) = settings.rounds {
        arguments.extend(["--rounds".to_owned(), rounds.to_string()]);
    }
    if !settings.only.is_empty() {
        arguments.extend(["--only".to_owned(), settings.only.join(",")]);
    }
    if !settings.tables.is_empty() {
        arguments.extend(["--table".to_owned(), settings.tables.join(",")]);
    }
    arguments
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=10_000) => Ok(rounds),
        _ => Err(format!(
            "--rounds takes a number from 1 to 10000, not {text:?}"
        )),
    }
}

fn parse_seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(seconds),
        _ => Err(format!(
            "--seconds takes a number from 1 to 3600, not {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn reads_a_suite_with_options() {
        let Ok(Command::Run(suites, settings)) =
            words("handoff --quick --rounds 7 --only kanal,std")
        else {
            panic!("this is a valid command line");
        };
        assert_eq!(suites, [Suite::Handoff]);
        assert!(settings.quick);
        assert_eq!(settings.rounds, Some(7));
        assert_eq!(settings.only, ["kanal", "std"]);
    }

    #[test]
    fn a_child_gets_the_same_options() {
        let settings = Settings {
            quick: true,
            rounds: Some(6),
            span: None,
            only: vec!["a".to_owned(), "b c".to_owned()],
            tables: vec!["one loop".to_owned()],
        };
        let case = ["--case".to_owned(), "1cpu".to_owned()];
        let parsed = parse(case.into_iter().chain(arguments(&settings)));
        let Ok(Command::Case(case, read)) = parsed else {
            panic!("this is a valid command line");
        };
        assert_eq!(case, Case::Pinned);
        assert_eq!(read, settings);
    }

    #[test]
    fn the_help_lists_every_suite_and_no_other() {
        let (_, suites) = HELP.split_once("suites\n").expect("there is a list");
        let (suites, _) = suites.split_once("\n\n").expect("it ends");
        let listed = suites.lines().map(|line| line.split_whitespace().next());
        let known = Suite::ALL.into_iter().map(|suite| Some(suite.name()));
        assert!(listed.eq(known.chain([Some("all")])));
    }

    #[test]
    fn reads_a_proof_with_its_length() {
        let Ok(Command::Prove(proof)) = words("proof --seconds 5 --only drain") else {
            panic!("this is a valid command line");
        };
        assert_eq!(
            (proof.seconds, &proof.only[..]),
            (5, &["drain".to_owned()][..])
        );
        assert!(words("proof --seconds 0").is_err());
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(words("").is_err());
        assert!(words("handof").is_err());
        assert!(words("handoff --rounds").is_err());
        assert!(words("handoff --rounds 0").is_err());
        assert!(words("pingpong --case 3cpu").is_err());
    }
}
