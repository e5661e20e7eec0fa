//! `icecore serve`: the database as a running process.

use anyhow::Context as _;
use clap::Args;

use crate::settings::SettingsArgs;

/// Run the database
///
/// Keeps samples in a directory or on object storage and answers over HTTP. Every setting can also
/// be given in the section `icecore:` of the file named by --config, which is otherwise a
/// Prometheus configuration, or as an environment variable (`--storage.fsync` is
/// `ICECORE_STORAGE_FSYNC`). Flags win over the environment, the environment over the file.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: SettingsArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore serve
  icecore serve --storage /var/lib/icecore --listen 0.0.0.0:9090
  ICECORE_STORAGE=s3://bucket/prefix icecore serve --storage.endpoint http://minio:9000
  icecore serve --config prometheus.yml --storage.block-cache-bytes 1GiB";

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.settings.load()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        let ended = runtime.block_on(icecore_server::run(config));
        // A call that hangs in a file system must not keep a process that has ended.
        runtime.shutdown_background();
        Ok(ended?)
    }
}
