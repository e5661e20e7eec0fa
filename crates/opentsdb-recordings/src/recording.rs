//! The recorded groups of requests.

use std::path::{Path, PathBuf};

use icecore_wire::json::{JsonReader, SyntaxError};
use serde_json::Value;

use crate::deviations::listed_steps;

/// Requests that were sent one after the other to an empty database.
pub struct Group {
    /// The file it is from.
    pub area: String,
    pub name: String,
    /// Which settings the original had, see [`settings`](crate::settings).
    pub settings: String,
    pub steps: Vec<Value>,
}

/// All groups, or `None` where there are no recordings.
pub fn recorded_groups() -> Option<Vec<Group>> {
    let folder = folder()?;
    let only = std::env::var("ICECORE_OPENTSDB_AREA").ok();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let mut groups = Vec::new();
    for file in files {
        let path = file.path();
        let is_recording = path.extension().is_some_and(|e| e == "json");
        if is_recording && only.as_ref().is_none_or(|only| *only == area_of(&path)) {
            groups.extend(groups_in(&path));
        }
    }
    if only.is_none() {
        check_complete(&groups);
    }
    Some(groups)
}

/// All groups and steps: were some not read, nobody would miss them.
const RECORDED: (usize, usize) = (88, 3974);

fn check_complete(groups: &[Group]) {
    let steps = groups.iter().map(|group| group.steps.len()).sum();
    assert_eq!((groups.len(), steps), RECORDED, "groups and steps");
    for (area, name, steps) in listed_steps() {
        let group = groups.iter().find(|g| g.area == area && g.name == name);
        let count = group.map_or(0, |group| group.steps.len());
        let are_there = steps.iter().all(|step| *step < count);
        assert!(
            are_there,
            "a deviation of {area}: {name} {steps:?} names no step"
        );
    }
}

fn folder() -> Option<PathBuf> {
    let default =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/opentsdb-conformance");
    let folder = std::env::var_os("ICECORE_OPENTSDB_CONFORMANCE").map_or(default, PathBuf::from);
    folder.is_dir().then_some(folder)
}

fn area_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The groups of one file.
pub fn groups_in(path: &Path) -> Vec<Group> {
    // One answer has half of a surrogate pair, which is no text in Rust.
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("\\ud83d\"", "\\ufffd\"");
    let mut groups: Value = serde_json::from_str(&text).unwrap();
    keep_bodies(&mut groups, &text);
    let group = |group: &mut Value| Group {
        area: area_of(path),
        name: group["name"].as_str().unwrap().to_owned(),
        settings: group["config"].as_str().unwrap().to_owned(),
        steps: std::mem::take(group["steps"].as_array_mut().unwrap()),
    };
    groups
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .map(group)
        .collect()
}

/// Sends bodies as they were recorded: the order of members may mean something.
fn keep_bodies(groups: &mut Value, text: &str) {
    let mut bodies = Vec::new();
    let mut reader = JsonReader::new(text, 64);
    collect_bodies(&mut reader, &mut bodies).unwrap();
    let groups = groups.as_array_mut().unwrap().iter_mut();
    let steps = groups.flat_map(|group| group["steps"].as_array_mut().unwrap());
    let with_body = steps.filter(|step| step.get("body").is_some());
    for (step, body) in with_body.zip(bodies) {
        // Bodies with times are made of the value.
        if step.get("raw_body").is_none() && !body.contains("{{now") {
            step["raw_body"] = body.into();
        }
    }
}

/// The texts of all `body` members of steps.
fn collect_bodies(
    reader: &mut JsonReader<'_>,
    bodies: &mut Vec<String>,
) -> Result<(), SyntaxError> {
    reader.array(|group| {
        group.object(|group, name| {
            if name != "steps" {
                return group.skip();
            }
            group.array(|step| {
                step.object(|step, name| {
                    let is_body = name == "body";
                    let text = step.span(JsonReader::skip)?;
                    bodies.extend(is_body.then(|| text.to_owned()));
                    Ok(())
                })
            })
        })
    })
}
