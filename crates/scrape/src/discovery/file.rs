//! Targets from files, which are polled about every second.
//!
//! Polled, not watched: it works on every file system, network mounts and Kubernetes' symbolic
//! links included, and a look at a file that has not changed costs one system call.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use icecore_settings::read_text;
use tokio::sync::mpsc;

use super::{KnownGroups, groups};
use crate::config::{TargetGroup, read_groups};

const POLL: Duration = Duration::from_secs(1);

/// A file changed this recently may change again within the resolution of its modification time.
const SETTLING: Duration = Duration::from_secs(3);

/// Above any list of targets, below what a wrong path could hold.
const FILE_BYTES_MAX: u64 = 64 << 20;

const PATH_LABEL: &str = "__meta_filepath";

pub(super) async fn run(
    patterns: Vec<PathBuf>,
    refresh: Duration,
    updates: mpsc::Sender<Vec<TargetGroup>>,
) {
    let mut files = Files {
        patterns,
        known: BTreeMap::new(),
    };
    let mut read_at: Option<Instant> = None;
    loop {
        let all = read_at.is_none_or(|at| at.elapsed() >= refresh);
        if all {
            read_at = Some(Instant::now());
        }
        let looked = tokio::task::spawn_blocking(move || {
            let changed = files.poll(all);
            (files, changed)
        });
        // Only a process that ends cancels a task that has begun.
        let Ok((back, changed)) = looked.await else {
            return;
        };
        files = back;
        if !changed.is_empty() && updates.send(changed).await.is_err() {
            return;
        }
        tokio::select! {
            () = updates.closed() => return,
            () = tokio::time::sleep(POLL.min(refresh)) => {}
        }
    }
}

struct Files {
    patterns: Vec<PathBuf>,
    known: BTreeMap<PathBuf, File>,
}

#[derive(Default)]
struct File {
    groups: KnownGroups,
    /// As it was when it was read; `None` when it has to be read again.
    stamp: Option<Stamp>,
}

#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Files {
    /// The groups that have changed. `all` reads also those files that seem to be what they were.
    fn poll(&mut self, all: bool) -> Vec<TargetGroup> {
        let mut changed = Vec::new();
        let paths = self.paths();
        self.known.retain(|path, file| {
            let stays = paths.contains(path);
            if !stays {
                changed.extend(file.groups.replace(Vec::new()));
            }
            stays
        });
        for path in paths {
            let file = self.known.entry(path.clone()).or_default();
            changed.extend(file.poll(&path, all));
        }
        changed
    }

    fn paths(&self) -> Vec<PathBuf> {
        let found = self.patterns.iter().filter_map(|pattern| {
            let paths = glob::glob(pattern.to_str()?).ok()?;
            Some(paths.filter_map(Result::ok))
        });
        let mut paths: Vec<_> = found.flatten().collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

impl File {
    fn poll(&mut self, path: &Path, all: bool) -> Vec<TargetGroup> {
        let metadata = std::fs::metadata(path);
        let stamp = metadata.as_ref().ok().map(Stamp::of);
        if !all && stamp.is_some() && stamp == self.stamp {
            return Vec::new();
        }
        self.stamp = stamp.filter(Stamp::is_settled);
        let read = metadata
            .map_err(|error| error.to_string())
            .and_then(|_| read(path));
        match read {
            Ok(groups) => self.groups.replace(groups),
            Err(reason) => {
                self.groups.keep(&path.display().to_string(), reason);
                Vec::new()
            }
        }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            inode: inode(metadata),
        }
    }

    fn is_settled(&self) -> bool {
        let age = self.modified.and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age > SETTLING)
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

fn read(path: &Path) -> Result<Vec<TargetGroup>, String> {
    let text = read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let is_json = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let name = path.display().to_string();
    let mut groups = if is_json {
        groups::from_json(text.as_bytes(), &name)?
    } else {
        read_groups(&text, path)?
    };
    for group in &mut groups {
        group.labels.push((PATH_LABEL.into(), name.clone()));
    }
    Ok(groups)
}
