//! From a file to [`ScrapeSettings`]: `global` first, then the jobs of the file itself, then those
//! of `scrape_config_files`, then the sections that are only checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::job::{self, Global, WrittenJob};
use super::{ScrapeConfig, ScrapeSettings, render, unused};
use icecore_settings::{Fields, Position, SourceFile, read_text};

/// Most that one of `scrape_config_files` may hold, for the same reason as the main file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Most messages about unsupported parts of jobs that are kept for answers. Generated files have
/// hundreds of such jobs.
const UNSUPPORTED_SHOWN_MAX: usize = 1000;

impl ScrapeSettings {
    /// A job that says nothing but its name: defaults, and what `global` says.
    pub(crate) fn plain_job(&self, job_name: &str) -> ScrapeConfig {
        self.global.job(job_name)
    }
}

/// Returns what the file says about scraping, given its top level. Sections that have no effect are
/// checked and recorded as not supported.
pub fn read(top: &mut Fields<'_>, variable: &dyn Fn(&str) -> String) -> ScrapeSettings {
    let source = top.source;
    let mut loader = ScrapeLoader::default();
    if let Some(global) = top.map("global") {
        loader.global = Global::read(global, variable);
    }
    loader.jobs(top, source.file);
    let own_jobs = loader.jobs.len();
    let patterns = top.texts("scrape_config_files");
    for pattern in &patterns {
        if !unused::star_is_last(pattern) {
            let reason = format!("{pattern:?} may have * in its last part only");
            top.report("scrape_config_files", reason);
        }
    }
    let patterns: Vec<PathBuf> = patterns.iter().map(|text| source.path(text)).collect();
    for pattern in &patterns {
        let at = top.position("scrape_config_files");
        loader.files(pattern, source, at);
    }
    unused::read(top, loader.global.job.metric_name_validation);
    loader.into_settings(own_jobs, patterns)
}

#[derive(Default)]
struct ScrapeLoader {
    global: Global,
    jobs: Vec<ScrapeConfig>,
    /// Where each name was given first.
    names: HashMap<String, (PathBuf, Position)>,
    /// The number of jobs that are not scraped because of a part that is not supported.
    left_out: usize,
    /// The parts of jobs that are not supported, as messages.
    unsupported: Vec<String>,
}

impl ScrapeLoader {
    /// `scrape_configs` of one file.
    fn jobs(&mut self, top: &mut Fields<'_>, path: &Path) {
        for fields in top.maps("scrape_configs") {
            let (at, subject) = (fields.position("job_name"), fields.path_of("job_name"));
            let source = fields.source;
            let WrittenJob {
                config: job,
                is_left_out,
                unsupported,
            } = job::read(fields, &self.global);
            self.unsupported.extend(unsupported);
            if let Some((file, first)) = self.names.get(&job.job_name) {
                let name = &job.job_name;
                let elsewhere = if file == path {
                    String::new()
                } else {
                    format!(" of {}", file.display())
                };
                let reason =
                    format!("the job {name:?} is given twice, first at {first}{elsewhere}");
                source.report(at, &subject, reason);
            } else if !job.job_name.is_empty() {
                self.names.insert(job.job_name.clone(), (path.into(), at));
            }
            if is_left_out {
                self.left_out += 1;
            } else {
                self.jobs.push(job);
            }
        }
    }

    /// The files that match a pattern. None is no error: they may come later.
    fn files(&mut self, pattern: &Path, main: &SourceFile<'_>, at: Position) {
        const SUBJECT: &str = "scrape_config_files";
        let Some(text) = pattern.to_str() else {
            main.report(at, SUBJECT, "the path is not valid UTF-8");
            return;
        };
        let paths = match glob::glob(text) {
            Ok(paths) => paths,
            Err(error) => {
                main.report(at, SUBJECT, format!("{text:?}: {}", error.msg));
                return;
            }
        };
        for path in paths {
            let path = match path {
                Ok(path) => path,
                Err(error) => {
                    main.report(at, SUBJECT, error.to_string());
                    continue;
                }
            };
            match read_text(&path, FILE_BYTES_MAX) {
                Ok(text) => self.file(&path, &text, main),
                Err(error) => {
                    let reason = format!("cannot read {}: {error}", path.display());
                    main.report(at, SUBJECT, reason);
                }
            }
        }
    }

    fn file(&mut self, path: &Path, text: &str, main: &SourceFile<'_>) {
        let source = SourceFile::new(path);
        if let Some(root) = source.parse(text) {
            let mut top = Fields::of(&root, "", &source);
            self.jobs(&mut top, path);
            top.finish();
        }
        main.include(source);
    }

    fn into_settings(mut self, own_jobs: usize, files: Vec<PathBuf>) -> ScrapeSettings {
        let hidden = self.unsupported.len().saturating_sub(UNSUPPORTED_SHOWN_MAX);
        if hidden > 0 {
            self.unsupported.truncate(UNSUPPORTED_SHOWN_MAX);
            let further = format!("{hidden} further parts: icecore config check lists them");
            self.unsupported.push(further);
        }
        let own = self.jobs.get(..own_jobs).unwrap_or_default();
        ScrapeSettings {
            rendered: render::file(&self.global, own, &files),
            own_jobs,
            files,
            left_out_jobs: self.left_out,
            unsupported: self.unsupported,
            external_labels: self.global.external_labels.clone(),
            global: Box::new(self.global),
            jobs: self.jobs,
        }
    }
}
