//! OpenTSDB's protocols at the real process.

mod clients;
mod collectd;
mod crash;
mod documented_faults;
mod first_clients;
mod names;
mod original;
mod recorded;
mod stored;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

use crate::http::Client;
use crate::served::{PATIENCE, Serve, Workplace};

/// Settings under which new names and series get meta data and leaves of trees.
const META: &str = "\
tsd.core.auto_create_metrics = true
tsd.http.request.enable_chunked = true
tsd.http.request.max_chunk = 1048576
tsd.core.meta.enable_realtime_uid = true
tsd.core.meta.enable_realtime_ts = true
tsd.core.meta.enable_tsuid_tracking = true
tsd.core.tree.enable_processing = true
";

/// How long a line has no reply before it is believed.
const SILENCE: Duration = Duration::from_millis(25);

/// A file of this repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A process that speaks OpenTSDB on a port of its own, with the settings of an `opentsdb.conf`.
fn serve(workplace: &Workplace, name: &str, settings: &str) -> Serve {
    let config = workplace.path(&format!("{name}.conf"));
    std::fs::write(&config, settings).expect("a file can be written");
    Serve::new(workplace.path(name), workplace.path(&format!("{name}.log")))
        .flags(["--opentsdb.listen", "127.0.0.1:0", "--opentsdb.config"])
        .flags([config])
}

/// What is answered to bytes on a connection of their own, and whether the server closes it.
/// Everything is durable then.
fn telnet(address: SocketAddr, bytes: &[u8], closes: bool) -> (String, bool) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(bytes).expect("it reads");
    let mut reply = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut closed = false;
    while !closed {
        // What is answered later, and what deviates and is never answered, is told apart when the
        // server has read the end.
        let patience = if closes { PATIENCE } else { SILENCE };
        stream.set_read_timeout(Some(patience)).expect("not zero");
        match stream.read(&mut buffer) {
            Ok(0) => closed = true,
            Ok(length) => reply.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => closed = true,
            Err(_) => break,
        }
    }
    if !closed {
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        stream.shutdown(Shutdown::Write).expect("it is open");
        stream.read_to_end(&mut reply).expect("it closes in order");
    }
    (String::from_utf8_lossy(&reply).into_owned(), closed)
}

/// The document at a path.
#[track_caller]
fn get(client: &mut Client, path: &str) -> Json {
    let answer = client.get(path).expect("it lives");
    let text = answer.text();
    assert_eq!(answer.status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}
