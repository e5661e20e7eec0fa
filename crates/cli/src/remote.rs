//! A running server that commands ask over HTTP: where it is, requests, and the shape of its answers.

mod answer;
mod client;

use clap::Args;

pub(crate) use answer::Answer;
#[cfg(test)]
pub(crate) use client::Body;
use client::parse_server_url;
pub(crate) use client::{Server, path_segment};

#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// Where the server answers, http:// only
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        value_parser = parse_server_url
    )]
    server: Server,

    /// A header for every request, for example for a proxy; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

impl ServerArgs {
    pub(crate) async fn post(
        &self,
        path: &str,
        params: &[(&'static str, String)],
        timeout_ms: Option<i64>,
    ) -> anyhow::Result<Answer> {
        let body = self
            .server
            .post(path, params, &self.headers, timeout_ms)
            .await?;
        Answer::parse(&body, &self.server)
    }

    /// Deletes what a path names.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let body = self.server.delete(path, &self.headers).await?;
        match body.bytes.is_empty() && body.status.is_success() {
            true => Ok(()),
            false => Answer::parse(&body, &self.server).map(drop),
        }
    }

    /// Gets what needs no parameters and is there at once.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let body = self.server.get(path, &self.headers).await?;
        Answer::parse(&body, &self.server)
    }
}
