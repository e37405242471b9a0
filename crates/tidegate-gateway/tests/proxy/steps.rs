//! Steps that the tests of several files share.

use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::*;

/// A child process has copies of all sockets until its program begins: one that is closed here meanwhile
/// still listens.
static FORKS: RwLock<()> = RwLock::new(());

/// Keeps other tests from starting processes. For tests that rely on a socket that is closed.
pub(crate) fn no_forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

/// Runs a process to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::piped());
    spawn(quiet.stderr(Stdio::piped()))
        .wait_with_output()
        .unwrap()
}

/// Runs the program on a file. Returns what it says and its status.
pub(crate) fn program(action: &str, file: &Path) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = output(command.arg(action).arg(file));
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8(said).unwrap(), output.status.code())
}

/// Returns the sections of one route to `back`, and of an upstream `other` for its fallback.
pub(crate) fn with_other(back: &Upstream, other: &Upstream, settings: &str) -> String {
    let (text, other) = (route(&[back], settings), other.address());
    format!("{text}[upstream.other]\nservers = \"{other}\"\n")
}

/// Sends a request that is served. Returns both ends, which are used by the next one.
pub(crate) fn serve_first(fixture: &Fixture, back: &Upstream) -> (Peer, Peer) {
    let (mut client, mut server) = fixture.reach(GET, back);
    server.serve(OK);
    assert_eq!(client.message().body, "ok");
    (client, server)
}

/// Sends a request that is served, on connections of its own: the loop has done all that was before.
pub(crate) fn pass(fixture: &Fixture, back: &Upstream) {
    let mut client = fixture.send(&GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    back.accept().serve(OK_CLOSE);
    assert_eq!(client.message().body, "ok");
}

/// Connects to a listener.
pub(crate) fn connect(fixture: &Fixture, name: &str) -> Peer {
    let addresses = fixture.gateway.addresses();
    let found = addresses.iter().find(|(own, _)| own == name);
    fixture.connect(&found.unwrap().1)
}

/// More than a gateway and the memory of the systems take while nobody reads.
pub(crate) const ENDLESS: usize = 512 << 20;

/// Writes until nothing more is taken, however often the loop turns, or `ENDLESS` bytes are written.
/// Returns how many.
pub(crate) fn write_until_stalled(fixture: &Fixture, peer: &mut Peer) -> usize {
    let (mut written, mut turns) = (0, 0);
    let bytes = [b'x'; 1 << 16];
    peer.0.set_nonblocking(true);
    while written < ENDLESS && turns < 20 {
        match peer.0.write(&bytes[..bytes.len().min(ENDLESS - written)]) {
            Ok(count) => (written, turns) = (written + count, 0),
            Err(why) => {
                assert_eq!(why.kind(), io::ErrorKind::WouldBlock, "{why}");
                // The loop has nothing left to do.
                fixture.clock.settle();
                fixture.in_one_turn(|| ());
                turns += 1;
            }
        }
    }
    peer.0.set_nonblocking(false);
    written
}

/// Reads so many bytes of a body of `write_until_stalled`.
pub(crate) fn take(peer: &mut Peer, mut count: usize) {
    let mut memory = vec![0; 1 << 16];
    while count > 0 {
        let most = count.min(memory.len());
        let read = peer.0.read(&mut memory[..most]);
        let read = read.unwrap_or_else(|why| panic!("{count} bytes do not come: {why}"));
        assert!(read > 0 && memory[..read].iter().all(|byte| *byte == b'x'));
        count -= read;
    }
}
