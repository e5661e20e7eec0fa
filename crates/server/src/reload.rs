//! A reload: SIGHUP or `POST /-/reload`. The web configuration file and the configuration file are
//! read again, and settings that can change while the process runs are applied.
//!
//! ```text
//! web configuration file ─► access
//! configuration file ─► jobs ─► live settings ─► named: what needs a restart
//!        └── wrong ──────┴─► everything stays as it is, and says why
//! ```
//!
//! Holds always:
//! - One reload at a time, and a client that goes away does not stop it in the middle.
//! - One file that cannot be used does not keep the other from being read.

use std::fmt;
use std::sync::Arc;

use tracing::{error, info, warn};

use crate::app::App;
use crate::config::{Changes, Config};
use crate::notifications::Notice;
use crate::retention;
use crate::telemetry;
use icecore_scrape::ScrapeManager;

/// Answers when the new configuration is in force, or why it is not.
pub(crate) async fn reload(
    app: &Arc<App>,
    scraping: &Arc<ScrapeManager>,
) -> Result<Changes, String> {
    let (app, scraping) = (Arc::clone(app), Arc::clone(scraping));
    let task = tokio::spawn(async move {
        let _one_at_a_time = app.reloading.lock().await;
        let access = Arc::clone(&app.access);
        let access = tokio::task::spawn_blocking(move || access.reload());
        let config = reload_config(&app, &scraping).await;
        let access = match access.await {
            Ok(reloaded) => reloaded.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let outcome = access.and(config);
        match &outcome {
            Ok(_) => app.notifications.remove(Notice::ReloadFailed),
            Err(_) => app.notifications.add(Notice::ReloadFailed),
        }
        outcome
    });
    task.await.map_err(|error| error.to_string())?
}

async fn reload_config(app: &App, scraping: &ScrapeManager) -> Result<Changes, String> {
    let applied = apply(app, scraping).await;
    match &applied {
        Ok(changes) => {
            let settings = Keys(&changes.applied);
            info!(%settings, "configuration loaded");
            if !changes.waiting.is_empty() {
                let settings = Keys(&changes.waiting);
                warn!(%settings, "changed settings need a restart; keeping the previous values");
            }
        }
        Err(reason) => {
            scraping.reload_failed();
            error!(
                reason,
                "cannot load configuration; keeping the previous one"
            );
        }
    }
    applied
}

/// On an error nothing has changed.
async fn apply(app: &App, scraping: &ScrapeManager) -> Result<Changes, String> {
    let before = app.config();
    let running = Arc::clone(&before);
    let read = tokio::task::spawn_blocking(move || running.reread());
    let anew = read.await.map_err(|error| error.to_string())?;
    let anew = anew.map_err(|error| error.to_string())?;
    for warning in anew.warnings() {
        warn!("{warning}");
    }
    let (config, changes) = before.reloaded(&anew);
    let changes_retention = before.retention != config.retention || before.tsdb != config.tsdb;
    // First, because it may fail, and then nothing has changed.
    let retention = if changes_retention {
        Some(retention::decide(app, &config, false).await?)
    } else {
        None
    };
    scraping
        .reload(config.scrape(), config.scraping.itself)
        .await?;
    activate(app, config);
    if let Some(decided) = retention {
        retention::set(app, decided);
    }
    Ok(changes)
}

fn activate(app: &App, config: Config) {
    telemetry::set_level(config.log.level);
    app.set_config(config);
    app.want_registry();
}

/// Keys of settings, one after the other.
struct Keys<'a>(&'a [&'static str]);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}
