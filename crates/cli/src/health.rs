//! `icecore health`: the exit code for supervisors that run a command to look after a server.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use reqwest::Method;

use crate::output::Output;
use crate::query::times::parse_duration_ms;
use crate::remote::{Body, ServerArgs};

/// Beginning of the answer of a server that is ready. Another program at the address does not have
/// it.
const READY: &str = "Icecore is ready.";

/// Characters of a refusal that are printed. Another program at the address may answer with a page.
const REASON_CHARS: usize = 300;

/// Ask a server whether it is ready, and say it with the exit code
///
/// The exit code is 0 if /-/ready answers that requests are served and what is written can be
/// acknowledged, and 1 with the reason otherwise: the server cannot be reached, replays its
/// journal, or its store fails. No credentials are needed. Restarting a server because of this
/// answer does not help: a replay would begin again, and a failing store is waited for.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    /// Longest wait for the answer, the time to connect included
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration_ms)]
    timeout: i64,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore health                                             of http://127.0.0.1:9090
  icecore health --server https://db:9090 --ca-file ca.pem --timeout 1s";

impl Health {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        let asked = runtime.block_on(self.ask());
        // A name that is still looked up must not keep the process.
        runtime.shutdown_background();
        let mut output = Output::new();
        output.line(&asked?)?;
        Ok(output.finish()?)
    }

    /// Returns the answer of a server that is ready.
    async fn ask(&self) -> anyhow::Result<String> {
        let connection = self.server.connect()?;
        let server = connection.server();
        let asking = connection.exchange(connection.request(Method::GET, "/-/ready"));
        let timeout = Duration::from_millis(self.timeout.unsigned_abs());
        let Ok(answer) = tokio::time::timeout(timeout, asking).await else {
            bail!("{server} has not answered within {timeout:?}")
        };
        let answer = answer?;
        let said = first_line(&answer);
        ensure!(
            answer.status.is_success(),
            "{server} is not ready, {}: {said}",
            answer.status
        );
        ensure!(
            said.starts_with(READY),
            "{server} is not Icecore: it answered {said:?}"
        );
        Ok(said)
    }
}

/// Returns the first line of an answer, cut to a length that fits into a log.
fn first_line(answer: &Body) -> String {
    let text = String::from_utf8_lossy(&answer.bytes);
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(REASON_CHARS).collect()
}
