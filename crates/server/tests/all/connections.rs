//! Clients that keep places and send nothing: others are served all the same.

use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use crate::client::Connection;
use crate::served::TestServer;

/// More connections than a hundredth of what a port has.
const SILENT: usize = 200;

/// Imports that may be under way.
const IMPORTS: usize = 8;

/// A connection from another address of this machine.
async fn connected(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_have_all_connections() {
    let settings = [
        ("server.client_share", "1"),
        ("opentsdb.listen", "127.0.0.1:0"),
    ];
    let served = TestServer::start(&settings).await;
    for address in [served.address, served.opentsdb_address.unwrap()] {
        let mut silent = Vec::new();
        for _ in 0..SILENT {
            silent.push(connected("127.0.0.1", address).await);
        }
        let ask = async |from: &str| {
            let mut connection = Connection::over(connected(from, address).await);
            let request = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n";
            connection.send(request).await;
            let answer = connection.answer_if_any("GET").await;
            answer.map(|answer| answer.status)
        };
        assert_eq!(ask("127.0.0.1").await, None, "it has its share");
        assert!(ask("127.0.0.2").await.is_some(), "others are answered");
        // Places come back when connections end.
        drop(silent);
        let is_back = async || ask("127.0.0.1").await;
        crate::served::until(is_back, Option::is_some, "a place").await;
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_keep_no_import_of_opentsdb_from_its_place() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/import/opentsdb?auto_metric=true";
    let mut slow = Vec::new();
    for _ in 0..IMPORTS {
        let mut connection = Connection::open(served.address).await;
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nm");
        connection.send(head.as_bytes()).await;
        slow.push(connection);
    }
    let line = b"sys.cpu 1356998430 42 host=web01\n";
    // Each of them has arrived when a later one is answered.
    for _ in 0..2 * IMPORTS {
        let answer = served.request("POST", path, &[], line).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop(slow);
    served.stop().await.unwrap();
}
