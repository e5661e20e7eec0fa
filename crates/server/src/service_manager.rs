//! Messages to the service manager that started the process: systemd's protocol `sd_notify`.
//!
//! ```text
//! STATUS=opening …  ─►  READY=1  ─►  STOPPING=1, STATUS=waiting for …
//! ```
//!
//! The service manager names a datagram socket in `NOTIFY_SOCKET`; each datagram is lines of
//! `KEY=value`. Without the variable nothing is sent.
//!
//! Holds always:
//! - `READY=1` is sent once, when the database is open and every port is served.
//! - A service manager that cannot be told is a warning: the process serves all the same.

use std::ffi::OsString;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tracing::warn;

/// The variable that names the socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Longest wait for a service manager that does not read: the caller waits meanwhile.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The service manager that has started this process, if it named a socket.
#[derive(Default)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl ServiceManager {
    /// Returns the service manager that the environment names.
    pub(crate) fn of_environment() -> Self {
        let Some(name) = std::env::var_os(SOCKET_VARIABLE) else {
            return Self::default();
        };
        let socket = open(&name).inspect_err(|error| {
            warn!(socket = ?name, %error, "cannot tell the service manager when this is ready");
        });
        Self {
            socket: socket.ok(),
        }
    }

    /// Shows `text` as the status of the service.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", on_one_line(text)));
    }

    /// Says that requests are answered.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=ready");
    }

    /// Says that the process is about to end, and why.
    pub(crate) fn stopping(&self, why: &str) {
        let why = on_one_line(why);
        self.send(&format!("STOPPING=1\nSTATUS=stopping: {why}"));
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            warn!(sent = message, %error, "cannot tell the service manager");
        }
    }
}

fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = address(name.as_bytes())?;
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok((socket, address))
}

/// Returns `text` without line breaks: what follows one would be read as another message.
fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Returns the socket of a path, or of an abstract name, which begins with `@`.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "expected a path or, on Linux, a name that begins with @",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_or_abstract_names() {
        let path = address(b"/run/systemd/notify").unwrap();
        assert_eq!(path.as_pathname(), Some("/run/systemd/notify".as_ref()));
        #[cfg(target_os = "linux")]
        {
            let name = address(b"@icecore/notify").unwrap();
            assert_eq!(name.as_abstract_name(), Some(&b"icecore/notify"[..]));
        }
        for name in [&b""[..], b"notify", b"vsock:2:1234"] {
            assert!(address(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_status_is_one_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let told = ServiceManager {
            socket: Some(open(&path.into_os_string()).unwrap()),
        };
        told.stopping("the store says\nREADY=1");
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        assert_eq!(
            std::str::from_utf8(&message[..length]),
            Ok("STOPPING=1\nSTATUS=stopping: the store says READY=1")
        );
    }
}
