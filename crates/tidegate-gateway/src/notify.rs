//! Notification of the service manager (systemd): the gateway is ready, reloads, ends.

use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard};

use rustix::time::{ClockId, clock_gettime};
use tidegate_core::internal::lock;

/// Tells the service manager about the state of the gateway. Without a service manager, and if it
/// does not listen, nothing happens.
///
/// ```
/// use tidegate_gateway::notify::Notifier;
///
/// let notifier = Notifier::new(std::env::var_os("NOTIFY_SOCKET").as_deref());
/// notifier.ready();
/// notifier.status("routes: 3");
/// ```
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Returns the time by the clock of the service manager, in microseconds.
    now_us: fn() -> u64,
    /// `true` from the moment at which the end has begun. It is locked while a message is sent, so that
    /// nothing overtakes that one.
    is_stopping: Mutex<bool>,
}

impl Notifier {
    /// Creates a notifier from the value of the variable `NOTIFY_SOCKET`: a path, or `@` and a name.
    pub fn new(address: Option<&OsStr>) -> Self {
        Self {
            to: address.and_then(opened),
            now_us: monotonic_us,
            is_stopping: Mutex::default(),
        }
    }

    /// Sets the clock of the service manager, for tests: it returns microseconds. Otherwise it is
    /// `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn with_clock(mut self, now_us: fn() -> u64) -> Self {
        self.now_us = now_us;
        self
    }

    /// Says that all listeners are open, also after a reload. After [`Notifier::stopping`] it says
    /// nothing.
    pub fn ready(&self) {
        self.send_unless_stopping("READY=1");
    }

    /// Says that a reload begins. [`Notifier::ready`] ends it, whether it succeeded or not.
    /// After [`Notifier::stopping`] it says nothing. The message has the time: systemd takes an older one
    /// for another reload than that which it waits for (`Type=notify-reload`).
    pub fn reloading(&self) {
        let now = (self.now_us)();
        self.send_unless_stopping(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// Says that the end has begun.
    pub fn stopping(&self) {
        let mut is_stopping = self.is_stopping();
        *is_stopping = true;
        self.send("STOPPING=1");
    }

    /// Sets the line that `systemctl status` shows. It must not contain a secret.
    pub fn status(&self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.send(&format!("STATUS={line}"));
    }

    /// Sends the state of a gateway that goes on: a reload may end after the end has begun.
    fn send_unless_stopping(&self, message: &str) {
        let is_stopping = self.is_stopping();
        if !*is_stopping {
            self.send(message);
        }
    }

    fn is_stopping(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_stopping)
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.to {
            // A service manager that takes nothing must not delay the gateway.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

tidegate_core::debug_fields!(Notifier, this => is_connected: this.to.is_some());

/// Returns the time since the system has started, as the service manager counts it.
fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec as u64, now.tv_nsec as u64);
    seconds * 1_000_000 + nanos / 1000
}

/// Opens a socket to an address. Returns `None` for what is not one.
fn opened(address: &OsStr) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match address.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(address).ok()?,
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address))
}

#[cfg(test)]
mod tests {
    //! Messages to a service manager that the test plays.

    use std::ffi::OsStr;
    use std::os::unix::net::UnixDatagram;

    use super::Notifier;

    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 128];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    #[test]
    fn each_state_is_a_message() {
        let path = std::env::temp_dir().join(format!("tidegate-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(Some(path.as_os_str())).with_clock(|| 7_000_001);
        notifier.ready();
        notifier.reloading();
        notifier.stopping();
        // A reload that ends now.
        notifier.ready();
        notifier.reloading();
        notifier.status("routes: 3\nREADY=1");
        let messages: Vec<String> = (0..4).map(|_| received(&manager)).collect();
        assert_eq!(
            messages,
            [
                "READY=1",
                "RELOADING=1\nMONOTONIC_USEC=7000001",
                "STOPPING=1",
                "STATUS=routes: 3"
            ]
        );
        drop(manager);
        notifier.ready();
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_without_a_file_begins_with_an_at_sign() {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::SocketAddr;

        let name = format!("tidegate-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        Notifier::new(Some(OsStr::new(&format!("@{name}")))).ready();
        assert_eq!(received(&manager), "READY=1");
    }

    #[test]
    fn without_a_service_manager_nothing_happens() {
        for address in [None, Some(OsStr::new("")), Some(OsStr::new("vsock:2:1"))] {
            let notifier = Notifier::new(address);
            notifier.ready();
            assert!(format!("{notifier:?}").contains("false"));
        }
    }

    /// A manager that does not read: the messages are lost, and the gateway goes on.
    #[test]
    fn a_service_manager_that_reads_nothing_delays_nothing() {
        let path = std::env::temp_dir().join(format!("tidegate-full-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(Some(path.as_os_str()));
        for _ in 0..10_000 {
            notifier.ready();
        }
        assert_eq!(received(&manager), "READY=1");
        std::fs::remove_file(&path).unwrap();
    }
}
