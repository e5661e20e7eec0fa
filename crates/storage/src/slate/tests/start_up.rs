//! A wrong place is told, quickly and with a cure.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Instant;

use async_trait::async_trait;
use futures::stream::BoxStream;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    self as store, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::*;

/// A store that does not keep conditions: it overwrites, or says that it knows none.
#[derive(Debug)]
struct Careless {
    inner: InMemory,
    says_so: bool,
}

impl std::fmt::Display for Careless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Careless")
    }
}

#[async_trait]
impl ObjectStore for Careless {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> store::Result<PutResult> {
        if self.says_so && !matches!(options.mode, PutMode::Overwrite) {
            return Err(store::Error::NotImplemented {
                operation: "put_opts with a condition".into(),
                implementer: "Careless".into(),
            });
        }
        let options = PutOptions {
            mode: PutMode::Overwrite,
            ..options
        };
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> store::Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, store::Result<Path>>,
    ) -> BoxStream<'static, store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// On every start, also where there is a database already: it may have been copied there.
#[tokio::test]
async fn a_store_without_conditional_put_is_refused() {
    for says_so in [false, true] {
        let inner = InMemory::new();
        let careless = Arc::new(Careless { inner, says_so });
        let store: Arc<dyn ObjectStore> = Arc::clone(&careless) as _;
        let options = at("s3://some-bucket/some");
        for _ in 0..2 {
            let opened = Engine::open(&options, Some(Arc::clone(&store))).await;
            let message = opened.err().unwrap().to_string();
            assert!(message.contains("s3://some-bucket/some"), "{message}");
            assert!(message.contains("conditional writes"), "{message}");
            assert!(message.contains("use a store"), "{message}");
        }
        let manifests = store.list(Some(&Path::from("some/db/manifest")));
        let manifests = futures::StreamExt::count(manifests).await;
        assert_eq!(manifests, 0, "nothing was begun");
    }
}

#[tokio::test]
async fn a_server_that_knows_no_conditions_is_told_apart() {
    let endpoint = server(Some(("501 Not Implemented", "")));
    let message = refused(&s3_at(endpoint)).await;
    assert!(message.contains("conditional writes"), "{message}");
}

fn s3_at(endpoint: String) -> StoreOptions {
    StoreOptions {
        endpoint,
        region: "us-east-1".into(),
        access_key_id: "key".into(),
        secret_access_key: "secret".into(),
        open_timeout: PATIENCE,
        ..at("s3://some-bucket/some/prefix")
    }
}

async fn refused(options: &StoreOptions) -> String {
    let begun = Instant::now();
    let Err(error) = Engine::open(options, None).await else {
        panic!("opened");
    };
    // It is refused for what it is, and not given up.
    assert!(begun.elapsed() < PATIENCE / 2, "{error}");
    error.to_string()
}

/// Answers every request with this status and body; with nothing, it keeps silent. Returns its
/// endpoint.
fn server(answer: Option<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut unanswered = Vec::new();
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 8192]);
            let Some((status, body)) = answer else {
                unanswered.push(socket);
                continue;
            };
            let length = body.len();
            let _ = write!(
                socket,
                "HTTP/1.1 {status}\r\netag: \"x\"\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_closed_port_is_an_error_within_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let message = refused(&s3_at(endpoint.clone())).await;
    assert!(
        message.contains("s3://some-bucket/some/prefix"),
        "{message}"
    );
    assert!(message.contains(&endpoint), "{message}");
    assert!(message.contains("check endpoint"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn a_missing_bucket_is_named() {
    let endpoint = server(Some((
        "404 Not Found",
        "<Error><Code>NoSuchBucket</Code></Error>",
    )));
    let message = refused(&s3_at(endpoint)).await;
    assert!(message.contains("some-bucket"), "{message}");
    assert!(message.contains("does not exist"), "{message}");
}

#[tokio::test]
async fn refused_credentials_are_told_apart() {
    let endpoint = server(Some(("403 Forbidden", "")));
    let message = refused(&s3_at(endpoint)).await;
    assert!(message.contains("access key"), "{message}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let options = StoreOptions {
        open_timeout: Duration::from_secs(1),
        ..s3_at(server(None))
    };
    let message = refused(&options).await;
    assert!(message.contains("no answer"), "{message}");
}

#[tokio::test]
async fn a_file_is_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let message = refused(&at(file.to_str().unwrap())).await;
    assert!(message.contains("storage directory"), "{message}");
}

#[tokio::test]
async fn settings_that_would_hang_are_refused() {
    let message = refused(&StoreOptions {
        unflushed_bytes_max: 1 << 20,
        ..at("memory://")
    })
    .await;
    assert!(message.contains("unflushed"), "{message}");
    let message = refused(&StoreOptions {
        block_bytes: 3 << 10,
        ..at("memory://")
    })
    .await;
    assert!(message.contains("block size"), "{message}");
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused() {
    // Answers 200 to everything, a conditional put included.
    let endpoint = server(Some((
        "200 OK",
        "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
    )));
    let message = refused(&s3_at(endpoint)).await;
    assert!(message.contains("conditional writes"), "{message}");
}

#[tokio::test]
async fn left_over_staged_files_go_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let engine = Engine::open(&options, None).await.unwrap();
    engine.close().await.unwrap();
    let staged = directory.path().join("db/wal/00000000000000000099.sst#1");
    std::fs::write(&staged, b"torn").unwrap();
    let yesterday = std::time::SystemTime::now() - Duration::from_secs(86_400);
    let file = std::fs::File::options().write(true).open(&staged).unwrap();
    file.set_modified(yesterday).unwrap();
    let engine = Engine::open(&options, None).await.unwrap();
    assert!(!staged.exists());
    engine.close().await.unwrap();
}

/// A clock that is ahead makes them old, also those that are being written.
#[tokio::test]
async fn staged_files_of_a_writer_that_is_taken_over_stay() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let first = Engine::open(&options, None).await.unwrap();
    put(&first, bucket_key(60, 1), b"x").await.unwrap();
    let staged = directory.path().join("db/wal/00000000000000000099.sst#1");
    std::fs::write(&staged, b"being written").unwrap();
    let yesterday = std::time::SystemTime::now() - Duration::from_secs(86_400);
    let file = std::fs::File::options().write(true).open(&staged).unwrap();
    file.set_modified(yesterday).unwrap();
    let taking_over = StoreOptions {
        take_over: true,
        ..options.clone()
    };
    let second = Engine::open(&taking_over, None).await.unwrap();
    assert!(staged.exists());
    // It was fenced.
    let _ = first.close().await;
    second.close().await.unwrap();
    let third = Engine::open(&options, None).await.unwrap();
    assert!(!staged.exists());
    third.close().await.unwrap();
}
