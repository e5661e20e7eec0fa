//! From a file to [`ScrapeSettings`]: `global` first, then the jobs of the file itself, then those of
//! `scrape_config_files`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::job::{self, Global};
use super::{ScrapeConfig, ScrapeSettings, render};
use icecore_settings::Position;
use icecore_settings::Problem;
use icecore_settings::yaml::{self, Entry, Node, Value};
use icecore_settings::{Fields, SourceFile};

/// Most that one of `scrape_config_files` may hold, for the same reason as the main file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The top-level keys that are read here.
pub const KEYS: [&str; 3] = ["global", "scrape_configs", "scrape_config_files"];

impl ScrapeSettings {
    /// A job that says nothing but its name: defaults, and what `global` says.
    pub(crate) fn plain_job(&self, job_name: &str) -> ScrapeConfig {
        self.global.job(job_name)
    }
}

/// What the file says about scraping, with its problems. Keys that are not acted upon are in
/// `not_acted_upon` afterwards.
pub fn read(
    root: &Node,
    path: &Path,
    variable: &dyn Fn(&str) -> String,
    not_acted_upon: &mut Vec<String>,
) -> (ScrapeSettings, Vec<Problem>) {
    // Anything but a map has been complained about by who reads the icecore section.
    let Value::Map(entries) = &root.value else {
        return (ScrapeSettings::default(), Vec::new());
    };
    let source = SourceFile::new(path);
    let mut loading = Loading::default();
    if let Some(node) = find(entries, "global") {
        loading.global = Global::read(Fields::of(node, "global", &source), variable);
    }
    // The lists only: what else the top level may have is known by who reads the icecore section.
    let mut top = Fields::of(root, "", &source);
    loading.jobs(&mut top, path);
    let own_jobs = loading.jobs.len();
    let patterns = top.texts("scrape_config_files");
    for pattern in &patterns {
        let star_is_last = pattern
            .find('*')
            .and_then(|at| pattern.get(at..))
            .is_none_or(|rest| !rest.contains('/'));
        if !star_is_last {
            let reason = format!("{pattern:?} may have * in its last part only");
            top.complain("scrape_config_files", reason);
        }
    }
    let patterns: Vec<PathBuf> = patterns.iter().map(|text| source.path(text)).collect();
    for pattern in &patterns {
        let at = top.position("scrape_config_files");
        loading.files(pattern, &source, at);
    }
    loading.note_logs(entries, not_acted_upon);
    let mut problems = source.into_problems();
    problems.append(&mut loading.problems);
    let settings = loading.into_settings(own_jobs, patterns);
    (settings, problems)
}

fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Node> {
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some(&entry.node)
}

#[derive(Default)]
struct Loading {
    global: Global,
    jobs: Vec<ScrapeConfig>,
    /// Where each name was given first.
    names: HashMap<String, (PathBuf, Position)>,
    failure_logs: bool,
    /// Of the files beside the main one.
    problems: Vec<Problem>,
}

impl Loading {
    /// `scrape_configs` of one file.
    fn jobs(&mut self, top: &mut Fields<'_>, path: &Path) {
        for fields in top.maps("scrape_configs") {
            let (at, subject) = (fields.position("job_name"), fields.path_of("job_name"));
            self.failure_logs |= fields.has("scrape_failure_log_file");
            let source = fields.source;
            let job = job::read(fields, &self.global);
            if let Some((file, first)) = self.names.get(&job.job_name) {
                let name = &job.job_name;
                let elsewhere = if file == path {
                    String::new()
                } else {
                    format!(" of {}", file.display())
                };
                let reason =
                    format!("the job {name:?} is given twice, first at {first}{elsewhere}");
                source.complain(at, &subject, reason);
            } else if !job.job_name.is_empty() {
                self.names.insert(job.job_name.clone(), (path.into(), at));
            }
            self.jobs.push(job);
        }
    }

    /// The files that match a pattern. None is no error: they may come later.
    fn files(&mut self, pattern: &Path, main: &SourceFile<'_>, at: Position) {
        const SUBJECT: &str = "scrape_config_files";
        let Some(text) = pattern.to_str() else {
            main.complain(at, SUBJECT, "the path is not valid UTF-8");
            return;
        };
        let paths = match glob::glob(text) {
            Ok(paths) => paths,
            Err(error) => {
                main.complain(at, SUBJECT, format!("{text:?}: {}", error.msg));
                return;
            }
        };
        for path in paths {
            let read = path
                .map_err(|error| error.to_string())
                .and_then(|path| read_text(&path).map(|text| (path, text)));
            match read {
                Ok((path, text)) => self.file(&path, &text),
                Err(reason) => main.complain(at, SUBJECT, reason),
            }
        }
    }

    fn file(&mut self, path: &Path, text: &str) {
        let root = match yaml::parse(text) {
            Ok(root) => root,
            Err(error) => {
                let problem = Problem::new("", error.reason).at(path, error.at);
                self.problems.push(problem);
                return;
            }
        };
        let source = SourceFile::new(path);
        let mut top = Fields::of(&root, "", &source);
        self.jobs(&mut top, path);
        top.finish();
        self.problems.extend(source.into_problems());
    }

    fn note_logs(&self, entries: &[Entry], not_acted_upon: &mut Vec<String>) {
        let global = match find(entries, "global").map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        for key in ["query_log_file", "scrape_failure_log_file"] {
            if find(global, key).is_some() {
                not_acted_upon.push(format!("global.{key}"));
            }
        }
        if self.failure_logs {
            not_acted_upon.push("scrape_configs.scrape_failure_log_file".into());
        }
    }

    fn into_settings(self, own_jobs: usize, files: Vec<PathBuf>) -> ScrapeSettings {
        let own = self.jobs.get(..own_jobs).unwrap_or_default();
        ScrapeSettings {
            rendered: render::file(&self.global, own, &files),
            own_jobs,
            files,
            external_labels: self.global.external_labels.clone(),
            global: Box::new(self.global),
            jobs: self.jobs,
            warnings: Vec::new(),
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        let path = path.display();
        return Err(format!(
            "{path} has {bytes} bytes, more than {FILE_BYTES_MAX}"
        ));
    }
    std::fs::read_to_string(path).map_err(failed)
}
