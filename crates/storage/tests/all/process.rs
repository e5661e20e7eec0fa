//! Processes that come and go over one store: started, killed, closed.
//!
//! Holds always:
//! - Each process has its own runtime and its own way to the store. A crash cuts both, so nothing
//!   of it writes afterwards, whatever its tasks were doing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icecore_storage::inspect::{CheckReport, check};
use icecore_storage::testing::{FaultPlan, FaultStore};
use icecore_storage::{Database, Environment, ManualClock, Options, ReplayProgress};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use tokio::runtime::Runtime;

use crate::support::{LOOK_EVERY, clock, options};

/// A store and a clock, which outlive processes, and the settings of the next process.
pub(crate) struct World {
    store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) options: Options,
}

/// Where the data lies between processes.
enum Store {
    Memory(Arc<InMemory>),
    Directory(PathBuf),
}

/// One life of the database.
pub(crate) struct Process {
    runtime: Option<Runtime>,
    pub(crate) db: Database,
    pub(crate) faults: FaultStore,
    /// The replay at its start.
    pub(crate) replay: Arc<ReplayProgress>,
}

impl World {
    /// An empty store in memory.
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(InMemory::new()))
    }

    pub(crate) fn over(store: Arc<InMemory>) -> Self {
        Self {
            store: Store::Memory(store),
            clock: clock(),
            options: options("memory://"),
        }
    }

    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            store: Store::Directory(directory.into()),
            clock: clock(),
            options: options(&directory.to_string_lossy()),
        }
    }

    /// The store of a world in memory.
    pub(crate) fn memory(&self) -> &InMemory {
        match &self.store {
            Store::Memory(memory) => memory,
            Store::Directory(directory) => panic!("this world lies in {}", directory.display()),
        }
    }

    /// Reads the whole store from outside and finds nothing wrong with it.
    pub(crate) fn check(&self) {
        let report = self.checked();
        assert!(report.is_clean(), "{report:#?}");
    }

    /// What is found when the whole store is read from outside.
    pub(crate) fn checked(&self) -> CheckReport {
        let Store::Memory(memory) = &self.store else {
            panic!("this world lies in a directory");
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let store = Arc::clone(memory) as Arc<dyn ObjectStore>;
        let report = runtime.block_on(check(&self.options.store, Some(store)));
        report.expect("the check runs")
    }

    pub(crate) fn start(&self) -> Process {
        self.try_start(FaultPlan::quiet(0))
            .expect("the database opens")
    }

    /// Starts with faults that are not enabled yet.
    pub(crate) fn start_quietly(&self, plan: FaultPlan) -> Process {
        self.begin(plan, false).expect("the database opens")
    }

    pub(crate) fn try_start(&self, plan: FaultPlan) -> icecore_storage::Result<Process> {
        self.begin(plan, true)
    }

    fn begin(&self, plan: FaultPlan, enabled: bool) -> icecore_storage::Result<Process> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let faults = match &self.store {
            Store::Memory(memory) => {
                FaultStore::new(Arc::clone(memory) as Arc<dyn ObjectStore>, plan)
            }
            Store::Directory(directory) => {
                FaultStore::local(directory, plan).expect("the directory exists")
            }
        };
        faults.set_enabled(enabled);
        // A process that is gone has no lock any more; what is left of one here still has its file
        // open.
        let mut options = self.options.clone();
        options.store.take_over = true;
        let environment = Environment {
            clock: Some(Arc::clone(&self.clock) as _),
            object_store: Some(Arc::new(faults.clone())),
        };
        let replay = Arc::<ReplayProgress>::default();
        let opening = Database::open_with_progress(options, environment, Arc::clone(&replay));
        let opened = runtime.block_on(opening);
        match opened {
            Ok(db) => Ok(Process {
                runtime: Some(runtime),
                db,
                faults,
                replay,
            }),
            Err(cause) => {
                faults.power_off();
                runtime.shutdown_background();
                Err(cause)
            }
        }
    }
}

impl Process {
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime
            .as_ref()
            .expect("the process lives")
            .block_on(work)
    }

    /// Does something until it ends or the power is off: `None` then, whatever has become of it.
    pub(crate) fn run_until_off<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let power_goes = async {
            while !self.faults.is_off() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        self.run(async {
            tokio::select! {
                biased;
                () = power_goes => None,
                done = work => Some(done),
            }
        })
    }

    /// Ends the process as SIGKILL would: at once, in the middle of whatever it does.
    pub(crate) fn crash(self) {
        drop(self);
    }

    /// Flushes and ends the process.
    pub(crate) fn close(self) {
        self.run(self.db.close()).expect("the database closes");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.faults.power_off();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
