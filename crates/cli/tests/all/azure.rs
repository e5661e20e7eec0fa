//! The promises of `s3` on Azure's interface: Azurite (npm), started here where it is installed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::failing_store::{Line, an_unreachable_store_is_waited_for};
use crate::http::Client;
use crate::s3::{acknowledged_survives_kills, one_of_two_racing_writers_survives, shared_by_tests};
use crate::served::{PATIENCE, Serve, Workplace, check_is_clean, comes_true, free_address};

/// The program of the npm package `azurite` that serves blobs.
const PROGRAM: &str = "azurite-blob";

/// Rights to create a container, signed with the key that every emulator has.
const SIGNED: &str = "sv=2020-08-04&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z\
                      &spr=https%2Chttp&sig=lP4358Cnz1iq8XYqBFoRARKlOuXCuZxE4Uf0d7qFrYE%3D";

/// An Azure server with everything in memory, which ends with this value.
struct Azurite {
    child: Child,
    address: SocketAddr,
}

impl Azurite {
    /// The one of all tests that run now. `None`, and said so, where it is not installed.
    fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Azurite>> = Mutex::new(Weak::new());
        if !installed() {
            skipped_tests::skip("the server on Azure", "npm install -g azurite");
            return None;
        }
        Some(shared_by_tests(&SHARED, Self::start))
    }

    fn start() -> Self {
        let address = free_address();
        let child = Command::new(PROGRAM)
            .args(["--inMemoryPersistence", "--silent", "--skipApiVersionCheck"])
            .args(["--disableTelemetry", "--blobHost", "127.0.0.1"])
            .args(["--blobPort", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("azurite-blob is installed");
        let azurite = Self { child, address };
        let answers = comes_true(|| azurite.create_container("metrics"));
        assert!(answers, "azurite-blob does not answer");
        azurite
    }

    fn create_container(&self, name: &str) -> bool {
        let path = format!("/devstoreaccount1/{name}?restype=container&{SIGNED}");
        let answer = Client::new(self.address).request("PUT", &path, &[], b"");
        answer.is_ok_and(|answer| answer.is_success())
    }

    fn serve(&self, container_and_prefix: &str, log: PathBuf) -> Serve {
        serve_at(self.address, container_and_prefix, log)
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let version = Command::new(PROGRAM)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    })
}

/// The environment of a process whose store is an emulator at this address.
fn environment(endpoint: &str) -> [(&'static str, &str); 2] {
    [
        ("AZURE_STORAGE_USE_EMULATOR", "true"),
        ("AZURITE_BLOB_STORAGE_URL", endpoint),
    ]
}

fn serve_at(address: SocketAddr, container_and_prefix: &str, log: PathBuf) -> Serve {
    let endpoint = format!("http://{address}");
    let serve = Serve::new(format!("az://{container_and_prefix}"), log);
    let settings = environment(&endpoint).into_iter();
    settings.fold(serve, |serve, (name, value)| serve.env(name, value))
}

#[test]
fn what_azure_acknowledged_survives_kills() {
    let Some(azurite) = Azurite::shared() else {
        return;
    };
    acknowledged_survives_kills(|log| azurite.serve("metrics/kills", log));
    let endpoint = format!("http://{}", azurite.address);
    check_is_clean("az://metrics/kills", &environment(&endpoint));
}

#[test]
fn of_two_racing_writers_on_azure_one_survives() {
    let Some(azurite) = Azurite::shared() else {
        return;
    };
    one_of_two_racing_writers_survives(|log| azurite.serve("metrics/race", log));
}

#[test]
fn azure_that_cannot_be_reached_is_waited_for() {
    let Some(azurite) = Azurite::shared() else {
        return;
    };
    let workplace = Workplace::new();
    an_unreachable_store_is_waited_for(Line::to(azurite.address), |address, log| {
        serve_at(address, "metrics/cut", workplace.path(log))
    });
}

#[test]
fn azure_has_maintenance_and_snapshots() {
    let Some(azurite) = Azurite::shared() else {
        return;
    };
    let workplace = Workplace::new();
    let mut served = azurite.serve("metrics/kept", workplace.path("log")).start();
    let mut client = served.client();
    let line = b"kept 1 1700000000000\n";
    let stored = client.post("/api/v1/import/prometheus", &[], line);
    assert!(stored.is_ok_and(|answer| answer.is_success()));
    for path in [
        "/api/v1/admin/tsdb/snapshot?name=first",
        "/api/v1/admin/maintenance/run",
    ] {
        let answer = client.post(path, &[], b"").unwrap();
        assert!(answer.is_success(), "{path}: {}", answer.text());
    }
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    let mut again = azurite
        .serve("metrics/kept", workplace.path("log-again"))
        .start();
    let snapshots = again.client().get("/api/v1/admin/tsdb/snapshots").unwrap();
    assert!(
        snapshots.text().contains("\"first\""),
        "{}",
        snapshots.text()
    );
    let found = again.client().get("/api/v1/export?match[]=kept").unwrap();
    assert!(found.text().contains("\"values\":[1]"), "{}", found.text());
    again.terminate();
    assert!(again.wait_exit(PATIENCE).success(), "{}", again.log());
}
