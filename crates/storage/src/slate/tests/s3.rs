//! Against a real S3 API: `moto_server`, where it is installed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use slatedb::{CloseReason, ErrorKind};

use super::*;
use crate::slate::faults::{Fault, FaultPlan, FaultStore, Operation};
use crate::slate::object_store::open_store;

struct Moto {
    process: Child,
    endpoint: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server with one bucket; `None` where moto is not installed.
async fn moto() -> Option<Moto> {
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let process = Command::new("moto_server")
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(process) = process else {
        skipped_tests::skip("storage on S3", "pip install 'moto[server]'");
        return None;
    };
    let moto = Moto {
        process,
        endpoint: format!("http://127.0.0.1:{port}"),
    };
    eventually("moto answers", async || create_bucket(port).is_ok()).await;
    Some(moto)
}

fn create_bucket(port: u16) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        socket,
        "PUT /present HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(std::io::Error::other(answer))
    }
}

fn options(moto: &Moto, bucket: &str) -> StoreOptions {
    StoreOptions {
        endpoint: moto.endpoint.clone(),
        access_key_id: "key".into(),
        secret_access_key: "secret".into(),
        ..at(&format!("s3://{bucket}/some/prefix"))
    }
}

#[tokio::test]
async fn a_bucket_is_written_taken_over_and_survives_ambiguous_puts() {
    let Some(moto) = moto().await else {
        return;
    };
    let missing = Engine::open(&options(&moto, "absent"), None).await;
    let message = missing.err().unwrap().to_string();
    assert!(message.contains("does not exist"), "{message}");

    let options = options(&moto, "present");
    let raw = open_store(&options, None, false).unwrap().store;
    let faults = FaultStore::new(raw, FaultPlan::quiet(1));
    let first = Engine::open(&options, Some(Arc::new(faults.clone())))
        .await
        .unwrap();
    for (seq, part) in ["wal/", "compacted/", "manifest/"].into_iter().enumerate() {
        faults.script(Operation::Put, part, Fault::AppliedButError, 1);
        let key = journal_key(1, seq as u64);
        put(&first, key, b"value").await.unwrap();
        first.flush_memtable().await.unwrap();
    }
    assert_eq!(first.closed_reason(), None);
    assert_eq!(faults.counts().applied_but_error, 3);

    let second = Engine::open(&options, None).await.unwrap();
    let refused = put(&first, journal_key(1, 9), b"late").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed(CloseReason::Fenced));
    for seq in 0..3 {
        assert_eq!(get(&second, &journal_key(1, seq)).await.unwrap(), "value");
    }
    assert_eq!(get(&second, &journal_key(1, 9)).await, None);
    second.close().await.unwrap();
}
