//! `icecore events apply` and `icecore events check`: documents of files and directories.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use icecore_events::{Documents, Registry, UpdateOptions};
use reqwest::{Method, header};

use super::problem::answer_of;
use super::tar::archive;
use super::text;
use crate::output::Output;
use crate::remote::ServerArgs;

/// Register documents at a running server
///
/// Documents are YAML or JSON, in files, in directories of files, or on standard input (-). All of
/// them are applied, or none. What is registered and not named stays as it is.
#[derive(Args)]
pub(super) struct ApplyArgs {
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Also changes that are not compatible: another type of an attribute, a new required one, less
    /// masking
    #[arg(long)]
    force: bool,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Check documents without a server
///
/// They are checked as if nothing was registered yet. Problems are printed as FILE:LINE:COLUMN, and
/// the exit code is 1.
#[derive(Args)]
pub(super) struct CheckArgs {
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl ApplyArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let files = read_all(&self.paths)?;
        parse(&files)?;
        let connection = self.server.connect()?;
        let path = if self.force {
            "/api/admin/configs/import?mode=upsert&force=true"
        } else {
            "/api/admin/configs/import?mode=upsert"
        };
        let request = connection
            .request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/x-tar")
            .body(archive(&files));
        let body = connection.exchange(request).await?;
        let answer = answer_of(&body, connection.server())?;
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            eprintln!("icecore: warning: {}", text(warning));
        }
        let mut output = Output::new();
        if self.json {
            output.json(&answer)?;
        } else {
            let services = answer["services"].as_array().into_iter().flatten();
            let services: Vec<&str> = services.map(text).collect();
            let version = answer["registryVersion"].as_u64().unwrap_or_default();
            output.line(&format!("version {version}: {}", services.join(", ")))?;
        }
        Ok(output.finish()?)
    }
}

impl CheckArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let documents = parse(&read_all(&self.paths)?)?;
        let options = UpdateOptions {
            // The key is a server's.
            has_masking_key: true,
            ..UpdateOptions::default()
        };
        let registry = Registry::default().with(&documents, options);
        let registry = match registry {
            Ok(registry) => registry,
            Err(problem) => bail!("{}", problem.detail),
        };
        for warning in registry.warnings() {
            eprintln!("icecore: warning: {warning}");
        }
        let mut output = Output::new();
        for (name, service) in &registry.services {
            let types = service.types.len();
            let metrics: usize = service.types.values().map(|one| one.metrics.len()).sum();
            output.line(&format!(
                "{name}: {types} types of events, {metrics} metrics"
            ))?;
        }
        Ok(output.finish()?)
    }
}

fn parse(files: &[(String, String)]) -> anyhow::Result<Documents> {
    let named = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    match Documents::parse_files(named) {
        Ok(documents) if documents.is_empty() => bail!("there is no document"),
        Ok(documents) => Ok(documents),
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            bail!("{}", lines.join("\n"))
        }
    }
}

/// Names and contents of files, those of directories in the order of their paths.
fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            files.push(("stdin.yaml".to_owned(), text));
        } else if path.is_dir() {
            read_directory(path, &mut files)?;
        } else {
            files.push(read_one(path)?);
        }
    }
    Ok(files)
}

fn read_directory(directory: &Path, files: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", directory.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(cannot)? {
        paths.push(entry.with_context(cannot)?.path());
    }
    paths.sort_unstable();
    for path in paths {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            read_directory(&path, files)?;
        } else if matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(read_one(&path)?);
        }
    }
    Ok(())
}

fn read_one(path: &Path) -> anyhow::Result<(String, String)> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path.display().to_string(), text))
}
