//! A pseudo-terminal with a program in it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

/// A program in a pseudo-terminal.
pub(crate) struct Terminal {
    user: File,
    /// Held, so that the terminal stays when the program ends.
    program: File,
    pub(crate) child: Child,
    before: Termios,
    pub(crate) seen: String,
}

impl Terminal {
    /// Starts a program in a terminal with so many columns.
    pub(crate) fn start(arguments: &[&str], columns: u16) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        // Otherwise a test that leads its session gets the terminal, and ends with it.
        let program = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(NO_CONTROL)
            .open(name.to_str().unwrap())
            .unwrap();
        let user = File::from(user);
        let mut terminal = Size(&user);
        terminal.set(columns);
        let before = tcgetattr(&program).unwrap();
        let end = || Stdio::from(program.try_clone().unwrap());
        // The terminal becomes that of the program, so that a typed Ctrl-C is a signal.
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            user,
            program,
            child,
            before,
            seen: String::new(),
        }
    }

    /// Changes the number of columns.
    pub(crate) fn resize(&mut self, columns: u16) {
        Size(&self.user).set(columns);
    }

    /// Types keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the program has printed a text after what was read before.
    pub(crate) fn until(&mut self, text: &str) {
        let from = self.seen.len();
        while !self.seen[from..].contains(text) {
            let mut bytes = [0; 4096];
            let count = self.user.read(&mut bytes).unwrap();
            assert!(count > 0, "no {text:?} in {:?}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Reads until the program has ended. The terminal must be as it was before.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut user = self.user.try_clone().unwrap();
        // The end of the program does not end the reads while this test holds its side.
        let (status, rest) = std::thread::scope(|scope| {
            let rest = scope.spawn(move || {
                let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
                while !all.ends_with(END) {
                    let count = user.read(&mut bytes).unwrap();
                    all.extend_from_slice(&bytes[..count]);
                }
                all
            });
            let status = self.child.wait().unwrap();
            self.program.write_all(END).unwrap();
            (status, rest.join().unwrap())
        });
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        let after = tcgetattr(&self.program).unwrap();
        let modes = |terminal: &Termios| (terminal.local_modes, terminal.input_modes);
        assert_eq!(modes(&after), modes(&self.before));
        assert!(
            after
                .local_modes
                .contains(LocalModes::ECHO | LocalModes::ICANON)
        );
        status
    }
}

/// `O_NOCTTY`
const NO_CONTROL: i32 = 0o400;
/// What the test writes behind the output of the program.
const END: &[u8] = b"<the end of the program>";

struct Size<'a>(&'a File);

impl Size<'_> {
    fn set(&mut self, columns: u16) {
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(self.0, size).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
