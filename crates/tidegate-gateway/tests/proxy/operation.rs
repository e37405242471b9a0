//! A gateway in operation, with its listener for operators.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate::isolate::Properties;
use tidegate_gateway::access::AccessLog;
use tidegate_gateway::config::{ConfigFile, VariableReader};
use tidegate_gateway::notify::Notifier;
use tidegate_gateway::serve::{Operation, OperationParts};
use tidegate_gateway::{Reports, Resolver};

use crate::*;

/// Files that a test writes.
#[derive(Default)]
pub(crate) struct Files(Mutex<BTreeMap<PathBuf, String>>);

impl Files {
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.0.lock().unwrap().insert(path.into(), text.to_owned());
    }
}

impl Disk for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let found = self.0.lock().unwrap().get(path).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A gateway in operation, on a clock that the test moves.
pub(crate) struct World {
    pub(crate) operation: Operation,
    pub(crate) files: Arc<Files>,
    pub(crate) clock: ManualClock,
    pub(crate) parts: OperationParts,
    log: Memory,
}

/// The access log in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a configuration with both listeners. The token for changes is `full-token`.
pub(crate) fn operated(text: &str) -> String {
    format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n\
         [listen.admin]\nat = \"127.0.0.1:0\"\ntoken = \"${{TOKEN}}\"\n{text}"
    )
}

/// Returns the value of a variable. Each contains `marker`, which no output may show.
fn variable(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("full-token".to_owned()),
        "SECRET" => Some("marker-variable".to_owned()),
        _ => None,
    }
}

impl World {
    pub(crate) fn new(text: &str) -> Self {
        Self::with(operated(text))
    }

    pub(crate) fn with(text: String) -> Self {
        Self::with_resolver(text, Resolver::system())
    }

    pub(crate) fn with_resolver(text: String, resolver: Resolver) -> Self {
        Self::made(text, resolver, None, 1).unwrap()
    }

    /// Makes a gateway that calls `before` each time that it reads a variable.
    pub(crate) fn with_reader(text: &str, before: impl Fn() + Send + Sync + 'static) -> Self {
        let read = move |name: &str| {
            before();
            variable(name)
        };
        let parts = (Resolver::system(), None, 1);
        Self::made_with(operated(text), parts, Arc::new(read)).unwrap()
    }

    /// Makes a gateway whose wall clock starts at this time after 1970, and follows the other one.
    pub(crate) fn starting_at(text: String, start: Duration) -> Self {
        Self::made(text, Resolver::system(), Some(start), 1).unwrap()
    }

    /// Makes a gateway with so many loops for requests.
    pub(crate) fn with_loops(text: String, loops: usize) -> Self {
        Self::made(text, Resolver::system(), None, loops).unwrap()
    }

    fn made(
        text: String,
        resolver: Resolver,
        start: Option<Duration>,
        loops: usize,
    ) -> Result<Self, String> {
        Self::made_with(text, (resolver, start, loops), Arc::new(variable))
    }

    fn made_with(
        text: String,
        (resolver, start, loops): (Resolver, Option<Duration>, usize),
        variable: Arc<VariableReader>,
    ) -> Result<Self, String> {
        let files = Arc::new(Files::default());
        files.write("/tidegate.toml", &text);
        let clock = ManualClock::new();
        let group = |name: &str, loops: usize| group(name, loops, Wires::Local, &clock);
        let mut reports = Reports::new((&clock).into());
        if let Some(start) = start {
            let clock = tidegate::Clock::from(&clock);
            let since = move || Duration::from_nanos(clock.nanos());
            reports.wall = Arc::new(move || std::time::SystemTime::UNIX_EPOCH + start + since());
        }
        let log = Memory::default();
        let (lines, problems) = (log.clone(), Arc::clone(&reports.problems));
        let open = Box::new(move || Ok(Box::new(lines.clone()) as Box<_>));
        reports.log = AccessLog::start_with(open, &config("").log, loops, problems).ok();
        let properties = Properties::new();
        let isolation = Isolation::builder().properties(properties.clone());
        let parts = OperationParts {
            group: group("gateway", loops),
            own: group("operate", 1),
            isolation: isolation.clock(&clock).build().unwrap(),
            properties,
            reports,
            resolver,
            notifier: Arc::new(Notifier::new(None)),
        };
        let disk = Arc::clone(&files) as Arc<dyn Disk>;
        let file = ConfigFile::new("/tidegate.toml", disk, variable);
        let operation = Operation::start(file, parts.clone())?;
        Ok(Self {
            operation,
            files,
            clock,
            parts,
            log,
        })
    }

    /// Waits for so many lines of the access log, and returns them.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        tidegate_testkit::until_some("the lines are written", || {
            let text = String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Waits for so many lines of the access log, and returns the last of them.
    pub(crate) fn line(&self, count: usize) -> String {
        self.lines(count).swap_remove(count - 1)
    }

    /// Makes a gateway with one route to these servers.
    pub(crate) fn with_route(servers: &[&Upstream], settings: &str) -> Self {
        Self::new(&route(servers, settings))
    }

    /// Makes a server, and a gateway with one route to it.
    pub(crate) fn of(settings: &str) -> (Upstream, Self) {
        let back = Upstream::new();
        let world = Self::with_route(&[&back], settings);
        (back, world)
    }

    /// Replaces the file.
    pub(crate) fn write(&self, text: &str) {
        self.files.write("/tidegate.toml", text);
    }

    /// Replaces the file, with which a reload fails. Returns the reason.
    #[track_caller]
    pub(crate) fn reload_fails(&self, text: &str) -> String {
        self.write(text);
        self.operation.reload("test").unwrap_err()
    }

    /// Replaces the file, which is read again.
    #[track_caller]
    pub(crate) fn reload(&self, origin: &str, text: &str) {
        self.write(text);
        self.operation.reload(origin).unwrap();
    }

    pub(crate) fn address(&self, listener: &str) -> String {
        let addresses = self.operation.addresses();
        let mut own = addresses.into_iter().filter(|(name, _)| name == listener);
        own.next().unwrap().1
    }

    /// Connects to a listener.
    pub(crate) fn connect(&self, listener: &str) -> Peer {
        Peer::new(Wires::Local.connect(self.address(listener)).unwrap())
    }

    /// Returns `true` if nothing listens there.
    pub(crate) fn refuses(&self, listener: &str) -> bool {
        Wires::Local.connect(self.address(listener)).is_err()
    }

    /// Advances time second by second.
    pub(crate) fn pass_seconds(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
        }
    }

    /// Waits until the loop of requests has done what came before.
    pub(crate) fn pass_the_loop(&self) {
        let refused = self.send(&GET.replace("/a", "/%zz")).message();
        assert_eq!(refused.status(), "400");
    }

    /// Sends a request to the listener for operators, and returns the connection.
    pub(crate) fn operator(&self, line: &str, fields: &str, body: &str) -> Peer {
        let mut peer = self.connect("admin");
        let length = body.len();
        peer.write(&format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
        ));
        peer
    }

    /// Reads an endpoint without a token.
    pub(crate) fn get(&self, path: &str) -> Message {
        self.operator(&format!("GET {path}"), "", "").message()
    }

    /// Changes something with the token for changes.
    pub(crate) fn change(&self, line: &str, body: &str) -> Message {
        let fields = "Authorization: Bearer full-token\r\n";
        self.operator(line, fields, body).message()
    }

    /// Reads the file again, which is refused. Returns what the operator gets.
    #[track_caller]
    pub(crate) fn refuses_to_reload(&self) -> String {
        let refused = self.change("POST /api/reload", "");
        assert_eq!(refused.status(), "422", "{refused:?}");
        refused.body
    }

    /// Changes something, which is done.
    #[track_caller]
    pub(crate) fn order(&self, line: &str) {
        assert_eq!(self.change(line, "").status(), "200");
    }

    /// Returns what the last change was, and its origin.
    pub(crate) fn last_change(&self) -> (String, String) {
        let change = self.parts.reports.events.latest().swap_remove(0);
        (change.origin, change.what)
    }
}

impl Serves for World {
    fn client(&self) -> Peer {
        self.connect("http")
    }

    fn isolation(&self) -> &Isolation {
        &self.parts.isolation
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}
