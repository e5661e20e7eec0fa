//! The recorded groups of requests.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
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

/// Returns all groups.
pub fn recorded_groups() -> Vec<Group> {
    let only = std::env::var("ICECORE_OPENTSDB_AREA").ok();
    let files = std::fs::read_dir(folder()).unwrap().flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.sort();
    let mut groups = Vec::new();
    for path in paths {
        let name = path.to_string_lossy();
        let is_recording = name.ends_with(".json") || name.ends_with(COMPRESSED);
        if is_recording && only.as_ref().is_none_or(|only| *only == area_of(&path)) {
            groups.extend(groups_in(&path));
        }
    }
    if only.is_none() {
        check_complete(&groups);
    }
    groups
}

/// The ending of a compressed recording.
const COMPRESSED: &str = ".json.gz";

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

fn folder() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/opentsdb/recordings");
    std::env::var_os("ICECORE_OPENTSDB_CONFORMANCE").map_or(default, PathBuf::from)
}

fn area_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    name.split('.').next().unwrap().to_owned()
}

/// The text of a recording, which may be compressed.
fn text_of(path: &Path) -> String {
    if !path.to_string_lossy().ends_with(COMPRESSED) {
        return std::fs::read_to_string(path).unwrap();
    }
    let mut text = String::new();
    let mut file = GzDecoder::new(File::open(path).unwrap());
    file.read_to_string(&mut text).unwrap();
    text
}

/// The groups of one file.
pub fn groups_in(path: &Path) -> Vec<Group> {
    // One answer has half of a surrogate pair, which is no text in Rust.
    let text = text_of(path).replace("\\ud83d\"", "\\ufffd\"");
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
