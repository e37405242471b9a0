//! The command line.
//!
//! `check` returns 0 if the file can be used, 1 if it has errors, 2 if it cannot be read, or the file to
//! compare it with cannot be used. The files, the variables and the output are arguments, so that a test needs no process.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::config::{
    Asked, Config, ConfigFile, Disk, Loaded, RealDisk, VariableReader, explain, reference,
};
use crate::demo::demo;
use crate::load::{BenchArguments, bench, time};
use crate::plan::Plan;
use crate::serve;
use crate::top::{TopArguments, top};

/// A gateway that no slow service takes down.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Without a command, the demo runs: servers, a gateway in front of them, and load."
)]
struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Ends the demo after this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Reports all mistakes of a configuration.
    Check {
        /// The configuration.
        file: PathBuf,
        /// Shows what a reload changes if this configuration is in force: a line for each listener,
        /// certificate, upstream, route and command that is changed, added or removed, and how many are
        /// kept.
        #[arg(long, value_name = "OLD")]
        against: Option<PathBuf>,
    },
    /// Shows what the gateway does with a request: the route, the command, each setting and the
    /// line it comes from.
    Explain {
        /// The configuration.
        file: PathBuf,
        /// The method of the request.
        method: String,
        /// The URL or the path of the request.
        url: String,
        /// A field of the request, such as `accept: text/html`.
        #[arg(short = 'H', long = "header", value_name = "FIELD")]
        headers: Vec<String>,
    },
    /// Runs the gateway until SIGTERM. SIGHUP reads the configuration again.
    Run {
        /// The configuration.
        file: PathBuf,
    },
    /// Loads a server with requests and measures its responses.
    Bench(BenchArguments),
    /// Shows what a running gateway does: its routes, servers and loops.
    Top(TopArguments),
    /// Prints the reference of all settings.
    Reference,
    /// Prints the manual page, for `man`.
    Man,
    /// Prints the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// The parts of the machine that a command uses.
pub struct Machine {
    /// The files.
    pub disk: Arc<dyn Disk>,
    /// The variables of the environment.
    pub variables: Arc<VariableReader>,
}

impl Machine {
    /// Returns the files and variables of this machine.
    pub fn real() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            variables: Arc::new(|name| std::env::var(name).ok()),
        }
    }

    /// Returns a configuration of this machine.
    fn file(&self, path: &Path) -> ConfigFile {
        ConfigFile::new(path, Arc::clone(&self.disk), Arc::clone(&self.variables))
    }
}

// Prints nothing: variables are secrets.
tidegate_core::debug_fields!(Machine);

/// Runs a command line, the name of the program first.
pub fn run<A>(arguments: A, machine: &Machine, out: &mut dyn Write) -> ExitCode
where
    A: IntoIterator,
    A::Item: Into<OsString> + Clone,
{
    ExitCode::from(status(arguments, machine, out))
}

/// Runs a command line and returns its status.
pub fn status<A>(arguments: A, machine: &Machine, out: &mut dyn Write) -> u8
where
    A: IntoIterator,
    A::Item: Into<OsString> + Clone,
{
    let action = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => match arguments.action {
            Some(action) => action,
            None => return demo(arguments.duration, out),
        },
        Err(help) => {
            let is_mistake = help.use_stderr();
            let (mut stderr, text) = (std::io::stderr(), help.render());
            let _ = match is_mistake {
                true => write!(stderr, "{text}"),
                false => write!(out, "{text}"),
            };
            return if is_mistake { 2 } else { 0 };
        }
    };
    let (text, status) = match action {
        Action::Check { file, against } => check(&file, against.as_deref(), machine),
        Action::Explain {
            file,
            method,
            url,
            headers,
        } => match Asked::new(&method, &url, &headers) {
            Ok(asked) => explained(&file, &asked, machine),
            Err(why) => (format!("{why}\n"), 2),
        },
        // Standard output may be the access log.
        Action::Run { file } => return serve::run(machine.file(&file), &mut std::io::stderr()),
        Action::Bench(arguments) => return bench(&arguments, out),
        Action::Top(arguments) => return top(&arguments, &*machine.variables, out),
        Action::Reference => (reference(), 0),
        Action::Man => (manual(), 0),
        Action::Completions { shell } => (completions(shell), 0),
    };
    // A reader that left early, such as `head`, is not a failure.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    status
}

/// Reads a configuration. Returns the text and status of the command if it cannot be read.
fn read(file: &Path, machine: &Machine) -> Result<Loaded, (String, u8)> {
    machine.file(file).load().map_err(|text| (text, 2))
}

fn check(file: &Path, against: Option<&Path>, machine: &Machine) -> (String, u8) {
    let mut loaded = match read(file, machine) {
        Ok(loaded) => loaded,
        Err(problem) => return problem,
    };
    serve::add_start_mistakes(&mut loaded, &*machine.disk, SystemTime::now());
    let is_usable = !loaded.mistakes.has_errors();
    loaded.config = loaded.config.filter(|_| is_usable);
    let messages = match loaded.mistakes.in_order().is_empty() {
        true => String::new(),
        false => loaded.mistakes.render(&loaded.sources),
    };
    match &loaded.config {
        None => (messages, 1),
        Some(config) => {
            let (routes, upstreams) = (config.routes.len(), config.upstreams.len());
            let name = file.display();
            let summary =
                format!("{name}: can be used; routes: {routes}, upstreams: {upstreams}\n");
            let text = messages + &summary;
            match against.map(|old| differences(old, config, machine)) {
                None => (text, 0),
                Some(Ok(lines)) => (text + &lines, 0),
                Some(Err((problem, status))) => (text + &problem, status),
            }
        }
    }
}

/// Returns what a reload changes if the configuration in a file is in force.
fn differences(old: &Path, new: &Config, machine: &Machine) -> Result<String, (String, u8)> {
    let loaded = read(old, machine)?;
    let Some(before) = &loaded.config else {
        return Err((loaded.mistakes.render(&loaded.sources), 2));
    };
    let lines = Plan::diff(Some(before), new).lines().join("\n");
    Ok(format!("compared with {}:\n{lines}\n", old.display()))
}

fn explained(file: &Path, asked: &Asked, machine: &Machine) -> (String, u8) {
    match read(file, machine) {
        Err(problem) => problem,
        Ok(loaded) => match &loaded.config {
            Some(config) => (explain(config, &loaded.sources, asked), 0),
            None => (loaded.mistakes.render(&loaded.sources), 1),
        },
    }
}

/// Returns the manual page: the program, then each of its commands as a section.
fn manual() -> String {
    let mut program = Arguments::command();
    program.build();
    let mut page = Vec::new();
    let main = Man::new(program.clone()).title("tidegate");
    // Writing to memory cannot fail.
    let _ = main
        .render_title(&mut page)
        .and_then(|()| main.render_name_section(&mut page))
        .and_then(|()| main.render_synopsis_section(&mut page))
        .and_then(|()| main.render_options_section(&mut page));
    for command in program.get_subcommands() {
        if command.get_name() == "help" {
            continue;
        }
        let (man, mut parts) = (Man::new(command.clone()), Vec::new());
        let _ = man
            .render_synopsis_section(&mut parts)
            .and_then(|()| man.render_description_section(&mut parts))
            .and_then(|()| man.render_options_section(&mut parts));
        let parts = String::from_utf8_lossy(&parts).replace("\n.SH ", "\n.SS ");
        let heading = command.get_name().to_ascii_uppercase();
        let _ = write!(page, ".SH TIDEGATE {heading}\n{parts}");
    }
    String::from_utf8_lossy(&page).into_owned()
}

/// Returns the completions of a shell.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tidegate", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    //! All commands and their arguments.

    use clap::CommandFactory as _;

    use super::Arguments;

    /// Returns the names of all arguments, each behind the names of its commands.
    fn arguments(command: &clap::Command, before: &str, all: &mut Vec<String>) {
        let path = format!("{before} {}", command.get_name());
        for one in command.get_arguments() {
            let shown = one.get_long_and_visible_aliases().unwrap_or_default();
            let values = one.get_value_names().unwrap_or_default();
            let values = values.iter().map(|value| value.as_str());
            let names = shown
                .into_iter()
                .chain(values)
                .chain([one.get_id().as_str()]);
            let names: Vec<_> = names.collect();
            all.push(format!("{path}: {}", names.join(" ").to_lowercase()));
        }
        for inner in command.get_subcommands() {
            arguments(inner, &path, all);
        }
    }

    /// Other users of the machine see the arguments of a program. A token comes from a file or from a
    /// variable.
    #[test]
    fn no_argument_is_a_secret() {
        let mut program = Arguments::command();
        program.build();
        let mut all = Vec::new();
        arguments(&program, "", &mut all);
        for known in [" tidegate top: ", " tidegate bench: ", " tidegate run: "] {
            assert!(all.iter().any(|one| one.starts_with(known)), "{all:?}");
        }
        for secret in ["token", "secret", "password", "credential", "auth", "key"] {
            let named: Vec<_> = all.iter().filter(|one| one.contains(secret)).collect();
            assert!(named.is_empty(), "{secret}: {named:?}");
        }
    }
}
