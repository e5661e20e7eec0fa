//! Requests that come from this machine, and from someone who could read its files anyway.
//!
//! Without access control, administration of events is answered to the user who runs this process,
//! and to root. An address alone does not show that: a proxy on this machine passes on requests of
//! anyone, under its own address and, unless it is told otherwise, without a header that says so.
//!
//! ```text
//! loopback address ─► no header of a proxy or of a page ─► host is this machine
//!                  ─► the process at the other end belongs to this user, or to root
//! ```

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header;
use axum::http::uri::Authority;

/// Tables of the kernel with the sockets of this machine, and the users that they belong to.
const SOCKET_TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Bytes of a table that are read: a hundred thousand sockets.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// The user who may do everything on this machine.
const ROOT: u32 = 0;

/// Refuses a request that is not from this machine, with the reason and what helps.
pub(super) fn check(request: &Request) -> Result<(), String> {
    const HINT: &str = "without access control this is answered to the user who runs icecore, on \
                        the same machine, alone; see --web.config.file";
    if !is_local(request) {
        return Err(HINT.into());
    }
    let peer = request.extensions().get::<SocketAddr>();
    match peer.map_or(Owner::Missing, |peer| owner_of(*peer)) {
        Owner::Trusted | Owner::Unknown => Ok(()),
        Owner::Other(user) => Err(format!("{HINT}; this is from the user id {user}")),
        Owner::Missing => Err(HINT.into()),
    }
}

/// Returns `true` if the client is on this machine and speaks for itself, as far as the request
/// shows.
fn is_local(request: &Request) -> bool {
    const FOR_OTHERS: [&str; 5] = ["forwarded", "origin", "via", "x-forwarded-for", "x-real-ip"];
    let headers = request.headers();
    let peer = request.extensions().get::<SocketAddr>();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(Authority::as_str));
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
        && !FOR_OTHERS.iter().any(|name| headers.contains_key(*name))
        && host.is_none_or(is_loopback_name)
}

/// Returns `true` if `host:port` names this machine: any domain may be made to lead here.
fn is_loopback_name(host: &str) -> bool {
    let Ok(host) = host.parse::<Authority>() else {
        return false;
    };
    let host = host.host().trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The user of the process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The user of this process, or root.
    Trusted,
    Other(u32),
    /// The socket is in no table: it is of another machine, or closed.
    Missing,
    /// The operating system has no such tables.
    Unknown,
}

/// Finds the user of the socket with this address. The tables are of this machine: there is no
/// such socket for a client elsewhere.
fn owner_of(peer: SocketAddr) -> Owner {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let Ok(own) = std::fs::metadata("/proc/self").map(|process| process.uid()) else {
        return Owner::Unknown;
    };
    let mut owner = Owner::Unknown;
    for path in SOCKET_TABLES {
        let mut table = String::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(TABLE_BYTES_MAX).read_to_string(&mut table));
        if read.is_err() {
            continue;
        }
        owner = Owner::Missing;
        if let Some(user) = user_in(&table, peer) {
            return match user {
                ROOT => Owner::Trusted,
                _ if user == own => Owner::Trusted,
                _ => Owner::Other(user),
            };
        }
    }
    owner
}

/// Returns the user of the connected socket whose own address is `address`.
fn user_in(table: &str, address: SocketAddr) -> Option<u32> {
    /// States of sockets that listen, and of connections that no process has any more.
    const UNCONNECTED: [&str; 2] = ["0A", "06"];
    let wanted = [address_text(address), mapped_text(address)];
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (local, _remote, state) = (words.nth(1)?, words.next()?, words.next()?);
        let is_wanted = !UNCONNECTED.contains(&state) && wanted.iter().any(|text| text == local);
        // Queues, timer and retries stand between state and user.
        is_wanted.then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// An address as the tables have it: words of four bytes in the order of this machine.
fn address_text(address: SocketAddr) -> String {
    let bytes = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    with_port(&bytes, address.port())
}

/// An address of IPv4 as sockets of IPv6 have it.
fn mapped_text(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    with_port(&ip.octets(), address.port())
}

fn with_port(bytes: &[u8], port: u16) -> String {
    let words = bytes.as_chunks::<4>().0.iter();
    let words = words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{port:04X}", words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_clients_that_speak_for_themselves_are_local() {
        let request = |peer: &str, headers: &[(&str, &str)]| {
            let mut request = Request::new(Body::empty());
            let peer: SocketAddr = peer.parse().unwrap();
            request.extensions_mut().insert(peer);
            for (name, value) in headers {
                let name: header::HeaderName = name.parse().unwrap();
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            is_local(&request)
        };
        assert!(request("127.0.0.1:1", &[]));
        assert!(request("127.0.0.1:1", &[("host", "localhost:9090")]));
        assert!(request("[::ffff:127.0.0.1]:1", &[("host", "127.0.0.1")]));
        assert!(request("[::1]:1", &[("host", "[::1]:9090")]));
        assert!(!request("192.0.2.1:1", &[]));
        assert!(!request("127.0.0.1:1", &[("host", "rebound.example")]));
        assert!(!request(
            "127.0.0.1:1",
            &[("origin", "https://page.example")]
        ));
        assert!(!request("127.0.0.1:1", &[("x-forwarded-for", "192.0.2.1")]));
        assert!(!request("127.0.0.1:1", &[("forwarded", "for=192.0.2.1")]));
    }

    /// Tables of a machine with little-endian words.
    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 0
   1: 0100007F:C0DE 0100007F:2382 01 00000000:00000000 00:00000000 00000000    33        0 2 1 0 0
   2: 0100007F:2382 0100007F:C0DE 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 0
   3: 0100007F:C0DF 0100007F:2382 06 00000000:00000000 03:00000A2A 00000000    34        0 0 3 0 0
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st queues
   0: 00000000000000000000000001000000:C0DE 00000000000000000000000001000000:2382 01 0:0 0:0 0 44
   1: 0000000000000000FFFF00000100007F:C0E0 0000000000000000FFFF00000100007F:2382 01 0:0 0:0 0 55
";

    #[test]
    #[cfg(target_endian = "little")]
    fn users_are_found_by_their_sockets() {
        let user = |table: &str, address: &str| user_in(table, address.parse().unwrap());
        assert_eq!(user(TCP, "127.0.0.1:49374"), Some(33));
        assert_eq!(user(TCP, "[::ffff:127.0.0.1]:49374"), Some(33));
        assert_eq!(user(TCP, "127.0.0.1:9090"), Some(1000));
        // One that is closed, and some that are not there.
        assert_eq!(user(TCP, "127.0.0.1:49375"), None);
        assert_eq!(user(TCP, "127.0.0.1:49377"), None);
        assert_eq!(user(TCP, "[::1]:49374"), None);
        assert_eq!(user(TCP6, "[::1]:49374"), Some(44));
        assert_eq!(user(TCP6, "127.0.0.1:49376"), Some(55));
        assert_eq!(user("", "127.0.0.1:1"), None);
        assert_eq!(user("a\n\nb c d 01 e", "127.0.0.1:1"), None);
    }

    #[test]
    fn this_process_trusts_itself() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                continue;
            };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let peer = client.local_addr().unwrap();
            let expected = if std::fs::metadata(SOCKET_TABLES[0]).is_ok() {
                Owner::Trusted
            } else {
                Owner::Unknown
            };
            assert_eq!(owner_of(peer), expected, "{address}");
            drop(listener);
        }
    }
}
