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

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header;
use axum::http::uri::Authority;

use crate::listener::Ends;

/// Tables of the kernel with the sockets of this machine, and the users that they belong to.
const SOCKET_TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// The state of this process, with its users.
const PROCESS_STATUS: &str = "/proc/self/status";

/// Bytes of a file that are read: a table of a hundred thousand sockets.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The user who may do everything on this machine.
const ROOT: u32 = 0;

/// Refuses a request that is not from this machine, with the reason and what helps.
pub(super) fn check(request: &Request) -> impl Future<Output = Result<(), String>> + use<> {
    const HINT: &str = "without access control this is answered to the user who runs icecore, on \
                        the same machine, alone; see --web.config.file";
    let ends = request.extensions().get::<Ends>().copied();
    let ends = ends.filter(|_| is_local(request));
    async move {
        let ends = ends.ok_or(HINT)?;
        // Tables of many sockets take a while.
        let looking = tokio::task::spawn_blocking(move || confirmed_owner_of(ends)).await;
        match looking.map_err(io::Error::from).flatten() {
            Ok(Owner::Trusted | Owner::Unknown) => Ok(()),
            Ok(Owner::Other(user)) => Err(format!("{HINT}; this is from the user id {user}")),
            Ok(Owner::Missing) => Err(HINT.into()),
            Err(error) => Err(format!("{HINT}; the user is not known: {error}")),
        }
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
    /// The socket is in no table, or no process has it any more.
    Missing,
    /// The operating system has no such tables.
    Unknown,
}

/// Finds the user of the client's socket, and looks again for one that is trusted: kernels may show
/// root at the moment in which a process lets go of its socket.
fn confirmed_owner_of(ends: Ends) -> io::Result<Owner> {
    match owner_of(&SOCKET_TABLES, ends)? {
        Owner::Trusted => owner_of(&SOCKET_TABLES, ends),
        owner => Ok(owner),
    }
}

/// Finds the user of the client's socket. The tables are of this machine: there is no such socket
/// for a client elsewhere.
fn owner_of(tables: &[&str], ends: Ends) -> io::Result<Owner> {
    let Some(status) = read_if_there(PROCESS_STATUS)? else {
        return Ok(Owner::Unknown);
    };
    let own = user_of(&status).ok_or(io::ErrorKind::InvalidData)?;
    let mut owner = Owner::Unknown;
    for path in tables {
        let Some(table) = read_if_there(path)? else {
            continue;
        };
        owner = Owner::Missing;
        if let Some(user) = user_in(&table, ends) {
            return Ok(match user {
                ROOT => Owner::Trusted,
                _ if user == own => Owner::Trusted,
                _ => Owner::Other(user),
            });
        }
    }
    Ok(owner)
}

/// Returns the text of a file, or `None` if it does not exist. Other errors are no sign of that: a
/// client can use up the file descriptors.
fn read_if_there(path: &str) -> io::Result<Option<String>> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Returns the user with whose rights a process runs, from its `/proc/…/status`. The owner of the
/// files there is another one where the program has capabilities of its own.
fn user_of(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let effective = users.split_ascii_whitespace().nth(1)?;
    effective.parse().ok()
}

/// Returns the user of the socket at the client's end, if a process has it.
fn user_in(table: &str, ends: Ends) -> Option<u32> {
    let wanted = [
        [address_text(ends.client), address_text(ends.server)],
        [mapped_text(ends.client), mapped_text(ends.server)],
    ];
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        // A number stands before them, and the state behind.
        let (local, remote) = (words.nth(1)?, words.next()?);
        // Behind the state come queues, timer and retries, and behind the user a timeout.
        let (user, inode) = (words.nth(4)?, words.nth(1)?);
        let is_wanted = wanted
            .iter()
            .any(|[client, server]| client == local && server == remote);
        // A socket that its process has closed shows root, in all states that may follow.
        let has_process = inode != "0";
        let user = || user.parse().ok();
        (is_wanted && has_process).then(user).flatten()
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
   1: 0100007F:C0DE 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 6 1 0 0
   2: 0100007F:C0DE 0100007F:2382 01 00000000:00000000 00:00000000 00000000    33        0 2 1 0 0
   3: 0100007F:2382 0100007F:C0DE 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 0
   4: 0100007F:C0DF 0100007F:2382 06 00000000:00000000 03:00000A2A 00000000     0        0 0 3 0 0
   5: 0100007F:C0E1 0100007F:2382 05 00000000:00000000 03:00000A2A 00000000     0        0 0 3 0 0
   6: 0100007F:C0E2 0100007F:2382 04 00000000:00000000 01:00000014 00000000     0        0 0 3 0 0
   7: 0100007F:C0E3 0100007F:2382 05 00000000:00000000 00:00000000 00000000    34        0 7 1 0 0
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st queues
0: 00000000000000000000000001000000:C0DE 00000000000000000000000001000000:2382 01 0:0 0:0 0 44 0 8
1: 0000000000000000FFFF00000100007F:C0E0 0000000000000000FFFF00000100007F:2382 01 0:0 0:0 0 55 0 9
";

    fn ends(client: &str, server: &str) -> Ends {
        Ends {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn users_are_found_by_their_sockets() {
        let user = |table: &str, client: &str| user_in(table, ends(client, "127.0.0.1:9090"));
        assert_eq!(user(TCP, "127.0.0.1:49374"), Some(33));
        let mapped = ends("[::ffff:127.0.0.1]:49374", "[::ffff:127.0.0.1]:9090");
        assert_eq!(user_in(TCP, mapped), Some(33));
        // Another connection from the same port.
        let other = ends("127.0.0.1:49374", "127.0.0.1:80");
        assert_eq!(user_in(TCP, other), Some(1000));
        // One that sends no more, and whose process waits for the answer.
        assert_eq!(user(TCP, "127.0.0.1:49379"), Some(34));
        // Those that are closed, in three states, and one that is not there.
        for port in [49375, 49377, 49378, 49380] {
            assert_eq!(user(TCP, &format!("127.0.0.1:{port}")), None, "{port}");
        }
        assert_eq!(user_in(TCP, ends("[::1]:49374", "[::1]:9090")), None);
        assert_eq!(user_in(TCP6, ends("[::1]:49374", "[::1]:9090")), Some(44));
        assert_eq!(user(TCP6, "127.0.0.1:49376"), Some(55));
        assert_eq!(user("", "127.0.0.1:1"), None);
        assert_eq!(user("a\n\nb c d 01 e", "127.0.0.1:1"), None);
    }

    #[test]
    fn the_own_user_is_the_one_with_whose_rights_the_process_runs() {
        let status = "Name:\ticecore\nUid:\t1000\t1001\t1002\t1003\nGid:\t0\t0\t0\t0\n";
        assert_eq!(user_of(status), Some(1001));
        assert_eq!(user_of("Name:\tUid:\n"), None);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_not_a_missing_one() {
        let ends = ends("127.0.0.1:1", "127.0.0.1:2");
        let missing = "/proc/self/net/missing";
        let owner = owner_of(&[missing, missing], ends).unwrap();
        assert_eq!(owner, Owner::Unknown);
        // A directory can be opened and not be read, a file is no directory.
        for unreadable in ["/", "/proc/self/status/tcp"] {
            if std::fs::metadata(PROCESS_STATUS).is_ok() {
                owner_of(&[missing, unreadable], ends).unwrap_err();
            }
        }
    }

    #[test]
    fn this_process_trusts_itself_while_it_has_the_socket() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                continue;
            };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let ends = Ends {
                client: peer,
                server: accepted.local_addr().unwrap(),
            };
            let [with_process, without] = if std::fs::metadata(SOCKET_TABLES[0]).is_ok() {
                [Owner::Trusted, Owner::Missing]
            } else {
                [Owner::Unknown; 2]
            };
            assert_eq!(confirmed_owner_of(ends).unwrap(), with_process, "{address}");
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(confirmed_owner_of(ends).unwrap(), with_process, "{address}");
            // The connection is still half open: this end has not closed it.
            drop(client);
            assert_eq!(confirmed_owner_of(ends).unwrap(), without, "{address}");
            drop(accepted);
        }
    }
}
