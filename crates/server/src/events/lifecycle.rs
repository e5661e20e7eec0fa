//! The life of events within the process.
//!
//! ```text
//! start:  database open ─► Events::open, journal replayed ─► documents applied ─► background task
//!                                                          └ shards of others named, not read
//! stop:   listeners closed ─► background task ended ─► cells flushed ─► database closed
//! ```

use std::sync::Arc;
use std::time::Duration;

use icecore_event_files::Parquet;
use icecore_events::{AllEvents, Events, Problem};
use icecore_model::Clock;
use icecore_storage::Database;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::registry_files::RegistryFiles;
use crate::app::App;
use crate::config::EventSettings;

/// How long the end of the process waits for the last cells. What is not written then is made
/// again from the journal.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Opens the events of a database, and applies the documents of the directory that the settings
/// name.
pub(crate) async fn open(
    settings: &EventSettings,
    database: &Database,
    clock: Arc<dyn Clock>,
) -> Result<(Events, Option<RegistryFiles>), Problem> {
    let store = database.events();
    let events = Events::open(store, Arc::new(Parquet), clock, settings.options()).await?;
    if settings.registry.is_empty() {
        return Ok((events, None));
    }
    let mut files = RegistryFiles::new(&settings.registry);
    // As with other files that the start names: what is wrong with them is seen at once.
    files.apply(&events).await?;
    Ok((events, Some(files)))
}

/// The events of this instance and of the others that the settings name.
pub(crate) fn with_shards(
    settings: &EventSettings,
    database: &Database,
    events: &Events,
) -> Result<AllEvents, Problem> {
    let open = |location: &String| {
        let shard = database.event_shard(location, settings.shard_age_max);
        shard
            .map_err(|cause| Problem::new(400, "config.invalid", format!("events.shards: {cause}")))
    };
    let shards = settings.shards.iter().map(open);
    let mut shards = shards.collect::<Result<Vec<_>, Problem>>()?;
    // A shard has one name, however it is written: read twice, its events would count twice.
    shards.sort_by(|a, b| a.name().cmp(b.name()));
    shards.dedup_by(|a, b| a.name() == b.name());
    AllEvents::new(events.clone(), shards, settings.partial_answers)
}

/// The tasks of events.
pub(crate) struct RunningEvents {
    events: Events,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl RunningEvents {
    pub(crate) fn start(app: &Arc<App>, events: Events, files: Option<RegistryFiles>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut stopping = stopped.clone();
        tasks.spawn(events.clone().run(async move {
            // Without a sender the process has ended.
            let _ = stopping.changed().await;
        }));
        if let Some(files) = files {
            tasks.spawn(watch_files(Arc::clone(app), events.clone(), files, stopped));
        }
        Self {
            events,
            stop,
            tasks,
        }
    }

    /// Ends the tasks and writes what is in memory, as far as the store takes it.
    pub(crate) async fn close(mut self) {
        // Without a receiver the tasks have ended.
        let _ = self.stop.send(true);
        let events = self.events.clone();
        let closing = async {
            while self.tasks.join_next().await.is_some() {}
            events.close().await
        };
        match tokio::time::timeout(CLOSE_PATIENCE, closing).await {
            Ok(Ok(())) => info!("events flushed"),
            Ok(Err(problem)) => warn!(reason = problem.detail, "cannot flush events"),
            Err(_) => {
                warn!("events not flushed in time; the next start takes them from the journal")
            }
        }
    }
}

/// Looks at the directory of documents again and again.
async fn watch_files(
    app: Arc<App>,
    events: Events,
    mut files: RegistryFiles,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let pause = app.config().events.registry_interval;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.registry_wanted() => {}
            _ = stopped.changed() => return,
        }
        // What is wrong is in the log.
        let _ = files.apply(&events).await;
    }
}
